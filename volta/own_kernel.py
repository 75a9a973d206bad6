"""`volta.kernel`: a differentiable op of the user's own, from WGSL for a GPU and a function of NumPy arrays for the CPU.

What the text declares is read by gpu/interface.py; the GPU's launches are devices/gpu/own_kernel.py's. Here are the record, the CPU's
kernel, the checks of what the user's functions give, and `check`. Loaded when `volta.kernel` is first named.
"""
from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from volta import gpu
from volta._kernels.core import TensorBase
from volta._kernels.core.record import Primitive
from volta.custom import as_gradient
from volta.device import as_device
from volta.devices.gpu import own_kernel as on_gpu
from volta.dtypes import bool_, float16, float32, int64, to_numpy
from volta.errors import ArgumentError, AutogradError, DeviceError, DTypeError, ShapeError
from volta.gpu.interface import Interface, interface
from volta.ops.from_data import from_numpy
from volta.ops.records.copy import from_array
from volta.ops.table import FUNCTIONS, RECORDS, Case, Derived, Details, Flags, Labels, case, enter
from volta.selftest.run import plan
from volta.shapes import as_shape

KINDS = {"f32": "f", "i32": "i", "u32": "i", "bool": "b"}
DEFAULTS = {"f": float32, "i": int64, "b": bool_}


class Kernel(Primitive):
    """An op made by `volta.kernel`: called like any other, and checked by `check`."""

    options: inspect.Signature | None = None        # of the parameters that a shader's calls name

    def __call__(self, *inputs, **params):
        if self.options is not None:
            given = {name: params.pop(name) for name in self.names if name in params}
            params = {**self._completed(params), **given}
        return super().__call__(*inputs, **params)

    def _completed(self, params: dict) -> dict:
        """The parameters of a call, with defaults."""
        try:
            bound = self.options.bind(**params)
        except TypeError as error:
            raise ArgumentError(f"{self.name}: takes {', '.join(self.names)} and the parameters {self.options}: {error}") from None
        bound.apply_defaults()
        return bound.arguments

    def check(self, device: object = None, *, quick: bool = False, seed: int = 0) -> bool:
        """Run the samples as the self-test does: values against the CPU function in each dtype, layouts, and first and second derivatives
        against finite differences, on `device` or on the CPU and a GPU where there is one. True, or AssertionError with what failed."""
        if not self.details.cases:
            raise ArgumentError(f"{self.name}.check: there is nothing to compare; declare it with cpu= and samples=")
        places = ["cpu"] + ["gpu"] * gpu.is_available() if device is None else [str(as_device(device))]
        failures = []
        for place in places:
            for name, check in plan(self, place, quick):
                try:
                    check(np.random.default_rng(seed))
                except Exception as error:              # whatever it is, the others go on
                    failures.append(f"{self.name} on {place}: {name}: {type(error).__name__}: {error}")
        if failures:
            raise AssertionError("\n".join(failures))
        return True


class Grid(NamedTuple):
    """What a call of a compute shader needs beside its tensors."""
    shapes: tuple           # of the outputs
    fields: tuple           # of struct Params
    groups: tuple           # of threads, along x, y, z


