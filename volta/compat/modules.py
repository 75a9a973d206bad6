"""The modules that scripts know as torch and torchvision, each a view of one of Volta's."""
from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec
from os import PathLike
from pathlib import Path
from types import ModuleType

VERSIONS = {"torch": "2.13.0", "torchvision": "0.28.0"}         # the releases whose names are here
ROOTS = (*VERSIONS, "functorch")
# Modules that have another name here, the longest that fits. A name that ends in "." serves all modules under it.
PLACES = {
    "torch": "volta",
    "torch.nn.modules": "volta.nn",
    "torch.nn.modules.": "volta.nn",
    "torch.nn.utils.rnn": "volta.nn.utils.rnn",
    "torch.nn.utils.clip_grad": "volta.nn.utils",
    "torch.nn.utils.weight_norm": "volta.nn.utils",
    "torch.nn.utils.spectral_norm": "volta.nn.utils",
    "torch.nn.utils.convert_parameters": "volta.nn.utils",
    "torch.optim.": "volta.optim",
    "torch.optim._functional": "volta.compat.steps",
    "torch.optim.lr_scheduler": "volta.optim.lr_scheduler",
    "torch.optim.swa_utils": "volta.optim.swa_utils",
    "torch.utils.data": "volta.data",
    "torch.utils.data.": "volta.data",
    "torch.utils.data._utils.collate": "volta.data.collate",
    "torch.utils.data._utils.pin_memory": "volta.compat.pinned",
    "torch.utils.model_zoo": "volta.hub",
    "torch.autograd.": "volta.autograd",
    "torch.autograd.functional": "volta.derivatives",
    "torch.autograd.forward_ad": "volta.forward_ad",
    "torch.autograd.gradcheck": "volta.testing",
    "torch.autograd.graph": "volta.saved",
    "torch.autograd.profiler": "volta.compat.profiler",
    "torch.overrides": "volta.compat.overrides",
    "torch.library": "volta.compat.library",
    "torch.ops": "volta.compat.operators",
    "torch.storage": "volta.storage",
    "torch.utils._python_dispatch": "volta.compat.unused",
    "torch.utils.tensorboard.writer": "volta.utils.tensorboard",
    "torch.utils._contextlib": "volta.compat.decorating",
    "torch.utils.cpp_extension": "volta.compat.cpp_extension",
    "torch.utils.flop_counter": "volta.compat.flop_counter",
    "torch._higher_order_ops": "volta.compat.unused",
    "torch._higher_order_ops.": "volta.compat.unused",
    "torch.distributed.autograd": "volta.compat.unused",
    "torch.distributed.device_mesh": "volta.compat.unused",
    "torch.distributed.elastic": "volta.compat.unused",
    "torch.distributed.elastic.multiprocessing": "volta.compat.unused",
    "torch.distributed.elastic.multiprocessing.errors": "volta.compat.elastic",
    "torch.distributed.fsdp": "volta.compat.unused",
    "torch.distributed.fsdp.api": "volta.compat.unused",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "volta.compat.unused",
    "torch.distributed.nn": "volta.compat.unused",
    "torch.distributed.optim": "volta.compat.unused",
    "torch.distributed.rpc": "volta.compat.unused",
    "torch.functional": "volta",
    "torch.futures": "volta.compat.futures",
    "torch.fx.experimental": "volta.compat.unused",
    "torch.fx.experimental.": "volta.compat.unused",
    "torch.nn._reduction": "volta.compat.reductions",
    "torch.nn.common_types": "volta.compat.sizes",
    "torch.nn.parallel.scatter_gather": "volta.compat.unused",
    "torch._subclasses": "volta.compat.unused",
    "torch._subclasses.": "volta.compat.unused",
    "torch.torch_version": "volta.compat.version",
    "torch.version": "volta.compat.version",
    "torch._tensor_str": "volta.compat.unused",
    "torch.distributed.tensor": "volta.compat.unused",
    "torch.distributed.tensor.": "volta.compat.unused",
    "torch.distributed._composable": "volta.compat.unused",
    "torch.distributed._composable.": "volta.compat.unused",
    "torch.distributed._tensor": "volta.compat.unused",
    "torch.distributed._tensor.": "volta.compat.unused",
    "torch.ao": "volta.compat.unused",
    **{f"torch.{name}": "volta.compat.unused" for above in ("ao.", "") for name in (
        f"{above}quantization", f"{above}quantization.observer", f"{above}quantization.qconfig")},
    "torchvision.datasets.utils": "volta.compat.unused",
    "torch.fft": "volta.compat.unused",
    "torch.utils.dlpack": "volta",
    "torch.utils._foreach_utils": "volta.compat.foreach",
    "torch._utils": "volta.compat.flat",
    "torch._C": "volta.compat.internal",
    "torch._C._functorch": "volta.compat.samples",
    "torch._guards": "volta.compat.unused",
    "torch._ops": "volta.compat.unused",
    "torch._vmap_internals": "volta.compat.samples",
    "torch._functorch": "volta.compat.unused",
    "torch._functorch.vmap": "volta.compat.samples",
    "torch.compiler": "volta.compat.compiler",
    "torch._dynamo": "volta.compat.compiler",
    "torch._dynamo.": "volta.compat.compiler",
    "torch._dynamo.utils": "volta.compat.compiler",
    "torch._inductor": "volta.compat.compiler",
    "torch._inductor.": "volta.compat.compiler",
    "torch.utils._pytree": "volta.compat.pytree",
    "functorch": "volta.compat.functorch",
    "safetensors.torch": "volta.compat.safetensors",
    "torch.jit.annotations": "typing",
    "torch.nn.attention.flex_attention": "volta.nn.flex_attention",
    "torch.nn.attention": "volta.backends.attention",
    "torch.nn.attention.bias": "volta.nn.causal",
    "torch.nn.utils._named_member_accessor": "volta.compat.members",
    "torch.nn.utils._per_sample_grad": "volta.compat.per_sample",
    "torch.nn.utils.init": "volta.nn.utils",
    "torch.nn.utils.memory_format": "volta.nn.utils",
    "torch.nn.parallel.": "volta.nn.parallel",
    "torch.utils.hooks": "volta.autograd",
    "torch.cuda.nvtx": "volta.compat.nvtx",
    "torch.cuda.random": "volta.cuda",
    "torch.cuda.memory": "volta.cuda",
    "torch.cuda.amp": "volta.amp.cuda",
    "torch.cuda.amp.": "volta.amp.cuda",
    "torch.cpu": "volta.compat.cpu",
    "torch.cpu.amp": "volta.amp.cpu",
    "torch.cpu.amp.": "volta.amp.cpu",
    "torch.amp.": "volta.amp",
    "torch.distributions.": "volta.distributions",
    "torch.mps": "volta.backends.mps",
    "torch.distributions.constraints": "volta.distributions.constraints",
    "torch.distributions.transforms": "volta.distributions.transforms",
    "torch.distributions.constraint_registry": "volta.distributions.constraint_registry",
    "torch.distributions.utils": "volta.distributions.utils",
    "torch.return_types": "volta.compat.return_types",
    "torch.serialization": "volta.io.serialization",
    "torch.types": "volta.types",
    "torch.xpu": "volta.backends.mps",
    "torchvision": "volta.vision",
    "torchvision.transforms.": "volta.vision.transforms",
    "torchvision.transforms.functional": "volta.vision.transforms.functional",
    "torchvision.transforms.v2": "volta.vision.transforms.v2",
    "torchvision.transforms.v2.functional": "volta.vision.transforms.functional",
    "torchvision.datasets.": "volta.vision.datasets",
    "torchvision.datasets.folder": "volta.vision.datasets.folder",
    "torchvision.ops.": "volta.vision.ops",
    "torchvision.utils": "volta.vision.utils",
    "torchvision.models.segmentation.": "volta.vision.models.segmentation",
    "torchvision.models._utils": "volta.vision.models.intermediate",
}
# Within these, modules that the one above serves are those that PyTorch has: `from torch.optim import Bogus` is to find nothing.
_DEEP = ("torch.nn", "torch.optim", "torch.utils.data", "torch.autograd", "torch.distributions", "torch.cuda.amp", "torch.amp",
         "torchvision")
