"""State dicts: what a module saves and how it loads it. A mixin of `Module`."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from volta._kernels import core
from volta.autograd import no_grad
from volta.errors import DTypeError, StateDictError
from volta.ops.from_data import tensor
from volta.tensor import Tensor


class LoadResult(NamedTuple):
    """What `load_state_dict` with strict=False did not find or not use."""
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"LoadResult(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


class StateMethods:
    """`state_dict` and `load_state_dict`."""

    def _named_state(self, prefix):
        """(key, tensor) of everything that is saved; shared tensors under each of their names."""
        for name, p in self._parameters.items():
            if p is not None:
                yield prefix + name, p
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent:
                yield prefix + name, b
        for name, module in self._modules.items():
            if module is not None:
                yield from module._named_state(f"{prefix}{name}.")

    def state_dict(self, *, destination: dict[str, Tensor] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, in PyTorch's order; they share their data with the module."""
        out = OrderedDict() if destination is None else destination
        for key, t in self._named_state(prefix):
            out[key] = t if keep_vars else t.detach()
        return out

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> LoadResult:
        """Copy the values of `state_dict` into the parameters and buffers, on the device and in the dtype that these have. With
        `assign` they take the given tensors' data, device and dtype instead.

        Raises: StateDictError naming every key that is missing, unexpected (both only if `strict`) or misshapen; the module is then
        as it was.
        """
        if not hasattr(state_dict, "keys"):
            raise StateDictError(f"load_state_dict: needs a dict of tensors, got {type(state_dict).__name__}")
        own = dict(self._named_state(""))
        missing = [key for key in own if key not in state_dict]
        unexpected = [key for key in state_dict if key not in own]
        values, problems = _matched(own, state_dict, assign)
        if strict and missing:
            problems.append("missing keys: " + ", ".join(missing))
        if strict and unexpected:
            problems.append("unexpected keys: " + ", ".join(map(str, unexpected)))
        if problems:
            raise StateDictError(f"load_state_dict: the state dict does not fit {type(self).__name__}:\n  " + "\n  ".join(problems))
        with no_grad():
            for key, value in values.items():
                if assign:
                    core.assign(own[key], value)
                else:
                    own[key].copy_(value)
        return LoadResult(missing, unexpected)


def _matched(own, given, assign):
    """(values by key, moved and cast as `own` has them unless `assign`; one line per value that does not fit)."""
    values, problems = {}, []
    for key, target in own.items():
        if key not in given:
            continue
        value = given[key]
        if not isinstance(value, (core.TensorBase, np.ndarray, np.generic)):
            problems.append(f"{key}: needs a tensor, got {type(value).__name__}")
        elif tuple(value.shape) != target.shape:
            problems.append(f"{key}: needs shape {target.shape}, got {tuple(value.shape)}")
        else:
            try:
                source = value.detach() if isinstance(value, core.TensorBase) else tensor(value)
                if assign and target.requires_grad and not source.dtype.is_floating_point:
                    raise DTypeError(f"requires grad, so it cannot take {source.dtype} values; convert them with .float()")
                values[key] = source if assign else source.to(target.device, target.dtype)
            except DTypeError as error:
                problems.append(f"{key}: {error}")
    return values, problems