def kernel(wgsl: str, *, cpu: Callable | None = None, grad: Callable | Sequence[Callable | None] | None = None,
           samples: Sequence[tuple] | None = None, outputs: Callable | None = None, workgroups: Callable | None = None,
           params: Callable | None = None, domain: tuple[float, float] = (-2.0, 2.0), rtol: float = 1e-5, replace: bool = False) -> Kernel:
    """An op of your own: differentiable, on both devices, usable like any of Volta's.

    `wgsl` holds a function of elements, `fn name(x: f32, n: i32, yes: bool) -> f32`, or one that gives a struct of several results. The
    last function is the op; it may call what shaders/README.md lists, such as `exp_accurate`. Tensors broadcast and promote as everywhere;
    numbers may stand for them; strides cost no copies. f32 takes floating point (computed in float32; float64 on the CPU), i32 and u32 take
    integers. Or `wgsl` holds a compute shader: its inputs, bound first, are given row-major, its outputs, `read_write`, begin as zeros.
    `outputs(*shapes, **params)` gives their shape (or shapes), `workgroups` their number (a thread for each element of the first output, if
    left out), `params` the values of `struct Params` in order (those that calls name alike, if left out). Every index is checked.

    `cpu(*arrays, **params)`, NumPy or Cython, computes the same from read-only arrays, for elements of one shape. What it gives belongs to
    Volta then. Without it, a call on the CPU raises.
    `grad(g, ...)` gives a gradient, or None, for each input, in Volta's ops; it names what it needs after g: inputs, outputs, parameters,
    `x_shape`, `needs`. Of an op with several outputs it takes `g_name` instead of g. Or it is a tuple of functions, one for each input.
    `samples` are inputs for `check()`, as tuples: shapes of random numbers from `domain`, arrays or numbers, and last a dict of parameters;
    functions of elements have some by themselves. `rtol` is the relative tolerance in float32.
    The op's name is the function's. It must be free, unless `replace` says that an own op of that name gives way.

    Raises: ArgumentError for a text that is not understood, a name that is taken, or functions that ask for what there is not. What does
    not compile raises DeviceError, with the compiler's message, when it is first called on a GPU.

    >>> import numpy as np
    >>> swish = volta.kernel(
    ...     "fn swish(x: f32, beta: f32) -> f32 { return x / (1.0 + exp_accurate(-beta * x)); }",
    ...     cpu=lambda x, beta: x / (1 + np.exp(-beta * x)),
    ...     grad=lambda g, x, beta, out: (g * volta.sigmoid(beta * x) * (1 + beta * (x - out)), g * out * (x - out)))
    >>> swish.check("cpu")
    True
    >>> x = volta.tensor([0.0, 1.0], requires_grad=True)
    >>> swish(x, 2).sum().backward()
    >>> x.grad
    tensor([0.5000, 1.0908])
    """
    declared = interface(wgsl)
    if declared.whole != (outputs is not None) or not declared.whole and (workgroups or params):
        raise ArgumentError(f"kernel: {declared.name}: outputs= is needed for a shader with an @compute entry point, and it, workgroups= "
                            "and params= are for nothing else")
    for what, given in (("cpu", cpu), ("params", params)):
        if given is not None and not callable(given):
            raise ArgumentError(f"kernel: {declared.name}: {what}= must be a function, got {type(given).__name__}")
    if grad is not None and not callable(grad) and not (isinstance(grad, (tuple, list)) and all(g is None or callable(g) for g in grad)):
        raise ArgumentError(f"kernel: {declared.name}: grad= must be a function, or a tuple of a function or None for each input")
    options = _options(declared, params)
    grid_of = functools.partial(_grid, declared, outputs, workgroups, params)
    host = Host(declared, cpu, grid_of)
    kinds = [KINDS[kind] for kind in declared.inputs.values()]
    details = Details(numpy=cpu and host.reference, domain=domain, cases=_cases(declared, kinds, samples) if cpu else (),
                      kinds=_kind(kinds), rtol=rtol, smooth=True, cpu_only=False, differentiable=grad is not None)
    floats = tuple(name for name, kind in declared.outputs.items() if kind == "f32")
    made = Kernel(declared.name, tuple(declared.inputs), family="own", outputs=tuple(declared.outputs), differentiable=floats,
                  vjp=_derivatives(declared, grad, floats, options), details=details, **_dtypes_taken(declared, kinds))
    made.cpu = host
    if declared.whole:
        made.options, made.gpu = options, on_gpu.Shader(wgsl, declared, host.dtypes, grid_of)
    else:
        made.gpu = on_gpu.elementwise(wgsl, declared, {each: DEFAULTS[kind] for each, kind in KINDS.items()}, host.dtypes)
        made.gpu_own = 1 << float16.code
    _enter(made, replace)
    return made


# ---------------------------------------------------------------- the declaration
def _enter(op: Kernel, replace: bool) -> None:
    """Into the op table. Raises: ArgumentError where the name is taken."""
    own = isinstance(RECORDS.get(op.name), Kernel)
    if own and replace:
        del RECORDS[op.name]
    if op.name in FUNCTIONS or op.name in RECORDS:
        raise ArgumentError(f"kernel: there is an op {op.name} already; give the function another name"
                            + (", or pass replace=True" if own else ""))
    enter(op)


def _dtypes_taken(declared: Interface, kinds: list) -> dict:
    """What the record says of dtypes. The tensors of a shader are of one floating point dtype; those of a function promote."""
    if declared.whole:
        first = next((name for name, kind in zip(declared.inputs, kinds) if kind == "f"), None)
        words = {"f32": f"={first}", "i32": "i", "u32": "ib"}
        return {"takes": {name: "f" if name == first else words[kind] for name, kind in declared.inputs.items()}}
    if set(kinds) in ({"f"}, {"i"}):
        return {"takes": kinds[0], "promote": "float" if kinds[0] == "f" else "common"}
    return {"takes": dict(zip(declared.inputs, kinds)), "promote": "each"}


def _options(declared: Interface, params: Callable | None) -> inspect.Signature:
    """The keyword parameters of a shader's calls: those of the function `params` after the shapes, or the fields of struct Params."""
    if unfit := [name for name in declared.fields if not name.isidentifier()]:
        raise ArgumentError(f"kernel: {declared.name}: a member of a struct cannot be called {unfit[0]}")
    names = list(inspect.signature(params).parameters.values())[len(declared.inputs):] if params else [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in declared.fields]
    return inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in names])


