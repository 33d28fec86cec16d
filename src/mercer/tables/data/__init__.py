"""What a table is made of: columns, target, weights, and their encoding as numbers."""
