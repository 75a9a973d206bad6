"""What tensors of PyTorch are asked of themselves beside their shape and values, most of it the same for all tensors here."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta.errors import DTypeError

if TYPE_CHECKING:
    from volta.tensor import Tensor


class Facts:
    """Attributes that the class of tensors takes over."""

    is_sparse_csr = is_mkldnn = is_nested = is_xla = is_ipu = is_maia = is_mtia = is_vulkan = False
    name = None                             # only what PyTorch's own code makes has one

    @property
    def is_cpu(self) -> bool:
        """Whether its data is in the memory of the host."""
        return not self.device.is_gpu

    @property
    def real(self) -> Tensor:
        """The tensor itself: its numbers are real."""
        return self

    @property
    def imag(self) -> Tensor:
        """Raises: DTypeError, as in PyTorch: numbers that are not complex have no imaginary part."""
        raise DTypeError(f"imag: the tensor is {self.dtype}, only complex tensors have an imaginary part, and there are none")

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` the tensor is."""
        return 0 if self.grad_fn is None else self._index

    @property
    def retains_grad(self) -> bool:
        """Whether this non-leaf keeps its gradient, by `retain_grad()`."""
        node = self.grad_fn
        return node is not None and any(kept() is self for _, kept in node.retained or ())


def install(cls: type) -> None:
    """Give the class of tensors these attributes."""
    for name, value in vars(Facts).items():
        if not name.startswith("_"):
            setattr(cls, name, value)