def _cases(declared: Interface, kinds: list, samples: Sequence[tuple] | None) -> tuple:
    """The samples as cases of the op table; without any, those of a function of elements."""
    count = len(kinds)
    if samples is None:
        samples = () if declared.whole else ((((7,),) * count), ((3, 4),) * count, ((),) * count, ((3, 1), (4,), *((),) * count)[:count])
    if not isinstance(samples, (tuple, list)) or not all(isinstance(sample, (tuple, list)) for sample in samples):
        raise ArgumentError(f"kernel: {declared.name}: samples must be a tuple of tuples of inputs, got {samples}")
    return tuple(_case(sample, kinds) for sample in samples)


def _case(sample: tuple, kinds: list) -> Case:
    *inputs, last = sample if sample and isinstance(sample[-1], dict) else (*sample, {})
    if len(inputs) != len(kinds):
        raise ArgumentError(f"kernel: a sample gives {len(kinds)} inputs, and a dict of parameters where there are some; got {sample}")

    def spec(x, kind):
        if isinstance(x, np.ndarray):
            return Derived(lambda *before: x)
        return x if not isinstance(x, tuple) or kind == _kind(kinds) else Labels(x, 5) if kind == "i" else Flags(x)
    return case(*map(spec, inputs, kinds), **last)


def _kind(kinds: list) -> str:
    """Of the elements that samples are drawn of."""
    return next(k for k in "fib" if k in kinds)


# ---------------------------------------------------------------- derivatives
class Derivative:
    """The user's derivative as the record's, for all inputs or the one at `place`: what it gives is checked."""

    def __init__(self, declared: Interface, function: Callable, seeds: tuple, known: set, place: int | None = None) -> None:
        self.function, self.name, self.inputs, self.place = function, declared.name, tuple(declared.inputs), place
        self.names = list(inspect.signature(function).parameters)
        if unknown := [name for name in self.names[not seeds:] if name not in known]:
            raise ArgumentError(f"kernel: {self.name}: grad asks for {unknown[0]!r}; there are {', '.join(sorted(known))}")
        if missing := [name for name in seeds if name not in self.names]:
            raise ArgumentError(f"kernel: {self.name}: grad must take {', '.join(missing)}, None where an output has no gradient")
        self.seeds = [self.names.index(name) for name in seeds] or [0]
        self.asked = [*self.names, *["shapes"] * ("shapes" not in self.names)]
        self.__signature__ = _signature(self.asked)

    def __call__(self, *values):
        given, shapes = values[:len(self.names)], values[self.asked.index("shapes")]
        g = next(given[i] for i in self.seeds if given[i] is not None)
        found = self.function(*given)
        if self.place is not None:
            return self._checked(self.place, found, shapes, g)
        found = (found,) if found is None or isinstance(found, TensorBase) else found
        if not isinstance(found, (tuple, list)) or len(found) != len(self.inputs):
            given = f"{len(found)} values" if isinstance(found, (tuple, list)) else type(found).__name__
            raise AutogradError(f"{self.name}: grad must give a gradient or None for each of {', '.join(self.inputs)}, got {given}")
        return tuple(self._checked(i, x, shapes, g) for i, x in enumerate(found))

    def _checked(self, i: int, found: object, shapes: tuple, g):
        if found is None or shapes[i] is None:          # of a number
            return None
        return as_gradient(f"{self.name}: the gradient of {self.inputs[i]}", found, shapes[i], g.dtype, g.device)


def _derivatives(declared: Interface, grad, floats: tuple, options: inspect.Signature):
    """The record's derivative, one for all inputs or a tuple of one for each."""
    inputs = tuple(declared.inputs)
    if {*inputs, *declared.outputs} & {"needs", "shapes"}:
        raise ArgumentError(f"kernel: {declared.name}: an input cannot be called needs or shapes, which derivatives ask for")
    seeds = tuple(f"g_{name}" for name in floats) if len(floats) > 1 else ()
    known = {*inputs, *declared.outputs, *options.parameters, *seeds, "needs", "shapes",
             *(f"{name}_{what}" for name in inputs for what in ("shape", "dtype", "device"))}
    if grad is None:
        def grad(*seeds):
            raise AutogradError(f"{declared.name}: has no derivative; declare it with volta.kernel(..., grad=...)")
        grad.__signature__ = _signature(seeds or ("g",))
    if callable(grad):
        return Derivative(declared, grad, seeds, known)
    if len(grad) != len(inputs):
        raise ArgumentError(f"kernel: {declared.name}: grad has {len(grad)} functions for the inputs {', '.join(inputs)}")
    return tuple(None if each is None else Derivative(declared, each, seeds, known, i) for i, each in enumerate(grad))


