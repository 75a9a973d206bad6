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
    LinearTransformation,
    Normalize,
    Pad,
    PILToTensor,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
)
from volta.vision.transforms.policies import AugMix, AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from volta.vision.transforms.randomly import (
    ColorJitter,
    ElasticTransform,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
)

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "ElasticTransform",
           "FiveCrop", "GaussianBlur", "Grayscale", "InterpolationMode", "Lambda", "LinearTransformation", "Normalize", "PILToTensor",
           "Pad", "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop",
           "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder",
           "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize", "RandomVerticalFlip", "Resize",
           "TenCrop", "ToPILImage", "ToTensor", "TrivialAugmentWide", "functional"]
