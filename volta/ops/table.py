"""The op table: every primitive by name, with what tests, parity checks and the reference docs need to know of it.

A record is made by `register`. Knows no device: `volta/devices/*.py` bind kernels to the names. Declaring is kept cheap, since
`import volta` declares everything: documentation is made when it is read, and making one dataclass takes as long as a hundred records.
"""
from __future__ import annotations

import gc
import inspect
import math
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.machinery import all_suffixes
from types import ModuleType, SimpleNamespace

import numpy as np

from volta._kernels.core import CPU, STORED, TensorBase
from volta._kernels.core.call import run_kernel
from volta._kernels.core.calling import as_they_lie
from volta._kernels.core.record import Composed, Op, Primitive
from volta.device import beyond_gpu
from volta.errors import ArgumentError, AutogradError, DeviceError
from volta.node_names import LABELS
from volta.ops.without_out import WITHOUT_OUT


class Sample:
    """What describes a sample, and is named by what it was made of where a test fails."""
    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(str(value) for value in vars(self).values())})"


class Labels(Sample):
    """A sample input of int64 values in [0, high)."""
    def __init__(self, shape: tuple[int, ...], high: int) -> None:
        self.shape, self.high = shape, high


class Definite(tuple):
    """The shape of sample matrices that are symmetric, positive definite and well-conditioned, with eigenvalues apart."""


