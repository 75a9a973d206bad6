"""Optimizer: parameter groups, state, checks and state dicts. The steps themselves are one class each in the other files."""
from __future__ import annotations

import copy
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, TypeVar, overload

from volta import gpu
from volta._kernels import core
from volta.autograd import enable_grad, no_grad
from volta.errors import ArgumentError, AssertedError, CallError, DTypeError, MissingError, ShapeError, StateDictError
from volta.ops import update
from volta.ops.creation import full_like
from volta.ops.records.update import Update
from volta.ops.records.view import clone_op
from volta.ops.sparse import SparseTensor
from volta.optim.checks import sequence
from volta.optim.hooks import Hooks
from volta.optim.state import Count, Kept, State, as_stored, as_tensor, count, put
from volta.tensor import Tensor

T = TypeVar("T")


def _rounds(lists):
    """Lists of parameters: first each of them once, then those that come again, and so on."""
    counts = [Counter(params) for params in lists]
    return [[[p for p, n in each.items() if n > i] for each in counts] for i in range(max(n for each in counts for n in each.values()))]


class Optimizer(Hooks):
    """Base of the optimizers. Each names its `update`, the declaration in `ops/records/update.py`, the `rules` that check and read its
    hyperparameters, and by `_states` and `_settings` what the declaration asks of them."""

    update: Update
    rules: dict[str, Callable] = {}
    counts_steps = False                # whether a parameter's state holds its "step"
    carried: str | None = None          # another number that a parameter's state holds, by which kernel calls are told apart
    numbers: tuple[str, ...] = ()       # all such numbers; PyTorch holds them as tensors
    counter: type = Count               # what holds the "step": one that users see as a tensor, or a plain int
    leading: tuple[str, ...] = ()       # states that PyTorch's files have before the others
    shaped: tuple[str, ...] = ()        # states of another shape than their parameter
    _repeats = False                    # whether a group holds a parameter twice
    starts: dict[str, str] = {}         # states that begin with the value of a hyperparameter, not with 0

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, core.TensorBase):
            raise CallError(f"{type(self).__name__}: params must be a list of tensors or of groups, got one; write [tensor]")
        self.defaults = defaults
        super().__init__()
        self.param_groups: list[dict[str, Any]] = []
        self.state: defaultdict[Tensor, dict[str, Any]] = self._no_state()
        if not hasattr(params, "__iter__") or isinstance(params, (str, bytes)):
            raise CallError(f"{type(self).__name__}: params must be a list of tensors or of groups, got {type(params).__name__}")
        groups = list(params)
        if not groups:
            raise ArgumentError(f"{type(self).__name__}: params is empty; pass model.parameters()")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)
        gpu.begin_steps()

    def _no_state(self):
        return defaultdict(State if self.rules else dict)       # those of users hold what they put there

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with hyperparameters of their own; what is not given takes the defaults.

        Raises: ArgumentError for a bad hyperparameter, a tensor that no gradient reaches, or one that is already here.
        """
        name = type(self).__name__
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise (MissingError if isinstance(param_group, dict) else CallError)(
                f"{name}: a parameter group must be a dict with 'params', got {param_group!r}")
        params = param_group["params"]
        if isinstance(params, set):
            raise CallError(f"{name}: params must be in an order, which a set has not; give a list")
        params = [params] if isinstance(params, core.TensorBase) else sequence(name, "params of a group", params, "tensors")
        names = {}
        if any(isinstance(p, tuple) for p in params):           # model.named_parameters()
            if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in params):
                raise ArgumentError(f"{name}: a group must hold parameters, or (name, parameter) pairs only")
            names, params = {"param_names": [n for n, _ in params]}, [p for _, p in params]
        if any(("param_names" in group) != bool(names) for group in self.param_groups):
            raise ArgumentError(f"{name}: all groups must hold (name, parameter) pairs, or none; this one holds "
                                f"{'pairs' if names else 'parameters without names'}")
        held = {p for group in self.param_groups for p in group["params"]}
        if len(set(params)) < len(params):
            warnings.warn(f"{name}: a parameter is given twice in a group, and is updated twice in each step", stacklevel=4)
            self._repeats = True
        for p in params:
            if not isinstance(p, core.TensorBase):
                raise CallError(f"{name}: params must be tensors, got {type(p).__name__}")
            if p.grad_fn is not None:
                raise ArgumentError(f"{name}: a tensor of shape {p.shape} was made by {p.grad_fn.op}; only leaves can be "
                                    f"optimized")
            if p in held:
                raise ArgumentError(f"{name}: a parameter of shape {p.shape} is in another group, too")
        given = {**param_group, "params": params, **names}
        group = {**given, **{key: value for key, value in self.defaults.items() if key not in given}}
        (self._held_group if "lr" in given else self._check_group)(group)       # a group's own rate may be below 0, as in PyTorch
        self.param_groups.append(group)

    def _check_group(self, group):
        """The group's hyperparameters in plain Python types; raises unless each is usable. Done before each step, since users set them."""
        name = type(self).__name__
        return {key: rule(name, key, group[key]) for key, rule in self.rules.items()}

    def _held_group(self, group):
        """As `_check_group`, of a group that is held: a schedule may have led its rate or momentum below 0, which steps take, as in
        PyTorch."""
        below = {}
        for key in ("lr", "momentum"):
            value = group.get(key)
            value = float(value) if isinstance(value, core.TensorBase) and value._size == 1 else value
            if type(value) is float and -inf < value < 0:
                below[key] = value
        return {**self._check_group({**group, **dict.fromkeys(below, 0.0)}), **below} if below else self._check_group(group)

    def _states(self, values):
        """Names of the states in use, in the order of the update's declaration."""
        if not hasattr(self, "update"):
            raise NotImplementedError(f"{type(self).__name__}: define step(self, closure=None)")
        return self.update.states

    def _settings(self, values):
        """What the update takes, from the group's hyperparameters; the step is added."""
        return dict(values)

    def _advance(self, settings, batch):
        """Add to the settings, and to the states, what follows from the number of steps."""

    @no_grad
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or zero them in place."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else p.grad.detach().zero_()

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], T]) -> T: ...
    def step(self, closure: Callable[[], T] | None = None) -> T | None:
        """Update every parameter that has a gradient; gives what `closure`, called first with gradients recorded, returned.

        Raises: ArgumentError for a hyperparameter that is not usable, ShapeError for a gradient that does not fit its parameter:
        then nothing has changed.
        """
        loss = self._loss(closure)
        self._step()
        return loss

    def _loss(self, closure):
        """What the closure gives, with gradients recorded."""
        loss = None
        if closure is not None:
            if not callable(closure):
                raise CallError(f"{type(self).__name__}: closure must be a function that gives the loss, got {closure!r}")
            with enable_grad():
                loss = closure()
        return loss

    def _step(self):
        """Update every parameter that has a gradient; nothing has changed where this raises."""
        rounds = [[group["params"] for group in self.param_groups]]
        if self._repeats:               # what is there again is updated again, when all others have been
            rounds = _rounds(rounds[0])
        for lists in rounds:
            self._once(lists)
        gpu.end_step()

    def _once(self, lists):
        """Update parameters of the groups, each at most once."""
        work = []
        for group, params in zip(self.param_groups, lists):
            values, sparse = self._held_group(group), []
            if group.get("capturable"):
                self._check_capturable(params)
            work.append((values, self._gather(params, self._states(values), sparse), sparse, sparse and self._sparse_step(values)))
        for values, batches, sparse, step in work:
            for batch in batches.values():
                self._run(values, batch)
            for p in sparse:
                self._run_sparse(p, step, values)

    def _check_capturable(self, params):
        if any(p.grad is not None and p.device.type == "cpu" for p in params):
            raise AssertedError(f"{type(self).__name__}: capturable=True needs parameters on a GPU, as in PyTorch; leave it out on the CPU")

    def _sparse_step(self, values):
        """The function of a parameter, its sparse gradient and its state that updates it. Raises: DTypeError where there is none."""
        raise DTypeError(f"{type(self).__name__}: takes no sparse gradients; use SparseAdam, SGD or Adagrad for that parameter, or make "
                         f"its layer with sparse=False")

    @no_grad
    def _run_sparse(self, p, step, values):
        names = self._states(values) if self.counts_steps else ()
        state = self._begin([p, p.grad, *map(self.state[p].get, names)], names, values)
        if self.counts_steps:
            put(state, "step", self.counter(count(state) + 1))
        step(p, p.grad, state)

    def _gather(self, params, names, sparse):
        """Batches of what one kernel call can take: parameters of one device, dtype and step, each list in the update's order. Parameters
        with sparse gradients are put into the list `sparse`.

        Raises: ShapeError where a gradient or a state does not fit its parameter.
        """
        batches, held, counted, carried = {}, self.state, self.counts_steps, self.carried
        step, kept, seen = 0, None, False
        for p in params:
            g = p.grad
            if g is None:
                continue
            if type(g) is SparseTensor:
                sparse.append(p)
                continue
            state = held.get(p)
            row = [p, g]
            if state:
                if type(state) is not State:        # a user put it there
                    state = held[p] = State(state)
                for name in names:
                    row.append(state.held(name))
                if counted:
                    step = state.held("step", 0)
                    if carried is not None:
                        kept = state.held(carried)
                    if type(step) is not Count or kept is not None and type(kept) is not Kept:
                        step, kept, seen = int(step), kept if kept is None else float(kept), True
            else:
                row += [None] * len(names)
                step, kept = 0, None
            shape, dtype, device, new = p.shape, p.dtype, p.storage.device, False
            for t in row:
                if t is None:
                    new = True
                elif t.dtype is not dtype or t.storage.device is not device or t.shape != shape:
                    self._refuse(p, row, names)
            key = device, dtype, new, step, kept
            batch = batches.get(key)
            if batch is None:
                batch = batches[key] = _Batch(names, key)
            batch.rows.append(row)
            batch.states.append(state)
        if seen:
            for batch in batches.values():
                batch.seen = True
        return batches

    def _refuse(self, p, row, names):
        for name, t in zip(("parameter", "gradient", *names), row):
            if t is not None and (t.shape != p.shape or t.dtype is not p.dtype or t.device is not p.device):
                raise ShapeError(f"{type(self).__name__}: a parameter is {p.dtype} {p.shape} on {p.device}, its {name} {t.dtype} "
                                 f"{t.shape} on {t.device}; they must be alike (make the optimizer after moving the model)")

    def _run(self, values, batch):
        """One kernel call, with the states of parameters that had none made first."""
        if batch.new:
            batch.states = [self._begin(row, batch.names, values) for row in batch.rows]
        if self.counts_steps:
            batch.step += 1
            batch.put("step", self.counter(batch.step))
        settings = self._settings(values)
        for name, value in (("step", batch.step), ("first", batch.new)):
            if name in self.update.changing:
                settings[name] = value
        self._advance(settings, batch)
        lists = list(map(list, zip(*batch.rows)))
        for name in self.update.optional:
            if name not in batch.names:
                lists.insert(self.update.tensors.index(name), None)
        update.run(self.update, lists, settings)

    def _begin(self, row, names, values):
        """A parameter's state, with what it lacks as at the start, in memory that stays out of the way of the training steps' own."""
        state = self.state[row[0]]
        if type(state) is not State:                    # a user put it there
            state = self.state[row[0]] = State(state)
        if self.counts_steps:
            dict.setdefault(state, "step", self.counter(0))
        for name in self.numbers:
            dict.setdefault(state, name, Kept(as_stored(values.get(self.starts.get(name), 1.0))))
        for place, name in enumerate(names, 2):
            if row[place] is None:
                with gpu.lasting():
                    row[place] = state[name] = full_like(row[0], values.get(self.starts.get(name), 0.0))
        return state

    # ------------------------------------------------------------ state dicts
    def state_dict(self) -> dict[str, Any]:
        """State and groups in PyTorch's layout: parameters are numbered through the groups."""
        self._call_state_hooks("before state_dict")
        numbers = {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [{**{key: value for key, value in group.items() if key != "params"}, "params": [numbers[p] for p in group["params"]]}
                  for group in self.param_groups]
        made: dict[tuple, Tensor] = {}
        state = {numbers[p]: self._shown(values, made) for p, values in self.state.items() if p in numbers}
        return self._call_state_hooks("after state_dict", {"state": state, "param_groups": groups})

    def _shown(self, values, made):
        """A parameter's state with its numbers as tensors, which PyTorch has. `made` holds those of other parameters, of which copies
        take less time."""
        if not isinstance(values, State):
            return values.copy()
        first = [name for name in ("step", *self.numbers, *self.leading) if name in values]      # as in PyTorch
        held = dict(dict.items(values))
        found = {**{name: held[name] for name in first}, **held}
        for name, value in found.items():
            if type(value) in (Count, Kept):
                if (name, value) not in made:
                    made[name, value] = as_tensor(value)
                found[name] = clone_op(made[name, value])
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; tensors go to the device and dtype of their parameter, and those that are there and have it
        are held as they are, so that two optimizers which took over one state share it (`copy.deepcopy` it first where they must not).

        Raises: StateDictError where groups or shapes differ, ArgumentError for a bad hyperparameter; nothing has changed then.
        """
        name = type(self).__name__
        state_dict = self._call_state_hooks("before load_state_dict", state_dict.copy() if isinstance(state_dict, dict) else state_dict)
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= set(state_dict):
            raise StateDictError(f"{name}: load_state_dict needs a dict with 'state' and 'param_groups', got {_keys(state_dict)}")
        if not isinstance(state_dict["state"], dict) or not isinstance(state_dict["param_groups"], list):
            raise StateDictError(f"{name}: 'state' must be a dict and 'param_groups' a list")
        groups = self._loaded_groups(state_dict["param_groups"])
        numbers = [i for group in state_dict["param_groups"] for i in group["params"]]
        own_params = [p for group in self.param_groups for p in group["params"]]
        state = self._no_state()
        for number, p in zip(numbers, own_params):
            values = state_dict["state"].get(number, state_dict["state"].get(str(number)))
            if values is not None and not isinstance(values, dict):
                raise StateDictError(f"{name}: the state of parameter {number} must be a dict, got {type(values).__name__}")
            if values is not None:
                state[p].update((key, self._placed(number, key, v, p)) for key, v in values.items())
        for own, group in zip(self.param_groups, groups):
            own.update(group)
        self.state = state
        self._call_state_hooks("after load_state_dict")

    def _placed(self, number, key, value, p):
        """A value of the state as parameter `p` needs it. Optimizers of users, which have no rules, keep what they put there."""
        name = type(self).__name__
        if key == "step" and self.rules:
            try:
                return self.counter(value)
            except (TypeError, ValueError):
                raise StateDictError(f"{name}: the step of parameter {number} must be a number, got {value!r}") from None
        if self.rules and key in self.numbers and getattr(value, "shape", ()) == ():
            return Kept(value)
        if self.rules and isinstance(value, core.TensorBase) and value.shape != p.shape and key not in self.shaped:
            raise StateDictError(f"{name}: {key} of parameter {number} has shape {value.shape}, the parameter has {p.shape}")
        return _moved(key, value, p)

    def _loaded_groups(self, given):
        """The groups of a state dict, with this optimizer's parameters; hyperparameters are copied."""
        name = type(self).__name__
        for group in given:
            if not isinstance(group, dict) or not isinstance(group.get("params"), (list, tuple)):
                raise StateDictError(f"{name}: 'param_groups' must hold dicts with a list 'params', got {group!r}")
        sizes, wanted = [len(g["params"]) for g in given], [len(g["params"]) for g in self.param_groups]
        if sizes != wanted:
            raise StateDictError(f"{name}: the state dict has groups of {sizes} parameters, this optimizer has {wanted}")
        groups = []
        for own, group in zip(self.param_groups, given):
            loaded = {key: copy.deepcopy(value) for key, value in group.items() if key != "params"}
            groups.append({**own, **loaded, "params": own["params"]})
            self._held_group(groups[-1])
        return groups

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += ([""] if i else []) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {value}" for key, value in sorted(group.items()) if key != "params"]
        return "\n".join([*lines, ")"])


class _Batch:
    """Parameters that one kernel call updates: rows of the parameter, its gradient and the tensors of its state."""

    __slots__ = ("names", "new", "step", "carried", "rows", "states", "seen")

    def __init__(self, names: tuple, key: tuple) -> None:
        self.names, (_, _, self.new, self.step, self.carried), self.rows, self.states = names, key, [], []
        self.seen = False               # whether a number of these states may be a tensor

    def put(self, name: str, value: float) -> None:
        """Hold a number in all these states."""
        if self.seen:
            for state in self.states:
                put(state, name, value)
        else:
            for state in self.states:
                state[name] = value


def _keys(value):
    return f"the keys {sorted(map(str, value))}" if isinstance(value, dict) else type(value).__name__


def _moved(key, value, p):
    """A value of the state where parameter `p` is, in its dtype; a step as it is, and likewise what lists and dicts hold."""
    if isinstance(value, core.TensorBase):
        return value if key == "step" else value.to(p.device, p.dtype) if p.is_floating_point() else value.to(p.device)
    if isinstance(value, dict):
        return {k: _moved(k, v, p) for k, v in value.items()}
    return type(value)(_moved(key, v, p) for v in value) if type(value) in (list, tuple) else value
