"""`out=`: results written into tensors that the caller gives, as in PyTorch. Knows no single op."""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from volta._kernels import core
from volta._kernels.core.grad_mode import GradMode
from volta._kernels.core.graph import is_grad_enabled, wants_grad
from volta._kernels.core.inplace import check_apart, check_elements, write
from volta._kernels.core.order import dense_strides
from volta._kernels.core.record import Composed, Op, Primitive
from volta.dtypes import bool_, can_cast, float16, uint8
from volta.errors import ArgumentError, AutogradError, CallError, DeviceError, DTypeError, ShapeError
from volta.ops.records.copy import cast_op
from volta.ops.records.reduce import amax_op, sum_op
from volta.ops.records.view import expand_op, part, reshape_op

if TYPE_CHECKING:
    from volta.tensor import Tensor


# Which dtypes an `out` may have, by the result's: the word that an op declares as `out`.
_FITS = {
    "one": can_cast,                            # of the one result; where there are several, "same"
    "same": lambda result, out: result is out,
    "copy": lambda result, out: result is out,          # of an input
    "cast": can_cast,                           # any that a result of this kind can be stored in
    "bool": lambda result, out: out in (bool_, uint8),
    "any": lambda result, out: True,
    "dtype": lambda result, out: result is out,         # the default of the argument `dtype` is that of `out`
}


# Functions whose `out=` comes with a further argument, as in PyTorch: a name and its place.
_BESIDE = {"sum": ("dim", 1), "prod": ("dim", 1), "median": ("dim", 1), "nanmedian": ("dim", 1), "argsort": ("stable", 4),
           "where": ("input", 1)}


# Functions that PyTorch computes straight into `out`, which may then not overlap in part what they read; of the others the result is
# whole before any of it is stored.
_STRAIGHT = frozenset("""addbmm addmm addmv addr baddbmm bernoulli cumprod cumsum float_power heaviside linalg.cross linalg.vector_norm
logcumsumexp max min msort nextafter normal normalize polygamma renorm""".split())
_WHOLE = frozenset({"special.ndtr"})            # and a record that is whole before it is stored
_BY_ELEMENTS = frozenset("float_power heaviside max min nextafter".split())                 # elementwise, though composed of several
_CHANGING = frozenset(("native_batch_norm",))        # that change what they are given: their `out` is looked at before
_OF_VIEWS = frozenset("column_stack dstack hstack stack take_along_dim vstack".split())       # that read views of their inputs

# Functions whose `out` PyTorch does not look at for gradients: none of them has one.
_UNDERIVED = frozenset("""special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w
special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v
special.shifted_chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he special.laguerre_polynomial_l
special.legendre_polynomial_p special.spherical_bessel_j0 histc split_with_sizes_copy eq ne lt le gt ge logical_and logical_or logical_xor
logical_not isin isposinf isneginf signbit nonzero all any argmax argmin bucketize searchsorted""".split())

# Functions that give `out` the shape of the result without a warning.
_QUIET = frozenset("""addbmm arange bernoulli empty eye full linspace logsigmoid logspace lu multinomial narrow_copy ones rand randint randn
randperm range zeros""".split())

# Functions that make an `out` of another shape row-major, however the result lies; and those that do so where it had elements.
_ROW_MAJOR = frozenset("cholesky cholesky_solve linalg.tensorinv lu matrix_power nanquantile quantile".split())
_ROW_MAJOR_AGAIN = frozenset("cholesky_inverse geqrf linalg.lstsq ormqr orgqr".split())

# Reductions that are computed in the dtype of `out`, where it is the wider one, and not rounded to that of the tensor first.
_WIDENED = frozenset("logsumexp mean nanmean nansum std var".split())

_SILENT = frozenset("split_copy split_with_sizes_copy unbind_copy".split())         # give None then, as in PyTorch

# Functions that may be stored where several places are one element: as in PyTorch the last of their values stays there.
_LAST = frozenset("bmm cummax cummin full mv ones tril triu zeros".split())
_LINES = frozenset("arange linspace logspace range".split())        # and keep its own where that has as many elements