def _signature(names: Sequence[str]) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names])


# ---------------------------------------------------------------- the grid of a shader
def _grid(declared: Interface, outputs: Callable, workgroups: Callable | None, params: Callable | None, shapes: tuple,
          options: dict) -> Grid:
    """What the user's functions say of a call with inputs of these shapes."""
    made = outputs(*shapes, **options) if callable(outputs) else outputs
    made = (made,) if len(declared.outputs) == 1 else tuple(made)
    if len(made) != len(declared.outputs):
        raise ArgumentError(f"{declared.name}: outputs gave {len(made)} shapes for {', '.join(declared.outputs)}")
    made = tuple(as_shape(shape) for shape in made)
    fields = params(*shapes, **options) if params else tuple(options.values())
    groups = workgroups(*shapes, **options) if callable(workgroups) else workgroups
    if groups is None:
        if declared.threads is None:
            raise ArgumentError(f"{declared.name}: give workgroups=, since @workgroup_size does not stand there in numbers")
        groups = -(-math.prod(made[0]) // declared.threads)
    fields = tuple(number for field in _tuple(fields) for number in _tuple(field))          # of vectors, each
    return Grid(made, fields, _tuple(groups))


def _tuple(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


# ---------------------------------------------------------------- the CPU
class Host:
    """The CPU's kernel: the user's function on arrays. What it gives is checked before it is taken."""

    def __init__(self, declared: Interface, function: Callable | None, grids: Callable) -> None:
        self.declared, self.function, self.grids = declared, function, grids

    def __call__(self, *operands, **params):
        if self.function is None:
            raise DeviceError(f"{self.declared.name}: has no function for the CPU; declare it with volta.kernel(..., cpu=...), or move its "
                              "tensors to a GPU with .to('gpu')")
        arrays = [x.detach().numpy() if isinstance(x, TensorBase) else np.asarray(x, to_numpy(self._dtype(kind, operands)))
                  for x, kind in zip(operands, self.declared.inputs.values())]
        results = tuple(map(from_array, self._results(arrays, params, [to_numpy(dtype) for dtype in self.dtypes(operands)])))
        return results if len(results) > 1 else results[0]

    def reference(self, *values, **params):
        """The same of arrays and numbers, for the self-test."""
        results = self(*(from_numpy(x) if isinstance(x, np.ndarray) else x for x in values), **params)
        return tuple(x.numpy() for x in results) if isinstance(results, tuple) else results.numpy()

    def dtypes(self, operands: tuple) -> tuple:
        """Of the results: a floating point one is like those among the operands, an integer too, where elements are computed."""
        return tuple(int64 if self.declared.whole and kind == "i32" else self._dtype(kind, operands)
                     for kind in self.declared.outputs.values())

    def _dtype(self, kind: str, operands: tuple):
        alike = (x.dtype for x, other in zip(operands, self.declared.inputs.values())
                 if isinstance(x, TensorBase) and KINDS[other] == KINDS[kind])
        return next(alike, DEFAULTS[KINDS[kind]])

    def _results(self, arrays: list, params: dict, dtypes: list) -> tuple:
        """What the function gives, as row-major arrays that are nobody else's.

        Raises: ArgumentError, ShapeError or DTypeError for results of another number, shape or kind than the WGSL has.
        """
        name, names = self.declared.name, tuple(self.declared.outputs)
        if self.declared.whole:
            shapes = self.grids(tuple(a.shape for a in arrays), params).shapes
        else:
            if len({a.shape for a in arrays}) > 1:
                arrays = [a.view() for a in np.broadcast_arrays(*arrays)]
            shapes = (arrays[0].shape,) * len(names)
        for a in arrays:
            a.flags.writeable = False
        with np.errstate(all="ignore"):
            found = self.function(*arrays, **params)
        results = _tuple(found)
        if len(results) != len(names):
            raise ArgumentError(f"{name}: the cpu function gave {len(results)} results, needed {', '.join(names)}")
        return tuple(_taken(f"{name}: the cpu function gave {each}", x, shape, dtype)
                     for each, x, shape, dtype in zip(names, results, shapes, dtypes))


def _taken(what: str, found: object, shape: tuple, dtype: np.dtype) -> np.ndarray:
    a = np.asarray(found)
    if not np.can_cast(a.dtype, dtype, "same_kind"):
        raise DTypeError(f"{what} of {a.dtype}, needed {dtype}; convert it with .astype")
    if a.shape != shape:
        raise ShapeError(f"{what} of shape {a.shape}, needed {shape}")
    owned = a.dtype == dtype and a.flags.c_contiguous and a.flags.owndata and a.flags.writeable
    return a if owned else np.array(a, dtype, order="C")
