"""The Tensor: facts, graph, values, conversion to NumPy and Python. No mathematics: the op table gives the class its other methods and its
operators (`volta/methods.py`).
"""
from __future__ import annotations

import copy
import importlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from volta import autograd
from volta._kernels import core
from volta._kernels.core import graph, operators, order
from volta.autograd import Node
from volta.copying import copied, parts, rebuild
from volta.device import as_device
from volta.dtypes import get_default_dtype, to_numpy
from volta.errors import ArgumentError, AutogradError, CallError, DTypeError, IndexRangeError, ShapeError, warn_once
from volta.facts import install as install_facts
from volta.layout import contiguous_format
from volta.methods import install
from volta.ops import copy as copies
from volta.ops import sparse, subscript
from volta.ops.from_data import WITHOUT_GRADIENT, from_numpy
from volta.ops.math import where
from volta.ops.parts import split
from volta.printing import tensor_repr
from volta.saved import RemovableHandle, hooked
from volta.shapes import Size, as_dim, own_dim
from volta.storage import UntypedStorage
from volta.subclasses import install as install_subclasses
from volta.typed import legacy_tensor, type_name, type_of

if TYPE_CHECKING:
    from volta.layout import memory_format as Layout
    from volta.ops.sparse import SparseTensor
    from volta.types import DeviceLike, DTypeLike, Number