# Reductions that PyTorch goes on with where several places of `out` are one element: all that meets there is reduced to it.
_ENDING = {"eye": amax_op, "histc": sum_op, "linalg.matrix_rank": sum_op}           # that end with another reduction
_FURTHER = frozenset("all amax amin any argmax argmin linalg.vector_norm nansum norm sum".split()) | _ENDING.keys()


def _admitted(op, record, args, options, outs):
    """By which rule the results go into `outs`. Raises unless they may."""
    for each in outs:
        if not isinstance(each, core.TensorBase):
            raise DTypeError(f"{op.name}: out must be a tensor, or one for each result, got {type(each).__name__}")
    name, place = _BESIDE.get(op.name, ("", 0))
    if len(args) <= place and name not in options and not (name == "dim" and "axis" in options) and name:
        raise TypeError(f"{op.name}() missing a required argument: out= needs {name!r} to be given too")
    rule = op.details.out or ("cast" if record is not None and _casts(record) else "same")
    rule = _special(op.name, args, options, outs[0], rule)
    if is_grad_enabled() and op.name not in _UNDERIVED and any(map(wants_grad, (*outs, *_tensors((*args, *options.values()))))):
        raise AutogradError(f"{op.name}: out= is not differentiable, but one of the tensors requires grad; detach it, or call without out")
    _check_outs_apart(op, outs)
    if (op.details.apart is not None or record is not None or op.details.elementwise or op.name in _STRAIGHT or rule == "copy") and (
            op.name not in _WHOLE):
        _check_apart(op, args, options, outs)
    return rule


def fill(op: Op, args: tuple, options: dict, out: Tensor | tuple[Tensor, ...]) -> object:
    """Call `op` unrecorded, with its results in `out`: a tensor, or one for each result. A tensor of another shape gets that of the
    result, with a warning unless it is empty.

    Raises: AutogradError where a gradient is wanted; DTypeError, DeviceError for a tensor that cannot hold the result.
    """
    if op.details.into is not None and not options and isinstance(out, core.TensorBase) and not core.is_inferred(out) and (
            op.details.into(out, *args)):
        return out
    record = op if isinstance(op, Primitive) else op.record
    if record is not None and record.promotion and not options and isinstance(out, core.TensorBase) and not any(
            isinstance(x, core.TensorBase) and x.requires_grad for x in (out, *args)) and write(record, out, args):
        return out                                      # which asks for the rest, and gives way where it is not so
    outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if isinstance(out, (tuple, list)) and _has_one(op):
        raise CallError(f"{op.name}: out must be a tensor, got {len(outs)} in a {type(out).__name__}")
    rule = _admitted(op, record, args, options, outs)
    with GradMode(False):
        if isinstance(out, core.TensorBase):
            if record is not None and record.promotion and not options and write(record, out, args):
                return out
            if isinstance(op, Composed) and not any(True for _ in _tensors((*args, *options.values()))):
                options = {"dtype": out.dtype, "device": out.device, **options}         # a new tensor is made like `out`
            elif rule == "dtype":
                options = {"dtype": out.dtype, **options}
        if op.name in _CHANGING and (other := [each.dtype for each in outs if each.dtype is not args[0].dtype]):
            raise DTypeError(f"{op.name}: out must have the input's dtype, {args[0].dtype}, got {other[0]}")
        if op.name in _WIDENED:
            args = tuple([_as_wide(x, outs[0].dtype) for x in args])
            options = {key: _as_wide(x, outs[0].dtype) for key, x in options.items()}
        result = op(*args, **options)
        if isinstance(result, core.TensorBase) and result.shape != outs[0].shape and (
                op.details.elementwise or op.name in _BY_ELEMENTS or record is not None and record.pointwise) and (
                any(x is out for x in _tensors((*args, *options.values())))) and not (op.name in ("max", "min") and len(args) < 2):
            raise ShapeError(f"{op.name}: out is one of the inputs, of shape {out.shape}, and the result has shape {result.shape}; "
                             "give another tensor")
        if op.name in _FURTHER and isinstance(result, core.TensorBase):
            result = _further(op, args, options, result, outs[0])
        if op.details.apart is not None and isinstance(result, core.TensorBase) and result.shape != outs[0].shape:
            _check_apart(op, args, options, _grown(outs[0], result))
        return _keep(op.name, result, out, outs, rule, _quiet(op.name, args, options))


