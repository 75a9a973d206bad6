"""The op table as test cases: sample inputs, calls, references and layouts for any record on any device. Knows no single op."""
from __future__ import annotations

import numpy as np

import volta
import volta.nn  # declares the functions of networks
import volta.testing
from volta._kernels.core.call import run_kernel
from volta._kernels.core.record import Composed
from volta.ops.table import FUNCTIONS, RECORDS, Case, Definite, Derived, Flags, Labels, Many, create

ERRORS: list[float] | None = None           # where it is a list, every comparison of floats enters its error, in units of the tolerance

# Without samples: moved between host and GPU, not computed (tests/test_devices.py); of a storage, not of elements (tests/test_arrange.py).
APART = {"upload", "download", "transfer", "as_strided"}
IN_PLACE = {"inplace", "update"}
ELEMENTWISE = {"unary", "grad", "binary", "comparison", "bitwise", "ternary", "gamma", "polynomial", "draw"}


def need(condition: bool, text: str) -> None:
    """Raise AssertionError with `text` unless the condition holds (under python -O as well)."""
    if not condition:
        raise AssertionError(text)


def records(*, family: set[str] | None = None, creation: bool = False, in_place: bool = False) -> list:
    """Records of the table, without creation and in-place ops unless asked for."""
    return [op for name, op in RECORDS.items()
            if name not in APART and (family is None or op.family in family)
            and (creation or op.family != "creation") and (in_place or op.family not in IN_PLACE)]


def composed() -> list:
    """Functions of other ops that have samples, each once however many names it has."""
    return [op for name, op in FUNCTIONS.items() if isinstance(op, Composed) and op.details.cases and name == op.name]


def family(op) -> str:
    return "composed" if isinstance(op, Composed) else op.family


def kind_of(op):
    """The dtype to try an op with where one is enough."""
    return volta.float32 if "f" in op.details.kinds else volta.int32 if "i" in op.details.kinds else volta.bool


def has_dtype(device: str, dtype) -> bool:
    """Whether the device has this dtype: float64 only the CPU, float16 not every GPU."""
    try:
        volta.zeros(1, dtype=dtype, device=device)
    except volta.errors.DTypeError:
        return False
    return True


# ---------------------------------------------------------------- samples
def sample(op, case: Case, rng: np.random.Generator, dtype) -> list:
    """Inputs of a case as arrays of the element type under test; labels are int64, flags bool, numbers and None as they are."""
    if family(op) == "creation":
        return list(case.inputs)
    out: list = []
    for spec in case.inputs:
        if isinstance(spec, Derived):
            made = spec.make(*out)
            out.append([as_dtype(m, dtype) for m in made] if isinstance(made, list) else derived(made, dtype))
        elif isinstance(spec, Many):
            out.append([values(op, shape, rng, dtype) for shape in spec.shapes])
        elif isinstance(spec, Labels):
            out.append(rng.integers(0, spec.high, spec.shape))
        elif isinstance(spec, Flags):
            out.append(np.asarray(rng.random(spec.shape) < 0.5))
        elif isinstance(spec, tuple):
            out.append(values(op, spec, rng, dtype))
        else:
            out.append(spec)
    return out


def derived(made, dtype):
    """What a Derived gave: floats in the element type under test, integers and flags as they are where that is a float, or where
    not every op takes it for indices."""
    if not isinstance(made, np.ndarray):
        return made
    return made if made.dtype.kind in "ib" and dtype not in (volta.int64, volta.bool) else as_dtype(made, dtype)


def values(op, shape: tuple, rng: np.random.Generator, dtype) -> np.ndarray:
    """Random elements from the record's domain; integers are positive where the domain is."""
    low, high = op.details.domain
    if dtype is volta.bool:
        drawn = rng.random(shape) < 0.5
    elif dtype.is_floating_point:
        drawn = rng.uniform(low, high, shape)
        if isinstance(shape, Definite):
            drawn = (drawn + np.swapaxes(drawn, -1, -2)) / 8 + np.diag(np.arange(shape[-1]) + 2.0)
    else:
        drawn = rng.integers(1, 10, shape) if low > 0 or dtype is volta.uint8 else rng.integers(-9, 10, shape)
    return as_dtype(drawn, dtype)


def as_dtype(value, dtype) -> np.ndarray:
    """An array of a Volta dtype."""
    return np.asarray(value).astype(volta.dtypes.to_numpy(dtype))


def as_precision(arrays: list, dtype) -> list:
    """The floats among arrays as another floating dtype."""
    return [as_precision(a, dtype) if isinstance(a, list) else a.astype(volta.dtypes.to_numpy(dtype))
            if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arrays]


