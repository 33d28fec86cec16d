"""The relevance search: which functions stay."""
