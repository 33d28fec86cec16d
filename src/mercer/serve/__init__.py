"""``mercer serve``: models behind HTTP that learn from streams and never lose a batch."""