WHERE = "docs/coverage.md in Volta's sources lists which of PyTorch's names exist, and why others do not"
_HIDDEN = {"torch.io", "torch.errors", "torch.gpu", "torch.methods", "torch.saved", "torch.shapes", "torch.compat"}


def place(name: str) -> str:
    """The name here of a module of PyTorch."""
    if name in PLACES:
        return PLACES[name]
    parents = name.split(".")
    for end in range(len(parents) - 1, 0, -1):
        parent = ".".join(parents[:end])
        if parent + "." in PLACES:
            return PLACES[parent + "."]
        if parent in PLACES:
            return ".".join([PLACES[parent], *parents[end:]])
    raise KeyError(name)


def _is_served_by_parent(name: str) -> bool:
    return "." in name and place(name) == place(name.rpartition(".")[0])


def is_served(name: str) -> bool:
    """Whether a module of PyTorch's may be looked for at its place: one that the module above serves must be one that PyTorch has."""
    return not (name.startswith(_DEEP) and _is_served_by_parent(name)) or (
        name.rpartition(".")[2] in importlib.import_module("volta.compat.inner").MODULES)


class View(ModuleType):
    """A module under PyTorch's name: its names are those of a module of Volta."""

    def __init__(self, name: str, target: ModuleType) -> None:
        super().__init__(name, target.__doc__)
        self.__dict__["_target"] = target
        self.__dict__["_absent"] = set()                # names that were looked for in vain: scripts ask again at each step
        self.__dict__["__path__"] = []
        self.__dict__["__file__"] = f"{getattr(target, '__file__', None)} (Volta in place of {name})"

    def __getattr__(self, name: str) -> object:
        if name in self._absent or f"{self.__name__}.{name}" in _HIDDEN:
            raise _missing(self.__name__, name)
        try:
            value = getattr(self._target, name)
            if isinstance(value, ModuleType) and "_target" in vars(value):      # PyTorch's name, imported below volta: volta.compat.deep
                raise AttributeError(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            inner = importlib.import_module("volta.compat.inner")
            refused = importlib.import_module("volta.compat.refused").NAMES.get(self.__name__, {})
            if name in refused:
                return refused[name]
            deep = self.__name__.startswith(_DEEP)
            if name in inner.OWN.get(self.__name__, ()):
                return getattr(importlib.import_module(inner.OWN[self.__name__][name]), name)
            if deep and name in inner.NAMES:
                return inner.NAMES[name]
            inside = deep and name in inner.MODULES and name != self.__name__.rpartition(".")[2]    # torch.optim.adam.adam is no module
            below = f"{self.__name__}.{name}"
            named = below in PLACES or below in importlib.import_module("volta.compat.refused").NAMES
            if named or inside or not _is_served_by_parent(below):
                try:                                    # a module that scripts use without importing it
                    return importlib.import_module(f"{self.__name__}.{name}")
                except ModuleNotFoundError:
                    pass
            self._absent.add(name)
            raise _missing(self.__name__, name) from None
        if name == "__all__":                           # of a module that has fewer modules in it than the one here
            return [each for each in value if hasattr(self, each)]
        if not _is_ours(value):
            return value
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError:                     # what a module here imports is no module of PyTorch's
            self._absent.add(name)
            raise _missing(self.__name__, name) from None

    def __setattr__(self, name: str, value: object) -> None:
        """Settings, as of `torch.backends.cudnn`, are those of the module here; layers call what a program puts into nn.functional."""
        target = self._target.__name__
        if not name.startswith("__") and (target.startswith("volta.backends.") or target == "volta.nn.functional"):
            setattr(self._target, name, value)
            self.__dict__.pop(name, None)
        elif not isinstance(value, View) or not callable(getattr(self, name, None)):      # alexnet is a module and its function
            super().__setattr__(name, value)

    def publish(self) -> None:
        """Make the names that are there now entries of the module's dict, which scripts look into: `models.__dict__[arch]`."""
        if not self._target.__name__.startswith("volta.backends"):      # settings change
            self.__dict__.update({name: value for name, value in vars(self._target).items() if not name.startswith("_") and not isinstance(
                value, ModuleType) and f"{self.__name__}.{name}" not in _HIDDEN})

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not _is_ours(getattr(self._target, name, None)) or hasattr(self, name)]


