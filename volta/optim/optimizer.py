"""Optimizer: parameter groups, state, checks and state dicts. The steps themselves are one class each in the other files."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from numbers import Real

from volta import gpu
from volta._kernels import core
from volta.autograd import enable_grad, no_grad
from volta.errors import ArgumentError, ShapeError, StateDictError
from volta.ops.creation import zeros_like
from volta.tensor import Tensor


def at_least_zero(optimizer: str, name: str, value: object) -> None:
    """Raise ArgumentError unless `value` is a finite number >= 0."""
    if not isinstance(value, Real) or not 0.0 <= value < float("inf"):
        raise ArgumentError(f"{optimizer}: {name} must be a finite number >= 0, got {value!r}")


def below_one(optimizer: str, name: str, value: object) -> None:
    """Raise ArgumentError unless `value` is a pair of numbers in [0, 1)."""
    pair = value if isinstance(value, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(b, Real) and 0.0 <= b < 1.0 for b in pair):
        raise ArgumentError(f"{optimizer}: {name} must be two numbers in [0, 1), got {value!r}")


class Optimizer:
    """Base of the optimizers. Each gives `rules` (hyperparameter -> check), `slots` (the names of the tensors of a parameter's
    state) and `_update(group, params)`."""

    rules: dict[str, Callable] = {}
    slots: tuple[str, ...] = ()

    def __init__(self, params: Iterable, defaults: dict) -> None:
        if isinstance(params, core.TensorBase):
            raise ArgumentError(f"{type(self).__name__}: params must be a list of tensors or of groups, got one; write [tensor]")
        self.defaults = defaults
        self.param_groups: list[dict] = []
        self.state: defaultdict[Tensor, dict] = defaultdict(dict)
        if not hasattr(params, "__iter__") or isinstance(params, (str, bytes)):
            raise ArgumentError(f"{type(self).__name__}: params must be a list of tensors or of groups, got {type(params).__name__}")
        groups = list(params)
        if not groups:
            raise ArgumentError(f"{type(self).__name__}: params is empty; pass model.parameters()")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)
        gpu.begin_steps()

    def add_param_group(self, param_group: dict) -> None:
        """Add parameters with hyperparameters of their own; what is not given takes the defaults.

        Raises: ArgumentError for a bad hyperparameter, a tensor that no gradient reaches, or one that is already here.
        """
        name = type(self).__name__
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise ArgumentError(f"{name}: a parameter group must be a dict with 'params', got {param_group!r}")
        params = param_group["params"]
        params = [params] if isinstance(params, core.TensorBase) else list(params)
        names = {}
        if any(isinstance(p, tuple) for p in params):           # model.named_parameters()
            if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in params):
                raise ArgumentError(f"{name}: a group must hold parameters, or (name, parameter) pairs only")
            names, params = {"param_names": [n for n, _ in params]}, [p for _, p in params]
        held = {p for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, core.TensorBase):
                raise ArgumentError(f"{name}: params must be tensors, got {type(p).__name__}")
            if p.grad_fn is not None:
                raise ArgumentError(f"{name}: a tensor of shape {p.shape} was made by {p.grad_fn.name}; only leaves can be "
                                    f"optimized")
            if p in held:
                raise ArgumentError(f"{name}: a parameter of shape {p.shape} was given twice")
            held.add(p)
        group = {**self.defaults, **param_group, "params": params, **names}
        self._check_group(group)
        self.param_groups.append(group)

    def _check_group(self, group):
        """Raise unless every hyperparameter of the group is usable; also done before each step, since users set them."""
        for key, rule in self.rules.items():
            rule(type(self).__name__, key, group[key])

    @no_grad
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or zero them in place."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else p.grad.detach().zero_()

    def step(self, closure: Callable | None = None):
        """Update every parameter that has a gradient; gives what `closure`, called first with gradients recorded, returned.

        Raises: ArgumentError for a hyperparameter that is not usable, ShapeError for a gradient that does not fit its parameter:
        then nothing has changed.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        work = []
        for group in self.param_groups:
            self._check_group(group)
            work.append([p for p in group["params"] if p.grad is not None and self._ready(p)])
        with no_grad():
            for group, params in zip(self.param_groups, work):
                if params:
                    self._update(group, params)
        gpu.end_step()
        return loss

    def _ready(self, p):
        """True where the gradient and the state of `p` fit it, else ShapeError."""
        self._fits(p, p.grad, "gradient")
        state = self.state.get(p)
        if state:
            for name, value in state.items():
                if isinstance(value, core.TensorBase):
                    self._fits(p, value, name)
        return True

    def _fits(self, p, t, name):
        if t.shape != p.shape or t.dtype is not p.dtype or t.device is not p.device:
            raise ShapeError(f"{type(self).__name__}: a parameter is {p.dtype} {p.shape} on {p.device}, its {name} {t.dtype} "
                             f"{t.shape} on {t.device}; they must be alike (make the optimizer after moving the model)")

    @staticmethod
    def _new_state(p):
        """Zeros like parameter `p`, in memory that stays out of the way of the training steps' own."""
        with gpu.lasting():
            return zeros_like(p)

    def _gradients(self, group, params):
        return [-p.grad for p in params] if group["maximize"] else [p.grad for p in params]

    def _update(self, group, params):
        raise NotImplementedError(f"{type(self).__name__}: define _update(self, group, params)")

    # ------------------------------------------------------------ state dicts
    def state_dict(self) -> dict:
        """State and groups in PyTorch's layout: parameters are numbered through the groups."""
        numbers = {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [{**group, "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[p]: dict(values) for p, values in self.state.items() if p in numbers}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict) -> None:
        """Take over what `state_dict` gave; tensors are copied to the device and dtype of their parameter.

        Raises: StateDictError where groups or shapes differ, ArgumentError for a bad hyperparameter; nothing has changed then.
        """
        name = type(self).__name__
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= set(state_dict):
            raise StateDictError(f"{name}: load_state_dict needs a dict with 'state' and 'param_groups', got {_keys(state_dict)}")
        if not isinstance(state_dict["state"], dict) or not isinstance(state_dict["param_groups"], list):
            raise StateDictError(f"{name}: 'state' must be a dict and 'param_groups' a list")
        given = state_dict["param_groups"]
        sizes, wanted = [len(g["params"]) for g in given], [len(g["params"]) for g in self.param_groups]
        if sizes != wanted:
            raise StateDictError(f"{name}: the state dict has groups of {sizes} parameters, this optimizer has {wanted}")
        numbers = [i for group in given for i in group["params"]]
        groups = []
        for own, group in zip(self.param_groups, given):
            groups.append({**own, **group, "params": own["params"]})
            self._check_group(groups[-1])
        own_params = [p for group in self.param_groups for p in group["params"]]
        state = defaultdict(dict)
        for number, p in zip(numbers, own_params):
            values = state_dict["state"].get(number, state_dict["state"].get(str(number)))
            if values is not None:
                state[p] = {key: _placed(name, number, key, v, p) for key, v in values.items()}
        for own, group in zip(self.param_groups, groups):
            own.update(group)
        self.state = state

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {value}" for key, value in sorted(group.items()) if key not in ("params", "param_names")]
        return "\n".join([*lines, ")"])


def _keys(value):
    return f"the keys {sorted(map(str, value))}" if isinstance(value, dict) else type(value).__name__


def _placed(name, number, key, value, p):
    """A value of the state as parameter `p` needs it."""
    if key == "step":
        return int(value)
    if not isinstance(value, core.TensorBase):
        return value
    if value.shape != p.shape:
        raise StateDictError(f"{name}: {key} of parameter {number} has shape {value.shape}, the parameter has {p.shape}")
    return value.detach().to(p.device, p.dtype, copy=True)
