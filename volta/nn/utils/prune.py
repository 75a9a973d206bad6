"""Pruning: a parameter becomes `name_orig` times a mask, the buffer `name_mask`, computed before each forward; `remove` makes it last."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from volta.autograd import no_grad
from volta.errors import ArgumentError, AssertedShapeError, ShapeError
from volta.nn.module import Module
from volta.nn.utils.parameters import parameters_to_vector
from volta.ops.creation import ones_like, rand, rand_like, zeros_like
from volta.ops.norms import norm
from volta.ops.sort import topk
from volta.tensor import Tensor

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer", "RandomStructured",
           "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
           "random_structured", "random_unstructured", "remove"]

M = TypeVar("M", bound=Module)


class BasePruningMethod:
    """A way to prune: subclasses define `compute_mask`, and `PRUNING_TYPE`: what further pruning of one tensor is to choose from, the
    elements ("unstructured") or the slices ("structured") that are left, or everything ("global")."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """The hook before forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros and ones of the shape of `t`, which says what is important; `default_mask` is what has been pruned already."""
        raise NotImplementedError(f"{type(self).__name__}: define compute_mask(self, t, default_mask)")

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """`t` pruned, without a module."""
        return t * self.compute_mask(_scores(importance_scores, t), ones_like(t) if default_mask is None else default_mask)

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> BasePruningMethod:
        """Prune the parameter `name`, further where it has been pruned already; arguments are those of the class."""
        before = next(((key, hook) for key, hook in module._forward_pre_hooks.items()
                       if isinstance(hook, BasePruningMethod) and hook._tensor_name == name), None)
        method, tensor = cls(*args, **kwargs), getattr(module, name)
        method._tensor_name = name
        if before is not None:
            methods = before[1] if isinstance(before[1], PruningContainer) else PruningContainer(before[1])
            methods.add_pruning_method(method)
            method, done = methods, getattr(module, name + "_mask")
        with no_grad():
            done = ones_like(tensor) if before is None else done
            mask = method.compute_mask(_scores(importance_scores, tensor).detach(), done.clone())
        if before is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", tensor)
        else:
            del module._forward_pre_hooks[before[0]]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def remove(self, module: Module) -> None:
        """Make the pruned values those of the parameter, under its own name."""
        name = self._tensor_name
        original, pruned = getattr(module, name + "_orig"), self.apply_mask(module)
        original.data = pruned.detach()
        for held in (name, name + "_orig", name + "_mask"):
            delattr(module, held)
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several ways to prune one tensor, the last of which chooses from what the others left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """One more way. Raises: TypeError, ArgumentError for one of another tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"PruningContainer: needs a BasePruningMethod, got {type(method).__name__}")
        name = self.__dict__.setdefault("_tensor_name", getattr(method, "_tensor_name", None))
        if name != getattr(method, "_tensor_name", None):
            raise ArgumentError(f"PruningContainer: prunes {name!r}, got a method for {method._tensor_name!r}")
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, index):
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far with the last way applied to what is left."""
        method = self._pruning_methods[-1]
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask)
        left: Any = default_mask == 1
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            others = [d for d in range(t.ndim) if d != dim]
            left = (*(slice(None),) * dim, (default_mask.sum(others) != 0).nonzero().squeeze(1))
        mask = default_mask.to(t.dtype).clone()
        mask[left] = method.compute_mask(t[left], default_mask[left]).to(t.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing: for a mask of ones to start with."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it is."""
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks. Raises: ShapeError where their shapes differ."""
        if self.mask.shape != default_mask.shape:
            raise AssertedShapeError(f"custom_from_mask: needs a mask {default_mask.shape}, got {self.mask.shape}")
        return default_mask * self.mask.to(default_mask.dtype)


class _Amount(BasePruningMethod):
    """Prunes a number of elements, or a share."""

    def __init__(self, amount: float) -> None:
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise TypeError(f"{type(self).__name__}: amount must be a number, got {amount!r}")
        if amount < 0 or isinstance(amount, float) and not amount <= 1:
            raise ArgumentError(f"{type(self).__name__}: amount must be an integer >= 0 or a share in [0, 1], got {amount}")
        self.amount = amount

    def count(self, size: int) -> int:
        """How many of `size` to prune. Raises: ArgumentError for more than there are."""
        n = self.amount if isinstance(self.amount, int) else round(self.amount * size)
        if n > size:
            raise ArgumentError(f"{type(self).__name__}: amount {n} is more than the {size} that there are")
        return n

    def importance(self, t: Tensor) -> Tensor:
        """What is the least where pruning is to begin."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the least important elements."""
        n = self.count(t.numel())
        index = topk(self.importance(t).reshape(-1), n, largest=False).indices
        return default_mask.reshape(-1).index_fill(0, index, 0).reshape(default_mask.shape) if n else default_mask.clone()


