"""`volta.func.functional_call` under the name and with the argument that it had before."""
from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

from volta import func
from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["functional_call"]


def _reparametrize_module(module: Module, parameters_and_buffers: dict[str, Tensor], tie_weights: bool = False,
                          strict: bool = False) -> AbstractContextManager[None]:
    return func.replaced("_reparametrize_module", module, parameters_and_buffers, tie_weights, strict)


def functional_call(module: Module, parameters_and_buffers: dict[str, Tensor], args: Any = None, kwargs: dict[str, Any] | None = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:
    """The module called with these tensors in the place of its own of those names."""
    warnings.warn("nn.utils.stateless.functional_call is the old name of func.functional_call", FutureWarning, stacklevel=2)
    return func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
