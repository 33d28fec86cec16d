"""The commands that fit one named kernel."""
