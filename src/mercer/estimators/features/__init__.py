"""A kernel as columns, for machines that are linear in them."""