def to_device(arrays: list, device: str, requires_grad: bool = False) -> list:
    """Tensors of the arrays; with `requires_grad` the floating point ones are leaves that want gradients."""
    return [volta.tensor(a, device=device, requires_grad=requires_grad and a.dtype.kind == "f") if isinstance(a, np.ndarray)
            else to_device(a, device, requires_grad) if isinstance(a, list) else a for a in arrays]


# ---------------------------------------------------------------- calls and references
def run(op, tensors: list, params: dict, device: str, dtype=None) -> tuple:
    """All results of a call. An in-place op gives its inputs afterwards."""
    if family(op) == "creation":
        return (create(op, *tensors, device=volta.device(device), dtype=dtype, **params),)
    if family(op) in IN_PLACE:
        run_kernel(op, volta.device(device), tuple(tensors), params)
        return tuple(tensors)
    with volta.no_grad():
        result = op(*tensors, **params)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def expected(op, arrays: list, params: dict, dtype=None) -> tuple:
    """The record's NumPy reference in float64 (or the integers given); None for an input that an in-place op leaves."""
    if family(op) == "creation":
        params = {**params, "dtype": volta.dtypes.to_numpy(dtype)}
    with np.errstate(all="ignore"):
        result = op.details.numpy(*[widened(a) for a in arrays], **params)
    results = tuple(result) if isinstance(result, tuple) or family(op) == "composed" and isinstance(result, list) else (result,)
    return tuple(r if r is None or isinstance(r, list) else np.asarray(r) for r in results)


def widened(a):
    """Floats as float64, within lists too."""
    if isinstance(a, list):
        return [widened(x) for x in a]
    return a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a


def flat(values) -> list:
    """The elements of nested lists and tuples, in order."""
    return [y for x in values for y in (flat(x) if isinstance(x, (list, tuple)) else (x,))]


def on_device(reference: np.ndarray, device: str) -> np.ndarray:
    """Integers as the device holds them: a GPU computes int64 in 32 bits, wrapping."""
    if reference.dtype == np.uint64:            # NumPy's sum and product of uint8
        reference = reference.astype(np.int64)
    return reference.astype(np.int32).astype(np.int64) if device == "gpu" and reference.dtype == np.int64 else reference


def magnitude(arrays) -> float:
    """The largest finite number among some arrays."""
    floats = [a for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    return max((float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in floats), default=0.0)


def check(actual, reference: np.ndarray, rtol: float, msg: str, scale: float = 0.0) -> None:
    """Floats to `rtol` of the element or, where terms cancel, of the largest element or of `scale` (that of the inputs);
    everything else exactly."""
    found = actual.detach().numpy()
    need(found.shape == reference.shape, f"{msg}: shape {found.shape}, expected {reference.shape}")
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, reference, err_msg=msg)
        return
    atol = rtol * max(scale, magnitude([reference]))
    if ERRORS is not None and found.size:
        with np.errstate(all="ignore"):
            error = np.abs(found - reference) / (atol + rtol * np.abs(reference))
        ERRORS.append(float(np.max(error, where=np.isfinite(error), initial=0.0)))
    volta.testing.assert_close(found, reference, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text: f"{msg}: {text}")


# ---------------------------------------------------------------- layouts
def transposed(array: np.ndarray, device: str):
    """The array as the transpose of row-major data."""
    return volta.tensor(np.ascontiguousarray(array.T), device=device).permute(*reversed(range(array.ndim)))


def sliced(array: np.ndarray, device: str):
    """The array as every second element of a larger tensor, from an offset; what lies between must not be read."""
    junk = np.nan if array.dtype.kind == "f" else np.zeros((), array.dtype)
    whole = np.full([2 * n + 3 for n in array.shape], junk, array.dtype)
    where = tuple(slice(1, 1 + 2 * n, 2) for n in array.shape)
    whole[where] = array
    return volta.tensor(whole, device=device)[where]


def reversed_(array: np.ndarray, device: str):
    """The array as a view with negative strides."""
    back = tuple(slice(None, None, -1) for _ in array.shape)
    return volta.tensor(np.ascontiguousarray(array[back]), device=device)[back]


def expanded(array: np.ndarray, device: str):
    """The array, whose slices along the first dimension are equal, with stride 0 there."""
    x = volta.tensor(array, device=device)
    return x[:1].expand(*x.shape) if len(array) else x


def repeated(a):
    """An array of the same shape with equal slices along the first dimension; lists by element."""
    if isinstance(a, list):
        return [repeated(x) for x in a]
    return np.repeat(a[:1], len(a), 0) if isinstance(a, np.ndarray) and a.ndim and len(a) else a


LAYOUTS = {"transposed": transposed, "sliced": sliced, "reversed": reversed_}
