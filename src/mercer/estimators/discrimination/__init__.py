"""Maximum-entropy discrimination."""
