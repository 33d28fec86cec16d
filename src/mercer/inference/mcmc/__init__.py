"""The posterior itself, by draws of the latent values."""
