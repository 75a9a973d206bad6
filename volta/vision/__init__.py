"""Images for training: transforms, readers of datasets, networks, grids and files, under the names of torchvision. Pillow is of use, not
needed."""
from volta.vision import datasets, io, models, ops, transforms, utils

__all__ = ["datasets", "io", "models", "ops", "transforms", "utils"]
