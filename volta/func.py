"""Functions of functions: derivatives of a function of tensors as new functions, after torch.func. Every one may be nested in another.

A transform differentiates with regard to views of its arguments that are inputs of their own, and records what it does, so that
another transform, or backward, can differentiate its result again; a result that nothing outside asks for has no graph.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from volta import autograd
from volta._kernels import core
from volta._kernels.core import graph, histories
from volta._kernels.core.graph import Node
from volta._kernels.core.hooks import pop_saved_hooks, push_saved_hooks, saved_hooks
from volta.batching import vmap
from volta.batching_rules import Sample, levels_of, lifted, lowered, running
from volta.errors import ArgumentError, AutogradError, CallError, DTypeError, ShapeError
from volta.nn.module import Module
from volta.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from volta.ops.creation import eye, ones_like, zeros_like
from volta.ops.join import stack
from volta.ops.records.view import clone_op
from volta.ops.view import movedim, reshape
from volta.rearranging import rearrange
from volta.tensor import Tensor
from volta.trees import flatten

__all__ = ["debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap"]


def _check_tensors(name: str, what: str, leaves: list) -> None:
    for leaf in leaves:
        if not isinstance(leaf, core.TensorBase):
            raise CallError(f"{name}: {what} must be tensors, or nested tuples, lists and dicts of them, got {type(leaf).__name__}")


def _check_results(name: str, outputs: list) -> None:
    if not outputs:
        raise AutogradError(f"{name}: the function gives no tensor, so there is nothing to differentiate; let it return one at least")
    _check_tensors(name, "what the function gives", outputs)


def _check_outputs(name: str, outputs: list) -> None:
    _check_results(name, outputs)
    for x in outputs:
        if not x.dtype.is_floating_point:
            raise DTypeError(f"{name}: what the function gives must be floating point tensors, got {x.dtype}; convert it with .float()")


# ---------------------------------------------------------------- inputs of a transform, and what it gives back
def _own(x):
    """`x` as an input that nothing else knows; derivatives flow on to `x` where it wants them, outside `no_grad`. Inside `vmap`, one for
    each sample."""
    levels = running()
    x = lowered(x, levels)
    if not (x.requires_grad and autograd.is_grad_enabled()):
        return lifted(core.alias(x).requires_grad_(), levels)
    shown = x.view_as(x)
    shown._base, shown._view = None, histories.of_recorded  # which, like a leaf, is not changed in place: it would be another input then
    return lifted(shown, levels)


class _Same:
    """Backward of an input as the function sees it: what `graph.custom_node` takes."""

    def gradients(self, g):
        return (g,)

    def release(self):
        return True                             # nothing is saved


def _changeable(x):
    """`x` as the result of an op, in its memory: forward derivatives follow what a function changes in place."""
    if levels_of(x):
        return x
    shown = core.alias(x)
    graph.custom_node(_Same(), (x,), (shown,))
    return shown


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What stands for all samples inside `vmap`, of the innermost one alone without `recurse`; another tensor as it is. For debuggers.

    >>> volta.func.vmap(lambda x: x * volta.func.debug_unwrap(x).ndim)(volta.ones(2))
    tensor([1., 1.])
    """
    if not isinstance(tensor, Sample):
        return tensor
    return debug_unwrap(tensor.physical) if recurse else tensor.physical


@contextmanager
def _kept_apart(own: list) -> Iterator[None]:
    """What nodes save of the memory of these, they save as a copy: it may be changed in place afterwards."""
    if saved_hooks() is not None:               # which somebody else has asked for
        yield
        return
    storages = [_whole(x).storage for x in own]
    push_saved_hooks(lambda x: clone_op(x) if x.storage in storages else x, lambda x: x)
    try:
        yield
    finally:
        pop_saved_hooks()


def _whole(x):
    """The tensor of all samples, which has the graph."""
    return lowered(x, levels_of(x))


