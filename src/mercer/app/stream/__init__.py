"""The command ``mercer stream``: rows in, predictions out, checkpoints between."""