def _has_one(op):
    """Whether the op has one result, whatever it is given."""
    return len(op.outputs) == 1 if isinstance(op, Primitive) else op.function.__annotations__.get("return") == "Tensor"


def _check_outs_apart(op, outs):
    for i, each in enumerate(outs):
        for other in outs[:i]:
            check_apart(op.name, each, other, True)


def _check_apart(op, args, options, outs):
    """Raise where one of `outs` shares memory with what the op reads."""
    place = op.details.apart
    for i, x in enumerate((*args, *options.values())):
        for read in _tensors((x,)):
            for each in outs:
                if each is read and not read._size and place is not None and i >= place and op.name not in _OF_VIEWS and not (
                        op.name == "cat" and all(t._shape == (0,) for t in _tensors(args))):
                    raise ArgumentError(f"{op.name}: out is one of the inputs that are read while it is written; give another tensor")
                check_apart(op.name, each, read, place is not None and i >= place)


def _grown(out, result):
    """What `out` is in its memory as soon as it has the result's shape, or nothing where it then gets memory of its own."""
    held = out.storage.nbytes // (4 if out.device.is_gpu and out.dtype is not float16 else out.itemsize)
    fits = out._size and out.offset + result._size <= held
    return (core.view(out, result._shape, core.strides_of(result._shape), out.offset),) if fits else ()


def _repeated(out):
    """The dimensions along which a tensor repeats an element."""
    return tuple([d for d, (n, stride) in enumerate(zip(out._shape, out._strides)) if n > 1 and stride == 0])


def _further(op, args, options, result, out):
    """The result, reduced along the dimensions that `out` repeats elements of as well."""
    dims, x = _repeated(out), args[0] if args else options.get("input", options.get("x"))
    if not dims or result.shape != out.shape:
        return result
    if op.name.startswith("arg"):                       # places among all elements
        if result._size == x._size:
            return result
        if any(out._strides[d] for d, n in enumerate(out._shape) if n > 1):
            check_elements(op.name, out)
        return expand_op(op(x), shape=out._shape)
    if op.name == "linalg.vector_norm" and result._size == x._size:         # one element for each, which PyTorch does not reduce
        check_elements(op.name, out)
    if op.name in _ENDING:
        return expand_op(_ENDING[op.name](result, dim=dims, keepdim=True), shape=out._shape)
    order = (args[1] if len(args) > 1 else options.get("p", options.get("ord", 2)),) if "norm" in op.name else ()
    return expand_op(op(result, *order, dims, True), shape=out._shape)


def _keep(name, result, out, outs, rule, quiet):
    """Store the results, each in its own of `outs`."""
    several = isinstance(result, (tuple, list))
    results = tuple(result) if several else (result,)
    if len(results) != len(outs) or isinstance(out, (tuple, list)) != several:
        raise CallError(f"{name}: out must be {f'{len(results)} tensors, one for each result' if several else 'a tensor'}, got "
                            f"{f'{len(outs)} in a {type(out).__name__}' if isinstance(out, (tuple, list)) else 'one'}")
    rule = "same" if rule == "one" and several else rule
    for each, value in zip(outs, results):
        _check(name, each, value, rule)
    for each, value in zip(outs, results):
        _store(name, each, value, quiet)
    if name in _SILENT:
        return None
    return type(result)(*outs) if hasattr(result, "_fields") else out


