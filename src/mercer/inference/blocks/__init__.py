"""Inference by sums over blocks of rows: what each block answers, and what is made of the sums."""