class Flags(Sample):
    """A sample input of booleans."""
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class Many(Sample):
    """A sample list of tensors of these shapes."""
    def __init__(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        self.shapes = shapes


class Derived(Sample):
    """A sample input that follows from those before it: `make(*arrays)`. Gradients see it as a constant."""
    def __init__(self, make: Callable) -> None:
        self.make = make


class Case(Sample):
    """A sample call: per input a shape (floats from the record's domain), Labels, Flags, Many, Derived, None or a number;
    and parameters. Of the family "creation" the inputs are the positional arguments as they are."""
    def __init__(self, inputs: tuple, params: dict) -> None:
        self.inputs, self.params = inputs, params


def case(*inputs: object, **params: object) -> Case:
    """A sample call."""
    return Case(inputs, params)


class Details(SimpleNamespace):
    """What the tests use of a record."""
    numpy: Callable | None          # the op on float64 NumPy arrays: fn(*inputs, **params); creation also gets dtype; families
    #                                 inplace and update give, per input, its value afterwards (None: unchanged)
    domain: tuple[float, float]     # sample values are drawn from here; kinks inside are avoided by random draws
    cases: tuple[Case, ...]
    kinds: str                      # element types it takes: f floating, i integer, b bool
    rtol: float                     # relative tolerance in float32, on every device
    smooth: bool                    # whether gradients can be compared with finite differences
    differentiable: bool = True     # a user's op may have no derivative, and a record one that raises
    elementwise: bool = False       # a composed op of broadcast tensors, element by element: special values are tested too
    view: bool = False              # a composed op whose results show the data of its first input
    fits: str = ""                  # in which dtypes Python numbers have to fit, rather than wrap or become infinite: those in whose place
    #                                 PyTorch takes no tensors; i integers and bool, f floats, h those of 16 bits
    tied: bool = False              # a derivative that is constant counts as a function of the input all the same, as in PyTorch
    reads: bool = False             # a composed op that reads values on the host: the shape or type of its result depends on them
    apart: int | None = None        # inputs from this one on must not be what is written to: elsewhere that is refused of a part alone
    out: str = ""                   # which dtypes its `out=` may have, where that is not what `outputs` makes of the op
    into: Callable | None = None    # writes the result straight into `out`, the first argument, and says so; or does nothing, gives False
    halves: bool | None = True      # whether a composed op takes float16 and bfloat16; as PyTorch on every device, some refuse them, or
    #                                 (None) all but empty ones
    cpu_only: bool = False          # a GPU has no such algorithm: there it raises DeviceError
    untested: str = ""              # a composed op without samples or reference: where it is tested, and why
    dtype: Callable | None = None   # the result's dtype (or a tuple of them) by that of the inputs, where it is not the reference's


RECORDS: dict[str, Primitive] = {}          # by the name of their kernels
FUNCTIONS: dict[str, Op] = {}               # the public operations: records and composed functions
PLACES: dict[str, Places] = {}              # where each of these appears


ROOMS = ("linalg.", "special.")             # what the names of the functions of those modules begin with

_SUFFIXES = tuple(all_suffixes())           # of the files that are modules

UNARY_SHAPES = ((), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4, 5))
BINARY_SHAPES = (((), ()), ((6,), (6,)), ((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((5, 1), (1, 6)))
TERNARY_SHAPES = (((4,), (4,), (4,)), ((3, 4), (4,), (3, 1)), ((2, 3, 1), (1, 4), ()), ((0, 2), (2,), (1, 2)))


class Places:
    """Where a public operation appears."""
    def __init__(self, function: bool = True,               # volta.x
                 method: bool = True,                       # Tensor.x
                 inplace: bool = False,                     # Tensor.x_
                 record: Primitive | None = None,           # the elementwise record that serves x_ without options
                 geometry: bool = False,                    # x_ changes how the tensor shows its data, not the data
                 operator: str | None = None,               # "add": __add__; with `inplace` also __iadd__
                 reflected: bool = False,                   # __radd__
                 aliases: tuple[str, ...] = (),
                 one: Callable | None = None,               # of the arguments of x_: the record that does all of it, and its operands
                 grows: bool = False) -> None:              # x_ gives the tensor the size of the result
        self.function, self.method, self.inplace, self.record, self.geometry = function, method, inplace, record, geometry
        self.operator, self.reflected, self.aliases, self.one, self.grows = operator, reflected, aliases, one, grows


def register(name: str, inputs: tuple[str, ...], *, family: str, vjp=None, outputs: tuple[str, ...] = ("out",), reference=None,
             promote: str = "none", takes=None, writes: tuple = (), wide: tuple = (), differentiable: tuple = (), names: tuple = (),
             tests: bool = False, cpu_only: bool = False, view: Callable | None = None, numpy: Callable | None = None,
             domain: tuple[float, float] = (-2.0, 2.0), cases: tuple = (), kinds: str = "f", rtol: float = 1e-5, smooth: bool = True,
             tied: bool = False, out: str = "", derivable: bool = True, public: Places | None = None, room: str = "",
             doc: str | None = None, pixels: tuple[str, ...] = (), fits: str = "") -> Primitive:
    """Make a record and enter it in the table. `view` is the one kernel of an op that moves no data; `public` makes it a function and
    method of users, `room` one of that module alone, "special.name"; with derivable=False its `vjp` raises. Results lie pixel by pixel
    where one of the inputs `pixels` does. The rest is what `Primitive`
    and `Details` say."""
    details = Details(numpy=numpy, domain=domain, cases=tuple(cases), kinds=kinds, rtol=rtol, smooth=smooth, tied=tied,
                      out=out, cpu_only=cpu_only, differentiable=derivable, fits=fits)
    op = Primitive(f"{room}.{name}" if room else name, inputs, vjp=vjp, family=family, outputs=outputs, reference=reference,
                   promote=promote, takes=takes, writes=writes, wide=wide, differentiable=differentiable, names=names, tests=tests,
                   details=details)
    op.pixels = sum([1 << inputs.index(name) for name in pixels])
    if view is not None:
        op.cpu = op.gpu = view
        op.cpu_own = op.gpu_own = STORED
    enter(op)
    if public is not None:
        op.document(lambda: _doc(op, doc), lambda: _signature(op))
        publish(op.name, op, public)
    return op


def enter(op: Primitive) -> None:
    """Enter a record under the name of its kernels."""
    name = op.name.rpartition(".")[2]
    if name in RECORDS:
        raise ArgumentError(f"register: there is a record {name} already")
    RECORDS[name] = op


def composed(*, samples: tuple = (), numpy: Callable | None = None, kinds: str = "f", domain: tuple[float, float] = (-2.0, 2.0),
             rtol: float = 1e-5, smooth: bool = True, elementwise: bool = False, view: bool = False, reads: bool = False,
             cpu_only: bool = False, untested: str = "", dtype: Callable | None = None, in_float32: bool = False,
             halves: bool | str | None = "usual", takes: dict[str, str] | None = None, apart: int | None = None, out: str = "",
             into: Callable | None = None, name: str | None = None, **places: object) -> Callable:
    """Decorator: a function of other ops is an op of the table, tested by its `samples` against `numpy` in float64. `takes` and
    `in_float32` are those of `Composed`; `halves` is by default what `cpu_only` is not. A function under the name of another
    one, not in `volta`, is called "functional.relu" here."""
    halves = not cpu_only if halves == "usual" else halves
    elementwise, view = elementwise or places.get("record") is not None, view or bool(places.get("geometry"))

    def make(function):
        details = Details(numpy=numpy, domain=domain, cases=tuple(samples), kinds=kinds, rtol=rtol, smooth=smooth,
                          elementwise=elementwise, view=view, reads=reads, cpu_only=cpu_only, untested=untested, dtype=dtype,
                          apart=apart, out=out, into=into, halves=halves)
        op = Composed(name or function.__name__, function, record=places.get("record"), in_float32=in_float32 or not halves, takes=takes,
                      details=details)
        op.label = LABELS.get(op.name)
        as_they_lie(op)
        publish(op.name, op, Places(**places))
        return op
    return make


def publish(name: str, op: Op, places: Places) -> None:
    """Enter a public operation under its name and its aliases."""
    returned = op.function.__annotations__.get("return") if isinstance(op, Composed) else "Tensor"
    made = isinstance(op, (Composed, Primitive)) and not (op.details.view or getattr(op, "family", "") == "view")
    op.has_out = made and (places.function or not places.method or places.record) and name[-1] != "_" and returned != "bool"
    op.has_out = op.has_out and name not in WITHOUT_OUT
    for each in (name, *places.aliases):
        if each in FUNCTIONS:
            raise ArgumentError(f"the op table has a function {each} already")
        FUNCTIONS[each], PLACES[each] = op, places if each == name or "." not in each else Places(function=False, method=False)


def _signature(op):
    """Of a record in public calls: tensors, or numbers beside a tensor."""
    kind = "Tensor | Number" if op.promotion else "Tensor"
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Tensor" if i == 0 else kind)
                  for i, name in enumerate(op.names)]
    return inspect.Signature(parameters, return_annotation="Tensor")


def _doc(op, doc):
    """The formula, what follows from the declaration, and the example that follows the formula."""
    words = {"f": "floating point", "i": "integer", "b": "bool"}
    taken = ", ".join(words[k] for k in op.takes) if isinstance(op.takes, str) else "see the formula"
    if op.promotion == 2:
        taken += "; integers and bool are converted to float32"
    shape = "any" if len(op.inputs) == 1 else "any that broadcast together"
    formula, _, example = (doc or "").partition("\n\n>>> ")
    return f"{formula}\n\nShape: {shape}, element by element.\nDtypes: {taken}." + (f"\n\n>>> {example}" if example else "")


def named(name: str, module: str | None = None) -> Op:
    """The op of this name, a public one or a record, which `module` declares."""
    if module is not None:                      # which may be the first to need it
        import_module(module)
    return FUNCTIONS.get(name) or RECORDS[name]


def import_all(package: ModuleType) -> list[ModuleType]:
    """The modules in the folders of a package, imported; not the packages in it. Nothing made by importing is garbage, and looking for it
    takes a tenth of the time: it goes to the oldest generation unseen."""
    names = {name.partition(".")[0] for folder in package.__path__ for name in os.listdir(folder) if name.endswith(_SUFFIXES)}
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [import_module(f"{package.__name__}.{name}") for name in sorted(names - {"__init__"})]
    finally:
        if collecting:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def bind(kernels: dict[str, Callable], device: str, own: dict[int, Iterable[str]]) -> None:
    """Give the records their kernels on `device` ("cpu" or "gpu"); a missing one stays None, which the parity test reports. `own` names,
    by the code of a dtype that others are given widened, the kernels that take it themselves."""
    for name, op in RECORDS.items():
        if name in kernels:
            setattr(op, device, kernels[name])
            setattr(op, device + "_own", STORED if op.family == "view" else sum([1 << code for code in own if name in own[code]]))
        elif op.details.cpu_only and device == "gpu":
            op.gpu = _elsewhere(name)


def _elsewhere(name):
    """The kernel on a GPU of what only the CPU computes: an error, or under `set_gpu_gaps("warn")` the CPU's, and copies."""
    def kernel(*inputs, **params):
        bridged(name)
        device = next(x.device for x in inputs if isinstance(x, TensorBase))
        found = run_kernel(RECORDS[name], CPU, tuple(x.detach().cpu() if isinstance(x, TensorBase) else x for x in inputs), params)
        return tuple(x.to(device) for x in found) if isinstance(found, tuple) else found.to(device)
    return kernel


def bridged(name: str) -> None:
    """Say that the CPU alone computes this: raise DeviceError, or warn where gaps of GPUs are bridged."""
    beyond_gpu(DeviceError(f"{name}: is computed on the CPU alone; move its tensors there with .cpu(), and the result back with "
                           ".to(device)"), "Computed there, and copied back.")


def missing_kernels() -> list[tuple[str, str]]:
    """(op, device) pairs without a kernel; empty unless a backend is incomplete."""
    return [(name, device) for name, op in RECORDS.items() for device in ("cpu", "gpu") if getattr(op, device) is None]


def underived(op: str, input: str) -> Callable:
    """The derivative that nobody has worked out, by an input: an error when it is asked for."""
    def derivative(g):
        raise AutogradError(f"{op}: there is no derivative by {input!r}; give it detached")
    return derivative


def create(op: Primitive, *args: object, device, **params: object):
    """Run a kernel that has no tensor inputs on `device`."""
    return run_kernel(op, device, args, {**params, "device": device})


def erf(x: np.ndarray) -> np.ndarray:
    """erf in float64, for references."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)

