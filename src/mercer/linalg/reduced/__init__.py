"""Few points that stand for all rows: the reduced prior, and how its points are chosen."""