class Tensor(operators.Operators):
    """An n-dimensional array on a device, with its place in the autograd graph. Made by `volta.tensor` and its kin."""

    __slots__ = ()
    __hash__ = object.__hash__
    __array_priority__ = 1000

    def __new__(cls, *data: Any, device: DeviceLike = None) -> Self:
        """PyTorch's legacy constructor: of sizes, contents undefined; of data as the default dtype. `volta.tensor` is the better one."""
        made = legacy_tensor("Tensor", data, get_default_dtype(), device)
        made.__class__ = cls
        return made

    # ------------------------------------------------------------ facts
    shape = core.TensorBase._sizes
    _shape = core.TensorBase.shape              # a plain tuple, for what is called often

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        return self._requires_grad if self._base is None else graph.wants_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and self.grad_fn is not None:
            raise AutogradError("requires_grad: it can be set on leaves alone; this tensor was made by an op")
        self.requires_grad_(value)

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor, None for a leaf."""
        return graph.node_of(self)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        return self._node is None if self._base is None else self.grad_fn is None

    @property
    def is_gpu(self) -> bool:
        """Whether its data is on a GPU."""
        return self.device.is_gpu and not self.device.is_meta

    @property
    def is_meta(self) -> bool:
        """Whether it has no data."""
        return self.device.is_meta

    is_cuda = is_gpu

    @property
    def data(self) -> Tensor:
        """The same data without a graph. What is written to it is no change of this tensor for gradients: `detach()` is checked."""
        return core.apart(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, core.TensorBase):
            raise CallError(f"data: needs a tensor, got {type(value).__name__}")
        if self.requires_grad and not value.dtype.is_floating_point:
            raise DTypeError(f"data: the tensor requires grad, so its data must be floating point, got {value.dtype}")
        other = (value.shape, value.dtype, value.device) != (self.shape, self.dtype, self.device)      # no gradient was recorded for that
        core.assign(self, core.apart(value, self.storage.version + other))

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
        if core.is_inferred(self):
            raise AutogradError("Inference tensors do not track version counter.")
        return self.storage.version

    def _is_view(self) -> bool:
        return self._base is not None and not self._view.in_place

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or one size of it."""
        if dim is not None and not self._shape:
            raise IndexRangeError(f"size: dim {dim} was given, but a 0-d tensor has no dimensions")
        return self.shape if dim is None else self._shape[as_dim("size", dim, self.ndim)]

    def to_sparse(self, sparse_dim: int | None = None, *, layout: object = None) -> SparseTensor:
        """The elements that are not zero, by their places, or what has one, by its place in the first `sparse_dim` dimensions. Reads on a
        GPU where they are."""
        return sparse.to_sparse(self, sparse_dim, layout)

    def to_sparse_coo(self) -> SparseTensor:
        """`to_sparse()`."""
        return sparse.to_sparse(self)

    def to_dense(self, dtype: DTypeLike = None, *, masked_grad: bool | None = None) -> Tensor:
        """Itself, which has its zeros, or as another dtype."""
        return self if dtype is None else copies.to(self, dtype=dtype)

    def pin_memory(self, device: DeviceLike = None) -> Tensor:
        """Itself: transfers to a GPU take any memory."""
        return self

    def record_stream(self, stream: object) -> None:
        """Does nothing: a GPU works in one order, so its memory is not used again too early."""

    def numel(self) -> int:
        """Number of elements."""
        return self._size

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    nelement, ndimension = numel, dim

    def element_size(self) -> int:
        """Units: bytes."""
        return self.dtype.itemsize

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Strides. Units: elements."""
        return self._strides if dim is None else self._strides[own_dim("stride", dim, self.ndim)]

    def untyped_storage(self) -> UntypedStorage:
        """The memory that the elements are in."""
        return UntypedStorage(self)

    def storage_offset(self) -> int:
        """Position of the first element in the storage. Units: elements."""
        return self.offset

    def is_contiguous(self, *, memory_format: Layout = contiguous_format) -> bool:
        """Whether the elements lie row-major, or as `memory_format` says."""
        if memory_format is contiguous_format:
            return self._contiguous
        if not hasattr(memory_format, "value"):
            raise DTypeError(f"is_contiguous: memory_format must be a memory format such as volta.channels_last, got {memory_format!r}")
        return self.ndim == memory_format.value and self.movedim(1, -1)._contiguous

    def is_floating_point(self) -> bool:
        """Whether the dtype is floating point."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """False: there is no complex dtype."""
        return False

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def is_nonzero(self) -> bool:
        """Whether the one element is not 0."""
        return bool(self)

    # ------------------------------------------------------------ graph
    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this leaf want gradients, or not.

        Raises: AutogradError on a non-leaf; DTypeError for integers.
        """
        if type(requires_grad) is not bool:
            raise DTypeError(f"requires_grad_: requires_grad must be a bool, got {type(requires_grad).__name__}")
        if requires_grad and not self.dtype.is_floating_point:
            raise DTypeError(f"requires_grad_: only floating point tensors have gradients, this one is {self.dtype}")
        if requires_grad and core.is_inferred(self) and not core.inferring():
            raise AutogradError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. You can make a clone "
                                "to get a normal tensor.")
        if requires_grad and self.requires_grad:
            return self
        if self.grad_fn is not None:
            raise AutogradError("requires_grad_: only leaves can be switched off; use detach()")
        if requires_grad:
            self._base = self._view = None      # a leaf has no other history
        self._requires_grad = requires_grad
        return self

    def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Tensor | Sequence[Tensor] | None = None) -> None:
        """Add the gradients of this tensor to the `.grad` of the leaves. See `volta.autograd.backward`."""
        autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def detach(self) -> Tensor:
        """The same data without a graph, and without a tangent."""
        return core.detached(self)

    def detach_(self) -> Tensor:
        """Forget the graph of this tensor.

        Raises: AutogradError for a view.
        """
        if not isinstance(self, core.TensorBase):
            raise DTypeError(f"detach_: input must be a tensor, got {type(self).__name__}")
        if self._view is not None and not self._view.in_place:
            raise AutogradError("detach_: a view has the graph of its base and cannot forget it; use detach()")
        self._node, self._requires_grad, self._index, self._base, self._view = None, False, 0, None, None
        return self

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad`.

        Raises: AutogradError for a tensor that wants none.
        """
        if not self.requires_grad:
            raise AutogradError("retain_grad: the tensor does not require grad, so that no gradient comes to it")
        if self.grad_fn is not None and not self.retains_grad:
            self._node.retained = (self._node.retained or []) + [(self._index, weakref.ref(self))]

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(grad)` when this tensor's gradient is known; what it returns, if not None, replaces it. Gives a handle with
        `remove()`."""
        autograd.check_hook("register_hook", self, hook)
        hook = autograd.checked_hook(hook, self.shape)
        node = self.grad_fn
        if node is None:
            self._hooks = {} if self._hooks is None else self._hooks
            return hooked(self._hooks, hook)
        node.hooks = {} if node.hooks is None else node.hooks
        return hooked(node.hooks, (self._index, hook))

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(tensor)` as soon as a backward pass has added all that this leaf gets to its `.grad`, while the pass goes on with
        other tensors. Gives a handle with `remove()`.

        Raises: AutogradError for a tensor that is no leaf or does not require grad.
        """
        autograd.check_hook("register_post_accumulate_grad_hook", self, hook)
        if not self.is_leaf:
            raise AutogradError("register_post_accumulate_grad_hook: only leaves keep gradients, this tensor was computed; use "
                                "register_hook")
        self._arrived_hooks = {} if self._arrived_hooks is None else self._arrived_hooks
        return hooked(self._arrived_hooks, hook)

    # ------------------------------------------------------------ values
    def item(self) -> Number:
        """The value of a one-element tensor as a Python number; a read from the GPU waits for it.

        Raises: ShapeError for more or fewer elements.
        """
        try:
            size = self._size
        except AttributeError:
            raise DTypeError(f"item: needs a tensor, got {type(self).__name__}") from None
        if size != 1:
            raise ShapeError(f"item: needs one element, got shape {self.shape}; use tolist() or index it")
        return core.read_scalar(self if not self.device.is_gpu else copies.to(core.alias(self), "cpu"))

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """As a NumPy array: a view of the memory on the CPU, a copy from a GPU.

        Raises: AutogradError where a gradient would be lost silently (detach() first, or force=True), outside `no_grad()`; DTypeError for
        bfloat16.
        """
        if self.requires_grad and not force and autograd.is_grad_enabled():
            raise AutogradError("numpy: the tensor requires grad; call detach() first")
        host = copies.to(core.alias(self), "cpu") if self.device.is_gpu else self
        dtype = to_numpy(host.dtype)
        if not host._size:                  # its strides and offset may lead outside the storage
            return np.empty(host.shape, dtype)
        if host._contiguous:
            return np.ndarray(host._shape, dtype, host.storage, host.offset * dtype.itemsize)
        return np.ndarray(host._shape, dtype, host.storage, host.offset * dtype.itemsize,
                          tuple([s * dtype.itemsize for s in host._strides]))

    def tolist(self) -> Any:
        """Nested lists of Python numbers; of a 0-d tensor the number."""
        return core.to_list(self if not self.device.is_gpu else copies.to(core.alias(self), "cpu"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        return array.astype(array.dtype if dtype is None else dtype, copy=bool(copy))

    def __array_wrap__(self, array: np.ndarray[Any, Any], context: object = None, return_scalar: bool = False) -> Tensor:
        """What NumPy's functions of a tensor give: a tensor; of truth values uint8, as in PyTorch."""
        return from_numpy(array.astype(np.uint8) if array.dtype == bool else array)

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """A DLPack capsule of the memory on the CPU, which lives as long as the capsule.

        Raises: BufferError on a GPU, for a tensor that requires grad, and for negative strides, which other libraries do not take.
        """
        if self.requires_grad or any(s < 0 for s in self._strides):
            why = "requires grad; detach() it" if self.requires_grad else "has negative strides; make it contiguous()"
            raise BufferError(f"__dlpack__: the tensor of shape {self.shape} {why} first")
        self.__dlpack_device__()
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return self.numpy().__dlpack__(**{name: value for name, value in given.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device in DLPack's numbers: (1, 0), the CPU.

        Raises: BufferError on a GPU.
        """
        if self.device.is_gpu:
            raise BufferError("__dlpack__: the tensor is on a GPU, whose memory is not shared; move it with .cpu() first")
        return 1, 0

    def __len__(self) -> int:
        if not self._shape:
            raise DTypeError("len: a 0-d tensor has no length")
        return self._shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._shape:
            raise DTypeError("iter: a 0-d tensor cannot be iterated")
        return iter(self.unbind())

    def __bool__(self) -> bool:
        if self._size != 1:
            raise ShapeError(f"bool: a tensor of shape {self.shape} is neither true nor false; use .any() or .all()")
        return bool(self.item())

    def __float__(self) -> float:
        if self.requires_grad and autograd.is_grad_enabled():
            warn_once(WITHOUT_GRADIENT)
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating_point or self._size != 1:
            raise DTypeError(f"index: needs one integer, got {self.dtype} of shape {self.shape}")
        return int(self.item())

    def __reversed__(self) -> Tensor:
        return copies.flip(self, 0) if self._shape else self

    def __contains__(self, value: Tensor | Number) -> bool:
        found = self == value
        if not isinstance(found, Tensor):
            raise ArgumentError(f"in: a tensor holds numbers, got {type(value).__name__}")
        return bool(found.any())

    def __pos__(self) -> Tensor:
        return self

    def __getitem__(self, key: object) -> Tensor:
        return subscript.getitem(self, key)

    def __setitem__(self, key: object, value: Tensor | Number) -> None:
        try:
            subscript.setitem(self, key, value)
        except AutogradError:
            if not subscript.set_expanded(self, key, value):
                raise

    def __repr__(self) -> str:
        return tensor_repr(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 and type(self) is Tensor else object.__format__(self, spec)

    def __deepcopy__(self, memo) -> Tensor:
        if self._node is not None:
            raise AutogradError("deepcopy: only leaves can be copied with their graph; use detach().clone()")
        out = copied(self, memo)
        out.__class__ = type(self)
        memo[id(self)] = out
        out.grad = copy.deepcopy(self.grad, memo)
        out.__dict__.update(copy.deepcopy(self._attributes or {}, memo))
        return out.requires_grad_(self.requires_grad)

    def __copy__(self) -> Tensor:
        """A leaf over the same data, with the same attributes."""
        out = core.alias(self)
        out.__class__ = type(self)
        out.__dict__.update(self._attributes or {})
        return out.requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol):
        kind = () if type(self) is Tensor else (type(self),)
        return rebuild, (*parts(self), *kind), self._attributes or None

    # ------------------------------------------------------------ places and types
    def cpu(self, *, memory_format: Layout | None = None) -> Tensor:
        """The tensor on the CPU."""
        if memory_format is None and self.device is core.CPU:
            return self
        return copies.to(self, "cpu", memory_format=memory_format)

    def gpu(self, device: DeviceLike = None) -> Tensor:
        """The tensor on a GPU: the first, or that of a number or a name."""
        return copies.to(self, as_device("gpu" if device is None else device))

    cuda = gpu

    def new(self, *data: object, device: DeviceLike = None) -> Tensor:
        """Legacy: an empty tensor, undefined contents of given sizes, or a tensor of the data, with this dtype and device.

        Raises: ArgumentError for a tuple, which may be a shape or data.
        """
        if len(data) == 1 and type(data[0]) is tuple:
            raise ArgumentError(f"new: {data[0]} may be sizes or data; write new(*sizes), or new of a list")
        return legacy_tensor("new", data, self.dtype, self.device if device is None else as_device(device))

    def share_memory_(self) -> Tensor:
        """Move the data to memory that other processes see, too. What else lay in the old memory stays there.

        Raises: ArgumentError for a view; DeviceError for a tensor that is on no CPU.
        """
        if not self.is_shared():
            self.data = importlib.import_module("volta.sharing").shared(self)      # multiprocessing, which few programs need
        return self

    @overload
    def type(self, dtype: None = None) -> str: ...
    @overload
    def type(self, dtype: DTypeLike) -> Tensor: ...
    def type(self, dtype: DTypeLike = None) -> str | Tensor:
        """PyTorch's name of the type, such as "torch.FloatTensor"; or the tensor as another type: a dtype, a name or `volta.LongTensor`."""
        if dtype is None:
            return type_name(self)
        wanted, device = type_of(dtype)
        return copies.to(self, device=self.device if device is None else device, dtype=wanted)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Views of `split_size` slices each (the last may be smaller), or of the given lengths."""
        return split(self, split_size, dim)

    def where(self, condition: Tensor, other: Tensor | Number) -> Tensor:
        """Elements of this tensor where `condition` holds, else of `other`."""
        return where(condition, self, other)


install_facts(Tensor)
install(Tensor)
install_subclasses(Tensor)
operators.use_c_operators(Tensor)
core.set_tensor_type(Tensor)
order.set_tensor_type(Tensor)
