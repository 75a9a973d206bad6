"""What tensors of PyTorch are asked of themselves beside their shape and values, most of it the same for all tensors here."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta._kernels.core import DType
from volta.errors import AutogradError, DTypeError, GradientTypeError, ShapeError, warn_once
from volta.layout import strided
from volta.ops.records.view import permute_op

if TYPE_CHECKING:
    from volta.tensor import Tensor


class GradientDType:
    """The first hook of a leaf whose gradients are kept in another dtype than its own; None is that of whatever comes."""

    def __init__(self, dtype: DType | None) -> None:
        self.gradient_dtype = dtype

    def __call__(self, g: Tensor) -> Tensor:
        return g if self.gradient_dtype is None or g.dtype is self.gradient_dtype else g.to(self.gradient_dtype)


class Facts:
    """Attributes that the class of tensors takes over."""

    is_sparse = is_quantized = is_sparse_csr = is_mkldnn = is_nested = property(lambda self: False, doc="False: each element is stored.")
    is_xla = is_ipu = is_maia = is_mtia = is_vulkan = is_xpu = is_mps = property(lambda self: False, doc="False: any GPU is 'gpu'.")
    layout = property(lambda self: strided, doc="How elements are stored: all of them, at equal steps.")
    name = property(lambda self: None, doc="None: only what PyTorch's own code makes has one.")

    @property
    def is_cpu(self) -> bool:
        """Whether its data is in the memory of the host."""
        return not self.device.is_gpu

    @property
    def _cdata(self) -> int:
        """A number that no other tensor has while this one lives."""
        return id(self)

    @property
    def real(self) -> Tensor:
        """The tensor itself: its numbers are real."""
        return self

    @property
    def imag(self) -> Tensor:
        """Raises: DTypeError, as in PyTorch: numbers that are not complex have no imaginary part."""
        raise DTypeError(f"imag: the tensor is {self.dtype}, only complex tensors have an imaginary part, and there are none")

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order: of other than matrices with a warning, which is given once."""
        rank = len(self._shape)
        if rank != 2:
            warn_once("T: of other tensors than matrices it is deprecated; write mT for batches of matrices, or permute",
                      "T" if rank else "T of a number")
        return permute_op(self, dims=(1, 0) if rank == 2 else tuple(range(rank - 1, -1, -1)))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
        if self.ndim < 2:                               # of a number, itself
            if not self.ndim:
                warn_once("mT: of a tensor without dimensions it is the tensor itself, which is deprecated")
            return self.adjoint()
        return self.transpose(-1, -2)

    @property
    def H(self) -> Tensor:
        """A matrix with its dimensions exchanged: of real numbers, what `t()` gives."""
        if self.ndim not in (0, 2):
            raise ShapeError(f"H: needs a matrix, got shape {self.shape}; of batches, mH exchanges the last two dimensions")
        if self.ndim:
            return self.transpose(0, 1)
        warn_once("H: of a tensor without dimensions it is the tensor itself, which is deprecated; write x.conj()")
        return self

    @property
    def mH(self) -> Tensor:
        """The last two dimensions exchanged: `adjoint`."""
        if not self.ndim:
            warn_once("mH: of a tensor without dimensions it is the tensor itself, which is deprecated; write x.conj()")
        return self.adjoint()

    @property
    def grad_dtype(self) -> DType | None:
        """In which dtype a leaf's gradients are kept, its own where nothing was said; None is any. A gradient is converted before the
        leaf's hooks see it.

        Raises: AutogradError for a tensor that is no leaf, and where there is a gradient of another dtype; GradientTypeError for what is
        no dtype.
        """
        if not self.is_leaf:
            raise AutogradError("grad_dtype: only leaves keep gradients, this tensor was computed")
        return next((h.gradient_dtype for h in (self._hooks or {}).values() if isinstance(h, GradientDType)), self.dtype)

    @grad_dtype.setter
    def grad_dtype(self, value: DType | None) -> None:
        if value is not None and not isinstance(value, DType):
            raise GradientTypeError(f"grad_dtype: must be a dtype or None, got {type(value).__name__}")
        if self.grad_dtype is value:
            return
        if value is not None and self.grad is not None and self.grad.dtype is not value:
            raise AutogradError(f"grad_dtype: there is a gradient of {self.grad.dtype}; set .grad to None before another dtype than this")
        others = {k: h for k, h in (self._hooks or {}).items() if not isinstance(h, GradientDType)}
        self._hooks = self._hooks if self._hooks is not None else {}
        self._hooks.clear()                             # in place: handles remove their hooks from this dict
        self._hooks.update({-1: GradientDType(value)} | others)

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` the tensor is."""
        if self.grad_fn is None:
            return 0
        view = self._view
        if view is not None and view.call is not None:      # one of several views that one call gave has a node of its own
            return view.place
        return self._index

    @property
    def retains_grad(self) -> bool:
        """Whether this non-leaf keeps its gradient, by `retain_grad()`."""
        node = self.grad_fn
        return node is not None and any(kept() is self for _, kept in node.retained or ())


def install(cls: type) -> None:
    """Give the class of tensors these attributes."""
    for name, value in vars(Facts).items():
        if not name.startswith("__"):
            setattr(cls, name, value)
