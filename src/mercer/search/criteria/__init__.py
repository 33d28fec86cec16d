"""What a search maximises, and its gradient."""
