"""Transforms of images, under torchvision's names."""
from volta.vision.transforms import functional
from volta.vision.transforms.functional import InterpolationMode
from volta.vision.transforms.plain import (
    CenterCrop,
    Compose,
    ConvertImageDtype,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    Lambda,
    Normalize,
    Pad,
    PILToTensor,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
)
from volta.vision.transforms.randomly import (
    ColorJitter,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomOrder,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
)

__all__ = ["CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "FiveCrop", "GaussianBlur", "Grayscale", "InterpolationMode",
           "Lambda", "Normalize", "PILToTensor", "Pad", "RandomAffine", "RandomApply", "RandomChoice", "RandomCrop", "RandomErasing",
           "RandomGrayscale", "RandomHorizontalFlip", "RandomOrder", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Resize",
           "TenCrop", "ToPILImage", "ToTensor", "functional"]
