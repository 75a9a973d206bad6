"""State dicts: what a module saves and how it loads it. A mixin of `Module`."""
from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from volta._kernels import core
from volta.autograd import no_grad
from volta.errors import AssertedError, CallError, DTypeError, StateDictError
from volta.nn.parameter import Parameter, Uninitialized
from volta.ops.from_data import tensor
from volta.saved import RemovableHandle, hooked
from volta.tensor import Tensor

_EXTRA = "_extra_state"


class LoadResult(NamedTuple):
    """What `load_state_dict` with strict=False did not find or not use."""
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class StateMethods:
    """`state_dict` and `load_state_dict`."""

    _version = 1                            # of what a class saves; subclasses that change it count on, and look at that of a file

    def _named_state(self, prefix):
        """(key, tensor) of everything that is saved; shared tensors under each of their names."""
        for name, p in self._parameters.items():
            if p is not None:
                yield prefix + name, p
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent_buffers_set:
                yield prefix + name, b
        for name, module in self._modules.items():
            if module is not None:
                yield from module._named_state(f"{prefix}{name}.")

    def get_extra_state(self) -> Any:
        """What a state dict holds beside tensors, under the key "_extra_state"; subclasses define it together with `set_extra_state`."""
        raise NotImplementedError(f"{type(self).__name__}: define get_extra_state(self)")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise NotImplementedError(f"{type(self).__name__}: define set_extra_state(self, state)")

    def _hook_state(self, table, hook):
        return hooked(self.__dict__.setdefault(table, {}), hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the module's part of a state dict is made."""
        return self._hook_state("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when the module's part is in; it may change the dict."""
        return self._hook_state("_state_dict_post_hooks", hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The same under PyTorch's older name; a dict that the hook returns takes the place of the one it is given."""
        return self.register_state_dict_post_hook(Replacing(hook))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` before the module
        looks into the dict, a copy that it may change; it may add to the lists."""
        return self._hook_state("_load_pre_hooks", hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any], with_module: bool = False) -> RemovableHandle:
        """The same under PyTorch's older name; the hook is not given the module unless `with_module`."""
        return self.register_load_state_dict_pre_hook(hook if with_module else WithoutModule(hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists of missing and unexpected keys."""
        return self._hook_state("_load_post_hooks", hook)

    def state_dict(self, *args: Any, destination: dict[str, Tensor] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, in PyTorch's order; they share their data with the module. `destination`,
        `prefix` and `keep_vars` by position are PyTorch's old way, which warns."""
        if args:
            warnings.warn("state_dict: give destination, prefix and keep_vars by name", FutureWarning, stacklevel=2)
            return self.state_dict(**{"destination": destination, "prefix": prefix, "keep_vars": keep_vars,
                                      **dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))})
        out = destination
        if out is None:
            out = OrderedDict()
            out._metadata = OrderedDict()                   # type: ignore[attr-defined]    # as PyTorch's, by path
        local = {"version": self._version}
        if hasattr(out, "_metadata"):
            out._metadata[prefix[:-1]] = local
        for hook in tuple(self.__dict__.get("_state_dict_pre_hooks", {}).values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(out, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=out, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self.__dict__.get("_state_dict_post_hooks", {}).values()):
            found = hook(self, out, prefix, local)
            if isinstance(hook, Replacing):
                out = out if found is None else found
            elif found is not None:
                raise StateDictError("state_dict post-hook must return None; it may change the dict that it is given")
        return out

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Put what the module itself holds into `destination`; subclasses may add to it."""
        for table in (self._parameters, self._buffers):
            for name, t in table.items():
                if t is not None and name not in self._non_persistent_buffers_set:
                    destination[prefix + name] = t if keep_vars or isinstance(t, Uninitialized) else t.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Called before the module's values are taken out of `state_dict`, which subclasses may change: name keys anew, fill gaps. One that
        does not call this has loaded what is its own, and answers for its keys."""
        if isinstance(error_msgs, _Problems):
            error_msgs.sources[prefix] = state_dict

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> LoadResult:
        """Copy the values of `state_dict` into the parameters and buffers, on the device and in the dtype that these have. With
        `assign` the given tensors become the buffers, and parameters take their data, device and dtype. Values may be arrays, and
        tensors of other libraries that NumPy can read.

        Raises: StateDictError naming every key that is missing, unexpected (both only if `strict`) or misshapen; the module is then
        as it was.
        """
        if not hasattr(state_dict, "keys"):
            raise CallError(f"load_state_dict: needs a dict of tensors, got {type(state_dict).__name__}")
        given, missing, unexpected, problems = OrderedDict(state_dict), [], [], _Problems()
        modules, metadata = list(self.named_modules(remove_duplicate=False)), getattr(state_dict, "_metadata", None) or {}
        for path, module in modules:            # hooks are told that it is strict, as in PyTorch
            arguments = given, f"{path}." if path else "", metadata.get(path, {}), True, missing, unexpected, problems
            for hook in tuple(module.__dict__.get("_load_pre_hooks", {}).values()):
                hook(module, *arguments)
            module._load_from_state_dict(*arguments)
        done = {path for path, _ in modules if (f"{path}." if path else "") not in problems.sources}        # by themselves
        own = {key: t for key, t in self._named_state("") if key.rpartition(".")[0] not in done}
        extra = {f"{path}.{_EXTRA}" if path else _EXTRA: module for path, module in modules
                 if path not in done and type(module).set_extra_state is not StateMethods.set_extra_state}
        places = {path: i for i, (path, _) in enumerate(modules)}           # a module's extra state is named behind its tensors
        missing += sorted((key for key in (*own, *extra) if key not in given), key=lambda key: places[key.rpartition(".")[0]])
        unexpected += [key for key in given if key not in own and key not in extra and not (done and _owner(key, dict(modules)) in done)]
        values, misfits = _matched(own, given, assign)
        problems += misfits
        result = LoadResult(missing, unexpected)
        for _, module in modules:
            for hook in tuple(module.__dict__.get("_load_post_hooks", {}).values()):
                if hook(module, result) is not None:
                    raise AssertedError("load_state_dict: a hook of register_load_state_dict_post_hook gives None; it changes the lists of "
                                        "keys that it is given in place")
        if strict and unexpected:
            problems.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if strict and missing:
            problems.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if problems:                            # in PyTorch's words, which programs look for
            raise StateDictError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems))
        holders = dict(modules)
        with no_grad():
            for key, value in values.items():
                path, _, name = key.rpartition(".")
                if assign and name in holders[path]._buffers:
                    holders[path]._buffers[name] = value
                elif assign:
                    core.assign(own[key], value)
                    own[key].grad = None
                else:
                    own[key].copy_(value)
        for key, module in extra.items():
            if key in given:
                module.set_extra_state(given[key])
        return result


class _Problems(list):
    """What does not fit, and the dict that each prefix was loaded from."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[str, Mapping[str, Any]] = {}


def _owner(key, paths):
    """The path of the innermost module that a key lies in."""
    path = key.rpartition(".")[0]
    while path not in paths:
        path = path.rpartition(".")[0]
    return path


class Replacing:
    """A hook whose result, if not None, takes the place of the dict it is given; a class, so that modules that have one can be pickled."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, *arguments: Any) -> Any:
        return self.hook(*arguments)


class WithoutModule:
    """A hook that is not given the module; a class, so that modules that have one can be pickled."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, module: Any, *arguments: Any) -> Any:
        return self.hook(*arguments)


def _quoted(keys):
    return ", ".join([f'"{key}"' for key in keys])


def _matched(own, given, assign):
    """(values by key, moved and cast as `own` has them unless `assign`; one line per value that does not fit)."""
    values, problems = {}, []
    for key, target in own.items():
        if key not in given:
            continue
        value = given[key]
        if not isinstance(value, core.TensorBase) and hasattr(value, "detach") and hasattr(value, "numpy"):
            value = value.detach().cpu().numpy()            # another library's tensor
        if not isinstance(value, (core.TensorBase, np.ndarray, np.generic)):
            problems.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
                            f'but received {type(value)}')
            continue
        if not target.shape and tuple(value.shape) == (1,):        # numbers of older files have a dimension
            value = value[0]
        if tuple(value.shape) != target.shape:
            problems.append(f"size mismatch for {key}: copying a param with shape {tuple(value.shape)} from checkpoint, "
                            f"the shape in current model is {target.shape}.")
        else:
            try:
                source = value if isinstance(value, core.TensorBase) else tensor(value)
                if isinstance(source, Parameter) or isinstance(target, Parameter):          # else it may become a buffer itself
                    source = source.detach()
                if assign and target.requires_grad and not source.dtype.is_floating_point:
                    raise DTypeError(f"requires grad, so it cannot take {source.dtype} values; convert them with .float()")
                if target.device.is_meta and not source.device.is_meta and not assign:
                    warnings.warn(f"load_state_dict: {key} has no data ('meta'), so copying into it does nothing; pass assign=True",
                                  stacklevel=4)
                values[key] = source if assign else source.to(target.device, target.dtype)
            except DTypeError as error:
                problems.append(f"{key}: {error}")
    return values, problems


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix, such as the "module." of DataParallel, off the names of a state dict and of its `_metadata`, in place; those that
    had it come last."""
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name[len(prefix):]] = state_dict.pop(name)
    versions = getattr(state_dict, "_metadata", {})
    for path in [path for path in versions if path and (path == prefix.replace(".", "") or path.startswith(prefix))]:
        versions[path[len(prefix):]] = versions.pop(path)
