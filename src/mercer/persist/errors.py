"""The one error of this room."""


class ModelFileError(ValueError):
    """The file is not a model file that this version of mercer can and may load."""
