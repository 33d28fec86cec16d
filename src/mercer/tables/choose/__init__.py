"""Which machine answers a table best: candidates, screening, finalists, ranking."""