class RandomUnstructured(_Amount):
    """Prunes elements at random."""

    def importance(self, t: Tensor) -> Tensor:
        """Random numbers."""
        return rand_like(t)


class L1Unstructured(_Amount):
    """Prunes the elements of the smallest magnitude."""

    def importance(self, t: Tensor) -> Tensor:
        """Magnitudes."""
        return abs(t)


class _Structured(_Amount):
    """Prunes slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the least important slices. Raises: ShapeError for fewer than two dimensions, IndexError for a wrong one."""
        if t.ndim < 2:
            raise ShapeError(f"{type(self).__name__}: needs a tensor of at least 2 dimensions, got {t.shape}")
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"{type(self).__name__}: there is no dimension {self.dim} in {t.shape}")
        size = t.shape[self.dim]
        n = self.count(size)
        kept = topk(self.importance(t), size - n).indices
        return default_mask * zeros_like(t).index_fill(self.dim, kept, 1).to(default_mask.dtype) if n else default_mask


class RandomStructured(_Structured):
    """Prunes slices at random."""

    def importance(self, t: Tensor) -> Tensor:
        """Random numbers."""
        return rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices of the smallest `n`-norm."""

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def importance(self, t: Tensor) -> Tensor:
        """Norms."""
        return norm(t, self.n, tuple(d for d in range(t.ndim) if d != self.dim % t.ndim))


def identity(module: M, name: str) -> M:
    """Begin to prune: a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune a number or share of the parameter's elements at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: Tensor | None = None) -> M:
    """Prune a number or share of the parameter's elements, those of the smallest magnitude or score."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune a number or share of the slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: M, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None) -> M:
    """Prune a number or share of the slices along `dim`, those of the smallest `n`-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune where `mask` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
                        importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any) -> None:
    """Prune the elements of several parameters, (module, name), as if they were one.

    Raises: TypeError for a method that prunes slices.
    """
    parameters, scores = list(parameters), importance_scores or {}
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: pruning_method must prune elements, got {pruning_method.__name__}")
    tensors = [getattr(module, name) for module, name in parameters]
    masks = [getattr(module, name + "_mask", None) for module, name in parameters]
    with no_grad():
        values = parameters_to_vector([scores.get(place, t) for place, t in zip(parameters, tensors)])
        done = parameters_to_vector([ones_like(t) if mask is None else mask for t, mask in zip(tensors, masks)])
        pieces = PruningContainer(method).compute_mask(values, done).split([t.numel() for t in tensors])
    for (module, name), t, piece in zip(parameters, tensors, pieces):
        custom_from_mask(module, name, piece.reshape(t.shape))


def remove(module: M, name: str) -> M:
    """Make the pruning of a parameter last: it is a parameter of its own again. Raises: ArgumentError where it is not pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            with no_grad():
                hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ArgumentError(f"remove: {name!r} of {type(module).__name__} is not pruned")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())


def _scores(scores, t):
    if scores is not None and scores.shape != t.shape:
        raise AssertedShapeError(f"prune: importance_scores must have the parameter's shape {t.shape}, got {scores.shape}")
    return t if scores is None else scores