def _special(name, args, options, out, rule):
    """The rule of a call whose arguments make it another than that of its function."""
    first, second = (*args[:2], None, None)[:2]
    if name in ("std", "var") and (type(second) is bool or second is None and "unbiased" in options and "dim" not in options):
        raise TypeError(f"{name}() missing a required argument: out= and unbiased need dim to be given too")
    if name in ("cumsum", "cumprod") and out.dtype is bool_ and isinstance(first, core.TensorBase) and not first.shape:
        return "any"                                    # a number is stored as it is
    if name == "nansum" and out.dtype is bool_ and isinstance(first, core.TensorBase) and not first.dtype.is_floating_point:
        return "any"
    if name == "lerp" and any(isinstance(x, core.TensorBase) for x in (*args[2:3], options.get("weight"))):
        return "same"
    if name == "diff" and 0 in (second, options.get("n")):
        return "copy"
    if name == "normal" and isinstance(first, core.TensorBase) and not isinstance(second, core.TensorBase) and out.shape != first.shape:
        raise ShapeError(f"normal: out must have the shape of the means, {first.shape}, got {out.shape}")
    if name == "normal" and options.get("dtype") is not None:
        return "same"
    if name == "bmm" and first._shape[1] * first._shape[-1] * second._shape[-1] >= 400:     # above which it leaves loops for a library
        check_elements(name, out)
    if name == "inner" and not all(x.shape for x in _tensors((*args, *options.values()))):        # a product of numbers
        return "cast"
    return rule


def _as_wide(x, dtype):
    """A floating point tensor as one of `dtype`, where that is a wider one."""
    if isinstance(x, core.TensorBase) and x.dtype.is_floating_point and dtype.is_floating_point and x.dtype.itemsize < dtype.itemsize:
        return cast_op(x, dtype=dtype)
    return x


def _casts(record):
    """Whether an elementwise record stores its result in any dtype that it can be cast to, as in PyTorch: not one that keeps the dtype of
    its one input."""
    return record.promotion == 2 or record.promotion == 1 and len(record.inputs) > 1


def _tensors(values):
    for value in values:
        if isinstance(value, core.TensorBase):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


def _check(name, out, value, rule):
    """Raise where `out` cannot hold the result."""
    if value.device != out.device:
        raise DeviceError(f"{name}: the result is on {value.device}, out on {out.device}; give a tensor of that device")
    if not _FITS[rule](value.dtype, out.dtype):
        raise DTypeError(f"{name}: the result is {value.dtype} and cannot be stored in out of {out.dtype}; give one of {value.dtype}")
    if name not in _LAST and name not in _FURTHER:
        check_elements(name, out)


def _quiet(name, args, options):
    """Whether `out` of another shape gets that of the result without a warning."""
    if name == "mode":
        return not any(x.shape for x in _tensors(args))
    return name in _QUIET or name == "normal" and not any(True for _ in _tensors((*args, *options.values())))


def _store(name, out, value, quiet):
    if value.dtype is not out.dtype:
        value = cast_op(value, dtype=out.dtype)
    if out.shape != value.shape and name in _LINES and out._size == value._size:
        value = reshape_op(value, shape=out.shape)
    if out.shape != value.shape:
        resized = bool(out._size)
        if resized and (not quiet or name == "arange" and out._size != value._size):
            warnings.warn(f"{name}: out of shape {out._shape} now has that of the result, {value._shape}; give an empty tensor or one of "
                          "that shape", stacklevel=4)
        with_gaps = name == "linalg.lstsq" and value._size and value.ndim > 1 and not resized     # with LAPACK's rows
        out.resize_((max(n * s for n, s in zip(value._shape, value._strides)),) if with_gaps else value.shape)
        plain = value._contiguous or name in _ROW_MAJOR or resized and name in _ROW_MAJOR_AGAIN or core.stands_in(value)
        strides = value._strides if with_gaps else None if plain else dense_strides(value)
        if strides is not None:                         # as the result lies
            out.as_strided_(value._shape, strides, out.offset)
    if name in _LAST or name in _FURTHER:
        out, value = _last(out, value)
    out.copy_(value)


def _last(out, value):
    """The parts of both that are left where `out` repeats an element."""
    for d in _repeated(out):
        out, value = part(out, d, 0, 1), part(value, d, value._shape[d] - 1, 1)
    return out, value