def _needed(result: Any, own: list) -> Any:
    """The result of a transform; without a graph where that leads to nothing but the transform's own inputs, and under `no_grad`."""
    fresh, recorded = {id(x) for x in map(_whole, own) if x._node is None}, autograd.is_grad_enabled()
    leaves, build = flatten(result)
    return build([x if not isinstance(x, core.TensorBase) or not x.requires_grad or recorded and _leads_elsewhere(x, fresh)
                  else x.detach() if isinstance(x, Sample) else core.alias(x) for x in leaves])


def _leads_elsewhere(x, fresh: set) -> bool:
    x = _whole(x)
    seen, stack = set(), [x if x._node is None else x._node]
    while stack:
        each = stack.pop()
        if not isinstance(each, Node):
            if id(each) not in fresh:
                return True
        elif id(each) not in seen:
            seen.add(id(each))
            stack.extend(parent for parent in each.parents if parent is not None)
    return False


def _arguments(name: str, args: tuple, argnums: int | tuple[int, ...], forward: bool = False) -> tuple[list, list, Callable]:
    """(own inputs, args with them in place, values -> the shape of argnums); for `forward` derivatives these may be changed in place."""
    places = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(places, tuple) or not all(isinstance(i, int) for i in places):
        raise ArgumentError(f"{name}: argnums must be an integer or a tuple of them, got {argnums!r}")
    for place in places:
        if not -len(args) <= place < len(args):
            raise ArgumentError(f"{name}: argnums={argnums} with {len(args)} positional arguments; it counts them from 0")
    if len({place % len(args) for place in places}) < len(places):
        raise ArgumentError(f"{name}: argnums must name different arguments, got {argnums}")
    leaves, build = flatten(tuple(args[place] for place in places))
    _check_tensors(name, "arguments to differentiate for", leaves)
    own = [_own(x) for x in leaves]
    with autograd.enable_grad():
        chosen, full = build([_changeable(x) for x in own] if forward else own), list(args)
    for place, value in zip(places, chosen):
        full[place] = value
    return own, full, lambda values: build(values)[0] if isinstance(argnums, int) else build(values)


def _gradients(outputs: list, own: list, seeds: list | None = None) -> list:
    """Gradients of `outputs` for each of `own`, recorded; zeros where there is no path."""
    levels = levels_of(own[0]) if own else []
    outputs, own, seeds = ([lowered(x, levels) for x in xs] for xs in (outputs, own, seeds or map(ones_like, outputs)))
    pairs = [(o, s) for o, s in zip(outputs, seeds) if o.requires_grad]
    if not pairs:
        return [lifted(zeros_like(x), levels) for x in own]
    outputs, seeds = zip(*pairs)
    found = autograd.grad(outputs, own, seeds, retain_graph=True, create_graph=True, materialize_grads=True)
    return [lifted(g, levels) for g in found]


