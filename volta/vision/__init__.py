"""Images for training: transforms, readers of datasets, networks, grids and files, under the names of torchvision. Pillow is of use, not
needed."""
from volta.vision import datasets, models, ops, transforms, utils

__all__ = ["datasets", "models", "ops", "transforms", "utils"]
