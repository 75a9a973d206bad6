"""The Tensor: operators, methods, conversion to NumPy and Python, repr. No mathematics: methods are the functions of `volta.ops`."""
from __future__ import annotations

import copy
import functools
import weakref
from typing import TYPE_CHECKING

import numpy as np

from volta import autograd
from volta._kernels import core
from volta._kernels.core import graph, inplace
from volta.device import device as as_device
from volta.dtypes import as_dtype, float16, float32, float64, int32, int64, to_numpy, uint8
from volta.dtypes import bool_ as bool_dtype
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta.ops import copy as copies
from volta.ops import creation, einsum, indexing, join, linalg, math, reduce, subscript, table, view
from volta.ops.checks import explained
from volta.ops.records import math as records
from volta.ops.records.create import normal_op, uniform_op
from volta.ops.records.view import permute_op
from volta.shapes import as_dim, broadcasts_to

if TYPE_CHECKING:
    from volta.types import DTypeLike, Number


class Tensor(graph.Operators):
    """An n-dimensional array on a device, with its place in the autograd graph. Made by `volta.tensor` and its kin."""

    __slots__ = ()
    __hash__ = object.__hash__
    __array_priority__ = 1000

    def __init__(self, *args, **kwargs) -> None:
        raise ArgumentError("Tensor: tensors are made by volta.tensor(data), volta.empty(sizes) and their kin, not by this class")

    # ------------------------------------------------------------ facts
    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        return self._requires_grad if self._base is None else graph.wants_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def grad_fn(self):
        """The node that made this tensor, None for a leaf."""
        graph.wants_grad(self)
        return self._node

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        return self.grad_fn is None

    @property
    def is_gpu(self) -> bool:
        """Whether its data is on a GPU."""
        return self.device.is_gpu

    is_cuda = is_gpu

    @property
    def data(self) -> Tensor:
        """The same data without a graph."""
        return core.alias(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, core.TensorBase):
            raise ArgumentError(f"data: needs a tensor, got {type(value).__name__}")
        if value.shape != self.shape or value.dtype is not self.dtype:
            raise ShapeError(f"data: needs shape {self.shape} and {self.dtype}, got {value.shape} and {value.dtype}")
        core.assign(self, value)

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order."""
        return permute_op(self, dims=tuple(range(self.ndim - 1, -1, -1)))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
        return view.transpose(self, -1, -2)

    @property
    def itemsize(self) -> int:
        """Units: bytes of one element on the host."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Units: bytes of the elements on the host."""
        return self._size * self.dtype.itemsize

    @property
    def _version(self) -> int:
        return self.storage.version

    @explained
    def size(self, dim: int | None = None):
        """The shape, or one size of it."""
        return self.shape if dim is None else self.shape[as_dim("size", dim, self.ndim)]

    def numel(self) -> int:
        """Number of elements."""
        return self._size

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    nelement, ndimension = numel, dim

    def element_size(self) -> int:
        """Units: bytes."""
        return self.dtype.itemsize

    @explained
    def stride(self, dim: int | None = None):
        """Strides. Units: elements."""
        return self._strides if dim is None else self._strides[as_dim("stride", dim, self.ndim)]

    def storage_offset(self) -> int:
        """Position of the first element in the storage. Units: elements."""
        return self.offset

    def is_contiguous(self) -> bool:
        """Whether the elements lie row-major."""
        return self._contiguous

    def is_floating_point(self) -> bool:
        """Whether the dtype is floating point."""
        return self.dtype.is_floating_point

    # ------------------------------------------------------------ graph
    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this leaf want gradients, or not.

        Raises: AutogradError on a non-leaf; DTypeError for integers.
        """
        if requires_grad and not self.dtype.is_floating_point:
            raise DTypeError(f"requires_grad_: only floating point tensors have gradients, this one is {self.dtype}")
        if self.grad_fn is not None:
            if not requires_grad:
                raise AutogradError("requires_grad_: only leaves can be switched off; use detach()")
            return self
        if requires_grad:
            self._base = self._view = None      # a leaf has no other history
        self._requires_grad = bool(requires_grad)
        return self

    def backward(self, gradient=None, retain_graph=None, create_graph: bool = False, inputs=None) -> None:
        """Add the gradients of this tensor to the `.grad` of the leaves. See `volta.autograd.backward`."""
        autograd.backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same data without a graph."""
        return core.alias(self)

    def detach_(self) -> Tensor:
        """Forget the graph of this tensor."""
        self._node, self._requires_grad, self._index, self._base, self._view = None, False, 0, None, None
        return self

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad`."""
        if self.grad_fn is not None:
            self._node.retained = (self._node.retained or []) + [(self._index, weakref.ref(self))]

    def register_hook(self, hook):
        """Call `hook(grad)` when this tensor's gradient is known; what it returns, if not None, replaces it. Gives a handle with
        `remove()`."""
        if not self.requires_grad:
            raise AutogradError("register_hook: the tensor does not require grad")
        if not callable(hook):
            raise ArgumentError(f"register_hook: needs a function of the gradient, got {type(hook).__name__}")
        hook = _checked_hook(hook, self.shape, self.dtype, self.device)
        if self._node is None:
            self._hooks = {} if self._hooks is None else self._hooks
            return _Handle(self._hooks, hook)
        self._node.hooks = {} if self._node.hooks is None else self._node.hooks
        return _Handle(self._node.hooks, (self._index, hook))

    # ------------------------------------------------------------ values
    def item(self):
        """The value of a one-element tensor as a Python number; a read from the GPU waits for it.

        Raises: ShapeError for more or fewer elements.
        """
        if self._size != 1:
            raise ShapeError(f"item: needs one element, got shape {self.shape}; use tolist() or index it")
        return core.read_scalar(self if not self.device.is_gpu else copies.to(core.alias(self), "cpu"))

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """As a NumPy array: a view of the memory on the CPU, a copy from a GPU.

        Raises: AutogradError where a gradient would be lost silently (detach() first, or force=True).
        """
        if self.requires_grad and not force:
            raise AutogradError("numpy: the tensor requires grad; call detach() first")
        host = copies.to(core.alias(self), "cpu") if self.device.is_gpu else self
        dtype = to_numpy(host.dtype)
        if not host._size:                  # its strides and offset may lead outside the storage
            return np.empty(host.shape, dtype)
        return np.ndarray(host.shape, dtype, host.storage, host.offset * dtype.itemsize,
                          tuple(s * dtype.itemsize for s in host._strides))

    def tolist(self):
        """Nested lists of Python numbers."""
        return self.detach().numpy().tolist()

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        array = self.numpy()
        return array.astype(array.dtype if dtype is None else dtype, copy=bool(copy))

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len: a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self):
        if not self.shape:
            raise ShapeError("iter: a 0-d tensor cannot be iterated")
        return iter(view.unbind(self))

    def __bool__(self) -> bool:
        if self._size != 1:
            raise ShapeError(f"bool: a tensor of shape {self.shape} is neither true nor false; use .any() or .all()")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating_point or self._size != 1:
            raise DTypeError(f"index: needs one integer, got {self.dtype} of shape {self.shape}")
        return int(self.item())

    def __contains__(self, value) -> bool:
        found = self == value
        if not isinstance(found, Tensor):
            raise ArgumentError(f"in: a tensor holds numbers, got {type(value).__name__}")
        return bool(found.any())

    def __getitem__(self, key) -> Tensor:
        return subscript.getitem(self, key)

    def __setitem__(self, key, value) -> None:
        subscript.setitem(self, key, value)

    def __repr__(self) -> str:
        from volta.printing import tensor_repr
        return tensor_repr(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 and spec else repr(self)

    def __deepcopy__(self, memo) -> Tensor:
        if self._node is not None:
            raise AutogradError("deepcopy: only leaves can be copied with their graph; use detach().clone()")
        out = core.alias(self).clone()
        memo[id(self)] = out
        out.grad = copy.deepcopy(self.grad, memo)
        return out.requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol):
        return (_rebuild, (np.asarray(self.detach().numpy()), self.dtype, str(self.device), self.requires_grad))

    # ------------------------------------------------------------ places and types
    to, contiguous, clone = map(explained, (copies.to, copies.contiguous, copies.clone))

    def cpu(self) -> Tensor:
        """The tensor on the CPU."""
        return copies.to(self, "cpu")

    def gpu(self, device=None) -> Tensor:
        """The tensor on a GPU: the first, or that of a number or a name."""
        return copies.to(self, as_device("gpu" if device is None else device))

    cuda = gpu

    def type(self, dtype: DTypeLike = None):
        """The dtype, or the tensor as another one."""
        return self.dtype if dtype is None else copies.cast(self, as_dtype(dtype))

    @explained
    def type_as(self, other: Tensor) -> Tensor:
        """As the dtype of `other`."""
        return copies.cast(self, other.dtype)

    @explained
    def view_as(self, other: Tensor) -> Tensor:
        """As the shape of `other`."""
        return view.view(self, other.shape)

    @explained
    def split(self, split_size, dim: int = 0) -> tuple:
        """See `volta.split`."""
        return view.split(self, split_size, dim)

    @explained
    def reshape_as(self, other: Tensor) -> Tensor:
        """As the shape of `other`."""
        return view.reshape(self, other.shape)

    @explained
    def expand_as(self, other: Tensor) -> Tensor:
        """Expanded to the shape of `other`."""
        return view.expand(self, other.shape)

    # ------------------------------------------------------------ in place
    @explained
    def copy_(self, src: Tensor | Number, non_blocking: bool = False) -> Tensor:
        """Overwrite with `src` (broadcast, cast, moved); its gradient flows on."""
        source = src
        if not isinstance(source, core.TensorBase):
            source = creation.tensor(source)
        if not broadcasts_to(source.shape, self.shape):
            raise ShapeError(f"copy_: shape {source.shape} cannot be repeated to the {self.shape} of the tensor written to")
        source = view.expand(copies.to(source, self.device, self.dtype), self.shape)
        if graph.is_grad_enabled() and (source.requires_grad or self.requires_grad):
            inplace.check_inplace("copy", self)
            return inplace.overwrite(self, copies.clone(source) if source.requires_grad else source)
        inplace.check_elements("copy", self)
        copies.copy_into(self, source)
        return self

    @explained
    def fill_(self, value: Tensor | Number) -> Tensor:
        """Every element `value`."""
        if isinstance(value, core.TensorBase):
            return self.copy_(value)
        if graph.is_grad_enabled() and self.requires_grad:
            return self.copy_(creation.full_like(self, value))
        copies.fill_into(self, value)
        return self

    def zero_(self) -> Tensor:
        """Every element 0."""
        return self.fill_(0)

    @explained
    def pow_(self, exponent: Number | Tensor) -> Tensor:
        """`pow` in place."""
        math.check_exponent("pow_", self, exponent)
        return inplace.into(records.pow_op, self, exponent)

    @explained
    def add_(self, other: Number | Tensor, *, alpha: Number = 1) -> Tensor:
        """`add` in place."""
        return inplace.into(records.add, self, other if alpha == 1 else math.scaled("add_", self, other, alpha))

    @explained
    def sub_(self, other: Number | Tensor, *, alpha: Number = 1) -> Tensor:
        """`sub` in place."""
        return inplace.into(records.sub, self, other if alpha == 1 else math.scaled("sub_", self, other, alpha))

    @explained
    def div_(self, other: Number | Tensor, *, rounding_mode: str | None = None) -> Tensor:
        """`div` in place."""
        return inplace.into(records.div_op, self, other) if rounding_mode is None else replace(self, math.div, other,
                                                                                        rounding_mode=rounding_mode)

    @explained
    def clamp_(self, min: Number | Tensor | None = None, max: Number | Tensor | None = None) -> Tensor:
        """`clamp` in place."""
        return replace(self, math.clamp, min, max)

    @explained
    def masked_fill_(self, mask: Tensor, value: Number | Tensor) -> Tensor:
        """`masked_fill` in place."""
        return replace(self, subscript.masked_fill, mask, value)

    @explained
    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator=None) -> Tensor:
        """Overwrite with uniform random numbers on [low, high)."""
        _unrecorded("uniform_", self)
        if not low <= high:
            raise ArgumentError(f"uniform_: needs low <= high, got {low} and {high}")
        return creation.fill_random_(self, uniform_op, low, high, generator)

    @explained
    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator=None) -> Tensor:
        """Overwrite with normal random numbers."""
        _unrecorded("normal_", self)
        if not std >= 0:
            raise ArgumentError(f"normal_: std must be >= 0, got {std}")
        return creation.fill_random_(self, normal_op, mean, std, generator)


class _Handle:
    """Removes a hook."""

    def __init__(self, table: dict, hook) -> None:
        self._table, self._key = table, object()
        table[self._key] = hook

    def remove(self) -> None:
        """Take the hook away."""
        self._table.pop(self._key, None)


def _checked_hook(hook, *like):
    def checked(g):
        changed = hook(g)
        return changed if changed is None else autograd.as_gradient("register_hook: the gradient that a hook gives", changed, *like)
    return checked


def _rebuild(array, dtype, device, requires_grad):
    return creation.tensor(array, dtype=dtype, device=device, requires_grad=requires_grad)


def _unrecorded(name, t):
    if graph.is_grad_enabled() and t.requires_grad:
        raise AutogradError(f"{name}: a tensor that requires grad cannot be overwritten in place; do it under no_grad()")


def _casting(dtype):
    def method(self):
        return copies.cast(self, dtype)
    method.__doc__ = f"As {dtype.name}."
    return method


def _named(method, name, text):
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", text
    return method


def _inplace(op, name=None):
    if len(op.inputs) == 1:
        def method(self) -> Tensor:
            return inplace.into(op, self)
    else:
        def method(self, other: Tensor | Number) -> Tensor:
            return inplace.into(op, self, other)
    return _named(method, name or op.name + "_", f"`{op.name}` in place.")


def _bitwise_inplace(op, name):
    def method(self, other: Tensor | Number) -> Tensor:
        math.need_integers(op.name + "_", self, other)
        return inplace.into(op, self, other)
    return _named(method, name, f"`{op.name}` in place.")


def _whole_inplace(function, op):
    """Rounding in place: one kernel where the dtype is floating, the function (which knows options and integers) otherwise."""
    @functools.wraps(function)
    def method(self, *args, **options) -> Tensor:
        if args or options or not self.dtype.is_floating_point:
            return replace(self, function, *args, **options)
        return inplace.into(op, self)
    return explained(_named(method, op.name + "_", f"`{op.name}` in place."))


def _replacing(function):
    """A composed function in place: computed, then copied in."""
    @functools.wraps(function)
    def method(self, *args, **options) -> Tensor:
        return replace(self, function, *args, **options)
    return explained(_named(method, function.__name__ + "_", f"`{function.__name__}` in place."))


def replace(t: Tensor, function, *args, **options) -> Tensor:
    """t[...] = function(t, ...), recorded where gradients are wanted."""
    recorded = graph.is_grad_enabled() and t.requires_grad
    if recorded:
        inplace.check_inplace(function.__name__, t)
    out = function(copies.clone(inplace.as_before(t)) if recorded else t, *args, **options)     # a copy: the function may save its input
    inplace.check_stored(function.__name__, out.dtype, t)
    return inplace.overwrite(t, out) if recorded else t.copy_(out)


def _reflected(function):
    def method(self, other):
        plain = isinstance(other, (int, float, core.TensorBase))
        return function(other if plain else creation.tensor(other, device=self.device), self)
    return method


def _compare(op):
    def method(self, other):
        return NotImplemented if other is None or isinstance(other, str) else op(self, other)
    return method


def _install() -> None:
    """Make the functions of `volta.ops` methods."""
    tables = {
        math: "sign reciprocal sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos tan tanh sigmoid relu neg abs floor ceil round trunc erf "
              "logical_not isnan isinf isfinite add sub mul remainder fmod floor_divide maximum minimum eq ne lt le gt ge logical_and "
              "logical_or logical_xor mulacc recip mod cmplt silu absolute negative multiply subtract divide true_divide less "
              "less_equal greater greater_equal not_equal bitwise_not clamp_min clamp_max addcdiv lerp log10 frac nan_to_num "
              "isclose allclose equal div pow bitwise_and bitwise_or bitwise_xor clamp square addcmul gelu",
        view: "reshape view flatten permute transpose t expand broadcast_to unsqueeze squeeze narrow shrink stride_op chunk unbind "
              "diagonal select swapaxes swapdims movedim unflatten ravel tensor_split unfold",
        copies: "flip repeat diag trace tile repeat_interleave fliplr flipud",
        join: "pad roll",
        reduce: "sum mean amax amin argmax argmin max min prod any all var std logsumexp norm softmax log_softmax count_nonzero",
        linalg: "matmul mm mv bmm dot outer addmm baddbmm",
        einsum: "inner",
        indexing: "gather scatter_add index_add index_select take_along_dim",
        subscript: "masked_fill masked_select nonzero",
        creation: "tril triu new_zeros new_ones new_empty new_full new_tensor",
    }
    for module, names in tables.items():
        for name in names.split():
            if name not in Tensor.__dict__:
                setattr(Tensor, name, explained(getattr(module, name)))
    Tensor.clip = Tensor.clamp
    Tensor.where = _where
    for name in ("mul", "neg", "abs", "sqrt", "exp", "log", "relu", "sigmoid", "tanh", "maximum", "minimum", "remainder",
                 "reciprocal"):
        setattr(Tensor, name + "_", _inplace(table.RECORDS[name]))
    for name in ("floor", "ceil", "round"):
        setattr(Tensor, name + "_", _whole_inplace(getattr(math, name), table.RECORDS[name]))
    for module, names in ((math, "addcmul addcdiv lerp clamp_min clamp_max nan_to_num"), (indexing, "scatter_add index_add"),
                          (creation, "tril triu")):
        for name in names.split():
            setattr(Tensor, name + "_", _replacing(getattr(module, name)))
    Tensor.clip_, Tensor.moveaxis = Tensor.clamp_, Tensor.movedim
    for name, dtype in (("float", float32), ("double", float64), ("half", float16), ("long", int64), ("int", int32), ("bool", bool_dtype),
                        ("byte", uint8)):
        setattr(Tensor, name, _casting(dtype))
    _install_operators()


def _where(self, condition, other):
    """Elements of this tensor where `condition` holds, else of `other`."""
    return math.where(condition, self, other)


def _install_operators() -> None:
    e = records
    Tensor.__pos__ = lambda self: self
    Tensor.__neg__, Tensor.__abs__ = lambda self: e.neg(self), lambda self: e.abs(self)
    Tensor.__pow__, Tensor.__rpow__ = math.pow, _reflected(e.pow_op)
    Tensor.__mod__, Tensor.__rmod__ = Tensor.remainder, _reflected(e.remainder)
    Tensor.__floordiv__, Tensor.__rfloordiv__ = Tensor.floor_divide, _reflected(e.floor_divide)
    Tensor.__ipow__ = _named(lambda self, other: self.pow_(other), "__ipow__", "`pow` in place.")
    Tensor.__matmul__ = explained(linalg.matmul)
    Tensor.__rmatmul__ = _reflected(Tensor.__matmul__)
    Tensor.__invert__ = math.bitwise_not
    Tensor.__and__ = Tensor.__rand__ = math.bitwise_and
    Tensor.__or__ = Tensor.__ror__ = math.bitwise_or
    Tensor.__xor__ = Tensor.__rxor__ = math.bitwise_xor
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", _compare(table.RECORDS[name]))
    for name, op in (("iadd", e.add), ("isub", e.sub), ("imul", e.mul), ("itruediv", e.div_op), ("imod", e.remainder),
                     ("ifloordiv", e.floor_divide)):
        setattr(Tensor, f"__{name}__", _inplace(op, f"__{name}__"))
    for name in ("and", "or", "xor"):
        setattr(Tensor, f"__i{name}__", _bitwise_inplace(table.RECORDS["bitwise_" + name], f"__i{name}__"))


_install()
core.set_tensor_type(Tensor)
