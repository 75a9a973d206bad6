"""torch.nn.utils._named_member_accessor: a module's tensor exchanged for another, whatever it is there."""
from __future__ import annotations

from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["swap_tensor"]


def swap_tensor(module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False) -> Tensor | None:
    """Put a tensor in the place of a parameter, a buffer or another attribute; gives what was there.

    Raises: TypeError for what is no tensor; KeyError for a name of something in a submodule; AttributeError where there was nothing.
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if not name or "." in name:
        raise KeyError('tensor name can\'t contain "."' if name else 'tensor name can\'t be empty string ""')
    for members in (module._parameters, module._buffers):
        if name in members:
            before, members[name] = members[name], tensor
            return before
    if not hasattr(module, name) and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    before = getattr(module, name, None)
    if before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    setattr(module, name, tensor)
    return before
