"""Models by name, and their published weights: which files there are, how their images are prepared, how a model is built with them."""
from __future__ import annotations

import enum
import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volta.dtypes import float32
from volta.errors import ArgumentError
from volta.hub import load_state_dict_from_url
from volta.nn.module import Module
from volta.vision.transforms import functional as T
from volta.vision.transforms.functional import InterpolationMode

__all__ = ["Weights", "WeightsEnum", "get_model", "get_model_builder", "get_model_weights", "get_weight", "list_models"]

_BUILDERS: dict[str, Callable[..., Module]] = {}
_WEIGHTS: dict[str, type[WeightsEnum]] = {}


class ImageClassification(Module):
    """Prepares an image, of Pillow or a tensor, as the images were on which weights were trained."""

    def __init__(self, *, crop_size: int, resize_size: int = 256, mean: tuple[float, ...] = (0.485, 0.456, 0.406),
                 std: tuple[float, ...] = (0.229, 0.224, 0.225), interpolation: InterpolationMode = InterpolationMode.BILINEAR,
                 antialias: bool | None = True) -> None:
        super().__init__()
        self.crop_size, self.resize_size, self.mean, self.std = [crop_size], [resize_size], list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Any:
        """The tensor that a model takes, without its batch dimension."""
        img = T.center_crop(T.resize(img, self.resize_size, self.interpolation, antialias=self.antialias), self.crop_size)
        pixels = T.pil_to_tensor(img) if T.is_pil(img) else img
        return T.normalize(T.convert_image_dtype(pixels, float32), self.mean, self.std)


class SemanticSegmentation(Module):
    """Prepares an image, of Pillow or a tensor, for a network that names the class of each pixel."""

    def __init__(self, *, resize_size: int | None, mean: tuple[float, ...] = (0.485, 0.456, 0.406),
                 std: tuple[float, ...] = (0.229, 0.224, 0.225), interpolation: InterpolationMode = InterpolationMode.BILINEAR,
                 antialias: bool | None = True) -> None:
        super().__init__()
        self.resize_size, self.mean, self.std = None if resize_size is None else [resize_size], list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Any:
        """The tensor that a model takes, without its batch dimension."""
        if self.resize_size is not None:
            img = T.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        pixels = T.pil_to_tensor(img) if T.is_pil(img) else img
        return T.normalize(T.convert_image_dtype(pixels, float32), self.mean, self.std)


@dataclass(frozen=True)
class Weights:
    """A published file, and the arguments of `ImageClassification` that go with it."""
    prepares = ImageClassification
    file: str
    crop_size: int = 224
    resize_size: int = 256
    interpolation: InterpolationMode = InterpolationMode.BILINEAR
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class PixelWeights:
    """A published file of a network that names the class of each pixel, and the arguments of `SemanticSegmentation`."""
    prepares = SemanticSegmentation
    file: str
    resize_size: int = 520


class WeightsEnum(enum.Enum):
    """The published weights of one model."""

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """The member that is meant, by itself or by its name. Raises: TypeError, KeyError."""
        if isinstance(obj, str):
            return cls[obj.replace(cls.__name__ + ".", "")]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(f"Invalid Weight class provided; expected {cls.__name__} but received {type(obj).__name__}.")
        return obj

    @property
    def url(self) -> str:
        """Where the file is."""
        return f"https://download.pytorch.org/models/{self.value.file}"

    @property
    def transforms(self) -> Callable[[], Module]:
        """Makes what prepares images."""
        return functools.partial(self.value.prepares, **{name: value for name, value in vars(self.value).items() if name != "file"})

    def get_state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The weights: `volta.hub.load_state_dict_from_url` has the arguments."""
        return load_state_dict_from_url(self.url, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


def published(name: str, *files: str | Weights, default: int = -1, renamed: Mapping[str, str] | None = None,
              auxiliary: bool | None = None, sized: bool = False,
              **named: Weights) -> Callable[[Callable[..., Module]], Callable[..., Any]]:
    """Gives a function that builds a model the arguments `weights` and `progress`, and the model its name in the lists.

    `files` are IMAGENET1K_V1 and, where there are two, IMAGENET1K_V2. `renamed` says which parts of keys in files have another name in
    the model, by regular expressions. `auxiliary` says whether a model keeps the heads of training, which files have, by default;
    `sized` that it is made for images of one size.
    """
    versions = {**{f"IMAGENET1K_V{i + 1}": file if isinstance(file, Weights) else Weights(file) for i, file in enumerate(files)}, **named}
    members: Any = WeightsEnum(name, {**versions, "DEFAULT": [*versions.values()][default]})
    _WEIGHTS[name] = members

    def decorate(build):
        @functools.wraps(build)
        def make(pretrained: Any = None, *, weights: Any = None, progress: bool = True, **options: Any) -> Module:
            if isinstance(pretrained, bool):
                pretrained = [*members][0] if pretrained else None
            chosen = members.verify(pretrained if weights is None else weights)
            if chosen is None:
                return build(**options)
            if options.setdefault("num_classes", 1000) != 1000:
                raise ValueError(f"The parameter 'num_classes' expected value 1000 but got {options['num_classes']} instead.")
            keeps = auxiliary is None or options.get("aux_logits", auxiliary)
            if auxiliary is not None:
                options = {"transform_input": True, **options, "aux_logits": True, "init_weights": False}
            if sized:
                options.setdefault("image_size", chosen.value.crop_size)
            model = build(**options)
            state = chosen.get_state_dict(progress=progress, check_hash=True)
            for pattern, replacement in (renamed or {}).items():
                state = {re.sub(pattern, replacement, key): value for key, value in state.items()}
            model.load_state_dict(state)
            if not keeps:
                model.drop_auxiliary()
            return model
        make.weights = members
        _BUILDERS[build.__name__] = make
        return make
    return decorate


def list_models(module: Any = None, include: str | Iterable[str] | None = None, exclude: str | Iterable[str] | None = None) -> list[str]:
    """The names of the models, of one of the modules, that fit one of the patterns `include` and none of `exclude`."""
    def fits(name, patterns):
        return any(fnmatch.fnmatch(name, pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns))
    return sorted(name for name in _BUILDERS if (module is None or hasattr(module, name)) and (not include or fits(name, include))
                  and not (exclude and fits(name, exclude)))


def get_model_builder(name: str) -> Callable[..., Module]:
    """The function of this name. Raises: ValueError."""
    if name.lower() not in _BUILDERS:
        raise ValueError(f"Unknown model {name}")
    return _BUILDERS[name.lower()]


def get_model(name: str, **config: Any) -> Module:
    """The model of this name.

    >>> volta.vision.models.get_model("squeezenet1_1", num_classes=10)(volta.ones(1, 3, 64, 64)).shape
    volta.Size([1, 10])
    """
    return get_model_builder(name)(**config)


def get_model_weights(name: str | Callable[..., Module]) -> type[WeightsEnum]:
    """The weights of a model, given by name or by its function."""
    return getattr(get_model_builder(name) if isinstance(name, str) else name, "weights")  # noqa: B009 (a function's attribute)


def get_weight(name: str) -> WeightsEnum:
    """The weights of this full name, such as "ResNet50_Weights.IMAGENET1K_V1". Raises: ArgumentError."""
    model, _, version = name.partition(".")
    if model not in _WEIGHTS or version not in _WEIGHTS[model].__members__:
        raise ArgumentError(f"get_weight: there are no weights {name!r}")
    return _WEIGHTS[model][version]


def __getattr__(name: str) -> Any:
    """The weights' classes, such as ResNet50_Weights."""
    if name in _WEIGHTS:
        return _WEIGHTS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