# ---------------------------------------------------------------- gradients
def _apart(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """What a function gave and what it gave beside."""
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        raise ArgumentError(f"{name}: with has_aux=True the function gives a tuple (output, aux), got {type(result).__name__}"
                            f"{f' of {len(result)}' if isinstance(result, tuple) else ''}")
    return result if has_aux else (result, None)


def grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """The function that gives the gradient of `func`, which gives one number, for its arguments `argnums`; with `has_aux`, `func` gives
    (number, anything), and the gradient comes with that.

    >>> volta.func.grad(volta.sin)(volta.tensor(0.0))
    tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found
    return gradient


def grad_and_value(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """As `grad`, with the value: (gradient, value), or (gradient, (value, aux)).

    Raises: ShapeError for a function that gives more than one number.

    >>> volta.func.grad_and_value(volta.exp)(volta.tensor(0.0))
    (tensor(1.), tensor(1.))
    """
    def gradient(*args, **kwargs):
        own, full, rebuild = _arguments("grad", args, argnums)
        with autograd.enable_grad():
            value = func(*full, **kwargs)
            value, aux = _apart("grad", value, has_aux)
            _check_tensors("grad", "what the function gives", [value])
            if value._size != 1 or value.ndim:
                raise ShapeError(f"grad: the function must give one number (a 0-d tensor), got shape {value.shape}; use jacrev for more")
            found = rebuild(_gradients([value], own))
        return _needed((found, (value, aux) if has_aux else value), own)
    return gradient


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """(func(*primals), a function from cotangents of its result to those of the primals); with `has_aux`, aux comes third.

    Raises: ShapeError, from the second one, for cotangents of other shapes.

    >>> value, pull = volta.func.vjp(volta.sin, volta.tensor(0.0))
    >>> pull(volta.tensor(2.0))
    (tensor(2.),)
    """
    own, full, rebuild = _arguments("vjp", primals, tuple(range(len(primals))))
    with autograd.enable_grad():
        result = func(*full)
    result, aux = _apart("vjp", result, has_aux)
    outputs, build = flatten(result)
    _check_outputs("vjp", outputs)

    def pull(*cotangents):
        seeds = flatten(cotangents[0] if len(cotangents) == 1 else cotangents)[0]
        _check_tensors("vjp", "cotangents", seeds)
        if [s.shape for s in seeds] != [o.shape for o in outputs]:
            raise ShapeError(f"vjp: cotangents must have the shapes of the result, {[o.shape for o in outputs]}, got "
                             f"{[s.shape for s in seeds]}")
        with autograd.enable_grad():
            found = rebuild(_gradients(outputs, own, seeds))
        return _needed(found, own)
    shown = _needed(result, own)
    return (shown, pull, _needed(aux, own)) if has_aux else (shown, pull)


def jvp(func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """(func(*primals), its derivative along `tangents`); with `has_aux`, aux comes third. Computed by differentiating the pullback.

    Raises: AutogradError with `strict` for a result that does not depend on the primals; ShapeError for tangents of other shapes.

    >>> volta.func.jvp(volta.sin, (volta.tensor(0.0),), (volta.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise DTypeError(f"jvp: primals and tangents must be tuples, got {type(primals).__name__} and {type(tangents).__name__}")
    own, full, _ = _arguments("jvp", primals, tuple(range(len(primals))), True)
    along = _tangents("jvp", tangents, own)
    with autograd.enable_grad():
        with _kept_apart(own):
            result = func(*full)
        result, aux = _apart("jvp", result, has_aux)
        outputs, build = flatten(result)
        _check_results("jvp", outputs)
        if strict and not all(o.requires_grad for o in outputs):
            raise AutogradError("jvp: a result does not depend on the primals, which strict=True refuses; without it its tangent is 0")
        pulled, seeds = _pulled(outputs, own)
        found = build(_gradients(pulled, seeds, along))
    shown = _needed((result, found, aux), own)
    return shown if has_aux else shown[:2]


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """(func(*primals), a function from tangents of the primals to those of the result). `func` is called once; the function may be called
    often.

    >>> value, push = volta.func.linearize(volta.sin, volta.tensor(0.0))
    >>> push(volta.tensor(2.0))
    tensor(2.)
    """
    own, full, _ = _arguments("linearize", primals, tuple(range(len(primals))), True)
    with autograd.enable_grad():
        with _kept_apart(own):
            result = func(*full)
        outputs, build = flatten(result)
        _check_results("linearize", outputs)
        pulled, seeds = _pulled(outputs, own)

    def push(*tangents):
        along = _tangents("linearize", tangents, own)
        with autograd.enable_grad():
            found = build(_gradients(pulled, seeds, along))
        return _needed(found, own)
    return _needed(result, own), push


def _tangents(name: str, given: tuple, own: list) -> list:
    along = flatten(given)[0]
    _check_tensors(name, "tangents", along)
    if [t.shape for t in along] != [x.shape for x in own]:
        raise ShapeError(f"{name}: tangents must have the shapes of the primals, {[x.shape for x in own]}, got {[t.shape for t in along]}")
    return along


def _pulled(outputs: list, own: list) -> tuple[list, list]:
    """(gradients of `own`, the cotangents that they are of): the pullback is linear in these, so its derivative for them is the forward
    derivative."""
    seeds = [_own(zeros_like(o)) for o in outputs]
    return _gradients(outputs, own, seeds), seeds


# ---------------------------------------------------------------- Jacobians
def _for_units(linear: Callable, x: Any, chunk_size: int | None = None) -> list:
    """What `linear` gives, a list of tensors, for the tensors of the shape of `x` with a single 1, one for each of its elements, stacked:
    all at once, or one by one where a derivative cannot be batched (a custom Function)."""
    units = reshape(eye(x._size, dtype=x.dtype, device=x.device), (x._size, *x.shape))
    try:
        return vmap(linear, chunk_size=chunk_size)(units)
    except (ArgumentError, AutogradError):
        return [stack(each) for each in zip(*map(linear, units.unbind()))]


def jacrev(func: Callable, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Callable:
    """The function that gives the Jacobian of `func` for its arguments `argnums`, by a backward pass for all elements of the result, or for
    `chunk_size` of them at a time.

    Shape: (*result, *argument) for each pair of a result and an argument.
    Raises: ArgumentError for a `chunk_size` below 1.

    >>> volta.func.jacrev(lambda x: x * x)(volta.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError(f"jacrev: chunk_size must be None or above 0, got {chunk_size}")

    def jacobian(*args, **kwargs):
        own, full, rebuild = _arguments("jacrev", args, argnums)
        with autograd.enable_grad():
            result = func(*full, **kwargs)
            result, aux = _apart("jacrev", result, has_aux)
            outputs, build = flatten(result)
            _check_outputs("jacrev", outputs)
            blocks = []
            for output in outputs:
                if output._size:
                    rows = _for_units(lambda unit, output=output: _gradients([output], own, [unit]), output, chunk_size)
                    rows = [reshape(row, (*output.shape, *x.shape)).contiguous() for row, x in zip(rows, own)]
                else:
                    rows = [x.new_zeros((*output.shape, *x.shape)) for x in own]
                blocks.append(rebuild(rows))
            found = build(blocks)
        return _needed((found, aux) if has_aux else found, own)
    return jacobian


def jacfwd(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """As `jacrev`, by forward derivatives for all elements of the arguments: the better one where they have fewer than the result.

    Raises: ArgumentError for another `randomness`.

    >>> volta.func.jacfwd(lambda x: x * x)(volta.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if randomness not in ("error", "same"):
        raise ArgumentError(f"jacfwd: randomness={randomness!r} is not supported; the function is called once, whatever it draws")

    def jacobian(*args, **kwargs):
        own, full, rebuild = _arguments("jacfwd", args, argnums, True)
        with autograd.enable_grad():
            result = func(*full, **kwargs)
            result, aux = _apart("jacfwd", result, has_aux)
            outputs, build = flatten(result)
            _check_results("jacfwd", outputs)
            pulled, seeds = _pulled(outputs, own)
            blocks = []                             # by argument, then by output
            for x, gradient in zip(own, pulled):
                columns = _for_units(lambda unit, gradient=gradient: _gradients([gradient], seeds, [unit]), x) if x._size else outputs
                blocks.append([reshape(movedim(column, 0, -1), (*output.shape, *x.shape)) if x._size
                               else output.new_zeros((*output.shape, *x.shape)) for column, output in zip(columns, outputs)])
            found = build([rebuild([block[k] for block in blocks]) for k in range(len(outputs))])
        return _needed((found, aux) if has_aux else found, own)
    return jacobian


def hessian(func: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that gives the second derivatives of `func` for its arguments `argnums`: the Jacobian of the Jacobian.

    >>> volta.func.hessian(lambda x: (x * x * x).sum())(volta.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


# ---------------------------------------------------------------- modules
def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """The function itself: what PyTorch makes of it, for compilers, gives the same results and changes the same inputs.

    Raises: ArgumentError for another `remove` than "mutations" and "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise ArgumentError(f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}")
    return functools.wraps(func)(lambda *args, **kwargs: func(*args, **kwargs))


def functional_call(module: Module, parameter_and_buffer_dicts: dict | list[dict] | tuple[dict, ...], args: Any = None,
                    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False) -> Any:
    """`module(*args, **kwargs)` with these tensors in place of its parameters and buffers of the same names, for this call alone.

    A name that a module does not have has no effect, as in PyTorch, unless `strict`; one of a module that it does not have raises.

    Raises: ArgumentError with `strict` for a name that the module does not have, and for one that is not given; for several tensors of one
    parameter that has several names, unless tie_weights=False.
    """
    values = parameter_and_buffer_dicts
    if not isinstance(values, (dict, list, tuple)):
        raise ArgumentError(f"functional_call: needs a dict of tensors, or several, got {type(values).__name__}")
    if not isinstance(values, dict):
        merged = {}
        for each in values:
            if repeated := set(merged) & set(each):
                raise ArgumentError(f"functional_call: {sorted(repeated)[0]} is given twice")
            merged.update(each)
        values = merged
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced("functional_call", module, values, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def replaced(caller: str, module: Module, values: dict[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """A `with` block in which a module has these tensors in place of its own. Raises: ArgumentError, for `caller`, as there."""
    own = dict([*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)])
    if unknown := [name for name in values if name not in own]:
        if strict:
            raise ArgumentError(f"{caller}: the module has no parameter or buffer {unknown[0]}; it has {', '.join(own)}")
        for name in unknown:
            module.get_submodule(name.rpartition(".")[0])       # which says where there is no such module
        values = {name: value for name, value in values.items() if name in own}
    if tie_weights:
        given = {}
        for name, value in values.items():
            if given.setdefault(id(own[name]), value) is not value:
                tied = [other for other in values if own[other] is own[name]]
                raise ArgumentError(f"{caller}: {' and '.join(tied)} are tied, and are given different tensors; with tie_weights=False "
                                    "each has its own")
        values = {name: values.get(name, given.get(id(old))) for name, old in own.items() if name in values or id(old) in given}
    if strict and (missing := [name for name in own if name not in values]):
        raise ArgumentError(f"{caller}: strict=True, and {missing[0]} is not given")
    changed = []
    try:
        for name, value in values.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            table = owner._parameters if last in owner._parameters else owner._buffers
            changed.append((table, last, table[last]))
            table[last] = value
        yield
    finally:
        for table, last, value in reversed(changed):
            table[last] = value


def stack_module_state(models: list[Module] | tuple[Module, ...]) -> tuple[dict, dict]:
    """(parameters, buffers) of models of one kind by name, each those of all models on a new first dimension: with `vmap` over
    `functional_call`, an ensemble.

    Raises: ArgumentError for no models, and for models of several classes or modes.
    """
    if not models or len({(type(model), model.training) for model in models}) != 1:
        raise ArgumentError("stack_module_state: needs models of one class, all in training mode or all in evaluation mode")
    found = []
    for tables in ([dict(model.named_parameters()) for model in models], [dict(model.named_buffers()) for model in models]):
        found.append({name: stack([t[name].detach() for t in tables]).requires_grad_(all(t[name].requires_grad for t in tables))
                      for name in tables[0]})
    return found[0], found[1]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """`root`, whose batch normalisations keep no running statistics any more and use those of the batch: under `vmap` each sample would
    change the same ones.

    >>> volta.func.replace_all_batch_norm_modules_(volta.nn.BatchNorm1d(2)).running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm)):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
