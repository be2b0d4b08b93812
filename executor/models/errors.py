"""What can be wrong with a model that somebody asks for."""


class ModelError(Exception):
    """A model cannot be loaded or run as asked; the text says what is wrong and where."""


class UnsupportedModel(ModelError):
    """The model wants something that is not built: a family, a rope type, a shape, an activation."""


class DamagedCheckpoint(ModelError):
    """A file of the checkpoint is missing, cut short, or not what its index says."""


class MissingTensor(ModelError):
    """The checkpoint lacks a tensor that the model needs, or has it in another shape."""


class UnusedTensor(ModelError):
    """The checkpoint holds a tensor that the model would leave out."""
