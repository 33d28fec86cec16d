"""The models: at a version, with their writer, in their logs, on the shelf."""
