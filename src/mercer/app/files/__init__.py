"""Files of the commands: tables in blocks, outputs."""
