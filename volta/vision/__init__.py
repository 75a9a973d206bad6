"""Images for training: transforms, readers of datasets, grids and files, under the names of torchvision. Pillow is of use, not needed."""
from volta.vision import datasets, transforms, utils

__all__ = ["datasets", "transforms", "utils"]
