"""Which rows to observe next, and what they change: proposals, conditioning, query rules."""