def _is_ours(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "volta"


def _missing(module: str, name: str) -> AttributeError:
    return AttributeError(_absence(f"{module}.{name}"), name=name)


def _absence(name: str) -> str:
    reason = importlib.import_module("volta.compat.refused").ABSENT.get(name)
    return f"{name} does not exist in Volta{f': {reason}' if reason else ''}; {WHERE}"


class Finder:
    """Finds `torch` and `torchvision` in Volta, before Python looks for them anywhere else."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The place of a module of PyTorch; None for other modules. Raises: ModuleNotFoundError where Volta has none for it."""
        if name.partition(".")[0] not in ROOTS and name != "safetensors.torch":
            return None
        try:
            if not is_served(name):
                raise ModuleNotFoundError(name, name="volta")
            found = importlib.import_module(place(name))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("volta"):
                raise
            raise ModuleNotFoundError(_absence(name), name=name) from None
        return ModuleSpec(name, _Loader(found), origin=found.__file__, is_package=True)

    def find_distributions(self, context: metadata.DistributionFinder.Context) -> Iterator[metadata.Distribution]:
        """What packages ask of the installed torch and torchvision: their versions."""
        return (_Distribution(name) for name in VERSIONS if context.name in (None, name))


class _Distribution(metadata.Distribution):
    def __init__(self, name: str) -> None:
        self._files = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSIONS[name]}\n", "top_level.txt": name}

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: str | PathLike[str]) -> Path:
        return Path(path)


class _Loader:
    def __init__(self, target: ModuleType) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return View(spec.name, self.target)

    def exec_module(self, module: View) -> None:
        module.publish()
        if module.__name__ == "torch":
            module.__dict__.update(importlib.import_module("volta.compat.names").TORCH, torch=module)     # PyTorch's imports itself
        elif module.__name__ == "torchvision":
            module.__dict__["__version__"] = VERSIONS["torchvision"]
        sys.modules[module.__name__] = module
