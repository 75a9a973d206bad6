# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Calling kernels. `call_kernel`, in `call.pxd` to be inlined, is the only place where a kernel is chosen by device; around it, what must
hold before: dtypes as declared, promotion, broadcasting, and what is computed in a wider dtype than it is stored in.

Records no graph. A tape, a profiler, autocast and `selftest` watch here: see `Observer`.
"""
from cpython.tuple cimport PyTuple_GET_SIZE

from volta.errors import ArgumentError, DTypeError, NumberError, ShapeError
from volta._kernels.core.base import default_device
from volta._kernels.core.base cimport (
    BOOL, BOOL_MASK, DTYPES, FLOAT16, FLOAT32, FLOAT_MASK, INT64, INTEGER_MASK, STORED_MASK, DType, Device, TensorBase, dtype_of,
    is_half, make_tensor, wider)
from volta._kernels.core.order cimport pixel_strides, pixelwise
from volta._kernels.core.record cimport EACH, FLOATING, MAY_BE_WIDE, WIDE, Primitive, set_check, set_composed
from volta._kernels.core.rounding cimport rounded, unrounded
from volta._kernels.core.switches cimport switched

cdef extern from *:
    """
    VOLTA_PER_THREAD int volta_adapting = 1;
    """
    int volta_adapting

cdef Primitive _cast = None                 # set by volta.ops, what follows by volta.devices
cdef Primitive _contiguous = None
cdef object _widened = None                 # (op, device, kernel, inputs, params, out) -> result of a kernel that has no such dtype
cdef object _narrowed = None                # (result, {dtype: narrower one}) -> the result in what it is to be stored in
cdef DType _FLOAT32 = dtype_of(FLOAT32)
cdef object _of_meta = None                 # op -> kernel that gives tensors without data, set by volta.devices


def configure(cast=None, contiguous=None, widened=None, narrowed=None, of_meta=None):
    """Give this module the pieces of higher layers that it calls, some at a time."""
    global _cast, _contiguous, _widened, _narrowed, _of_meta
    _contiguous = contiguous or _contiguous
    _cast, _widened, _narrowed, _of_meta = cast or _cast, widened or _widened, narrowed or _narrowed, of_meta or _of_meta


cdef class View:
    def __call__(self, TensorBase x not None, **params):
        return self.shown(x, params)


cdef View as_view(view_t shown):
    cdef View view = View.__new__(View)
    view.shown = shown
    return view


cdef object kernel_of_meta(Primitive op):
    """The kernel of tensors without data."""
    return _of_meta(op)


# ---------------------------------------------------------------- observers

cdef list observers = []
watching = 0


class Observer:
    """What watches calls: override what is needed, and use it as a context manager. Observers see every call of every thread.

    `replace(op, inputs, params)` may give the result of a record, or NotImplemented (vmap). `adapt(op, inputs)` may give other inputs,
    before promotion and recording (autocast), and `compose(op, args, options)` the result of a composed op, or NotImplemented; these two
    are not asked while `set_adapting(False)` holds in a thread, nor in backward. `before(op, device, inputs, params, out)` and
    `after(op, device, inputs, params, out, result)` enclose each kernel (a tape, a profiler). `out` is the tensor that an elementwise op
    writes into, None where it makes a new one.
    """

    replace = adapt = compose = before = after = None

    def __enter__(self):
        observers.append(self)
        _count_observers()
        return self

    def __exit__(self, *exc):
        observers.remove(self)
        _count_observers()


cdef _count_observers():
    global watching
    watching = len(observers)
    set_composed(_composed if any([observer.compose is not None for observer in observers]) else None)


cdef int switch_adapting(int enabled) noexcept:
    """Whether observers may adapt the calls of this thread; gives the previous setting."""
    return switched(&volta_adapting, enabled)


def set_adapting(bint enabled):
    """Whether observers may adapt the calls of this thread; gives the previous setting."""
    return switch_adapting(enabled) != 0


def _composed(op, args, options):
    if volta_adapting:
        for observer in tuple(observers):
            result = NotImplemented if observer.compose is None else observer.compose(op, args, options)
            if result is not NotImplemented:
                return result
    return NotImplemented


cdef object replaced(Primitive op, tuple inputs, dict params):
    for observer in tuple(observers):
        result = NotImplemented if observer.replace is None else observer.replace(op, inputs, params)
        if result is not NotImplemented:
            return result
    return NotImplemented


cdef tuple adapted(Primitive op, tuple inputs):
    if not volta_adapting:
        return inputs
    for observer in tuple(observers):
        if observer.adapt is not None:
            inputs = tuple(observer.adapt(op, inputs))
    return inputs


cdef tuple before(tuple call):
    """Tell the observers, and give those that are to hear of the result."""
    cdef tuple present = tuple(observers)
    for observer in present:
        if observer.before is not None:
            observer.before(*call)
    return present


cdef int after(tuple present, tuple call, object result) except -1:
    for observer in reversed(present):
        if observer.after is not None:
            observer.after(*call, result)
    return 0


# ---------------------------------------------------------------- the call point

def run_kernel(Primitive op not None, Device device not None, tuple inputs not None, dict params=None):
    """`call_kernel` for Python: the kernel of a device on tensors of it, unrecorded. Checks dtypes as declared."""
    if op.accepts != NULL:
        check_dtypes(op, inputs)
    return call_kernel(op, device, inputs, params, None)


def created(Primitive op not None, tuple args not None, DType dtype=None, Device device=None):
    """What an op without tensors makes of numbers: by default where and of the dtype that new tensors are."""
    cdef Device place = default_device() if device is None else device
    return call_kernel(op, place, args, {"dtype": dtype_of(_default) if dtype is None else dtype, "device": place}, None)


cdef int count_writes(Primitive op, tuple inputs) except -1:
    """Every tensor that the kernel has changed is of a new version."""
    cdef Py_ssize_t i
    cdef object x
    for i in op.writes:
        x = inputs[i]
        if isinstance(x, TensorBase):
            (<TensorBase>x).storage.version += 1
        elif x is not None:
            for t in x:
                (<TensorBase>t).storage.version += 1
    return 0


cdef object widened(Primitive op, Device device, object kernel, tuple inputs, dict params, TensorBase out):
    """The result of a kernel that has no form of its own for a stored dtype. The commonest calls, of row-major float16 or bfloat16 tensors
    on the CPU, are made here; `devices/stored.py` has the rules for all."""
    cdef DType narrow = None
    cdef Py_ssize_t i
    cdef object x, result
    cdef list wide
    if device.is_gpu or out is not None or op.changes or params is not None and "dtype" in params or not PyTuple_GET_SIZE(inputs):
        return _widened(op, device, kernel, inputs, params, out)
    for i in range(PyTuple_GET_SIZE(inputs)):
        x = <object>inputs[i]
        if isinstance(x, (list, tuple)):
            return _widened(op, device, kernel, inputs, params, out)
        if isinstance(x, TensorBase) and STORED_MASK >> (<TensorBase>x).dtype.code & 1:
            if not is_half((<TensorBase>x).dtype.code) or not (<TensorBase>x).contiguous:
                return _widened(op, device, kernel, inputs, params, out)
            narrow = (<TensorBase>x).dtype if narrow is None else narrow
    if narrow is None:
        return _widened(op, device, kernel, inputs, params, out)
    wide = list(inputs)
    for i in range(len(wide)):
        if isinstance(wide[i], TensorBase) and is_half((<TensorBase>wide[i]).dtype.code):
            wide[i] = _cast.cpu(wide[i], dtype=_FLOAT32)
    result = PyObject_Call(kernel, tuple(wide), <PyObject*>params if params is not None and PyDict_GET_SIZE(params) else NULL)
    if isinstance(result, TensorBase):
        return _cast.cpu(result, dtype=narrow) if (<TensorBase>result).dtype.code == FLOAT32 and (
            <TensorBase>result).contiguous else _narrowed(result, {_FLOAT32: narrow})
    if isinstance(result, tuple):
        return tuple([x if i in op.wide else _narrowed(x, {_FLOAT32: narrow}) for i, x in enumerate(result)])
    return _narrowed(result, {_FLOAT32: narrow})


cdef object lay_by_pixels(Device device, object result):
    """The images or volumes among the results of a kernel with the channels of each pixel together. It copies where a kernel made them
    row-major, without an observer's knowing: for it they are what the op gave."""
    cdef TensorBase t
    cdef tuple shape, strides
    if isinstance(result, tuple):
        return tuple([lay_by_pixels(device, x) for x in <tuple>result])
    if not isinstance(result, TensorBase):
        return result
    t = <TensorBase>result
    if PyTuple_GET_SIZE(t.shape) < 4 or t.size == 0 or pixelwise(t):
        return t
    shape = t.shape[:1] + t.shape[2:] + t.shape[1:2]
    strides = t._strides[:1] + t._strides[2:] + t._strides[1:2]
    t = make_tensor(t.storage, shape, strides, t.offset, t.dtype)
    if not t.contiguous:
        t = <TensorBase>kernel_for(_contiguous, device)(t)
    shape = (<TensorBase>result).shape
    return make_tensor(t.storage, shape, pixel_strides(shape), t.offset, t.dtype)


cdef inline bint _lacks(int own, int code) noexcept:
    return (STORED_MASK & ~own) >> code & 1


cdef bint is_stored(Primitive op, tuple inputs, dict params, int own) except -1:
    """Whether an input is of a dtype that is stored alone, or a new tensor of it is asked for, and the kernel has none. IN: own, the bit
    mask of those that it has."""
    cdef Py_ssize_t i
    cdef object x
    for i in range(PyTuple_GET_SIZE(inputs)):
        x = <object>inputs[i]
        if isinstance(x, TensorBase):
            if _lacks(own, (<TensorBase>x).dtype.code):
                return True
        elif isinstance(x, (list, tuple)) and len(x) and isinstance(x[0], TensorBase) and _lacks(own, (<TensorBase>x[0]).dtype.code):
            return True
    if params and (not own >> FLOAT16 & 1 or op.count == 0 or op is _cast):             # the others have no such parameter
        x = params.get("dtype")
        return isinstance(x, DType) and _lacks(own, (<DType>x).code)
    return False


# ---------------------------------------------------------------- dtypes

cdef int _default = FLOAT32                 # the code of what Python's floats and the results of integers become


def set_default(DType dtype not None):
    """Let Python's floats beside integers, and what floating point functions make of integers, be of this dtype."""
    global _default
    _default = dtype.code


cdef tuple _PAIRS = ({"other"}, {"tensor", "other"}, {"tensor", "scalar"}, {"scalar1", "scalar2"})


def result_type(*tensors, **named):
    """PyTorch's promoted dtype of tensors and numbers: a dimensioned tensor outranks a 0-d one, which outranks a number,
    within the same category; a higher category (bool < integer < floating) always wins.

    Raises: ArgumentError without any.
    """
    if named:
        if set(named) not in _PAIRS or len(tensors) + len(named) != 2:
            raise TypeError(f"result_type() takes two arguments, by name tensor and other, scalar and tensor, or scalar1 and scalar2, got "
                            f"{len(tensors)} and {', '.join(named)}")
        tensors += tuple(named.values())
    if not tensors:
        raise ArgumentError("result_type: needs tensors or numbers, got none")
    return _result_type(tensors)


cdef int _code_of(object x):
    """That of the Python number that one of NumPy's stands for."""
    kind = getattr(getattr(x, "dtype", None), "kind", "f")
    return BOOL if kind == "b" else INT64 if kind in ("i", "u") else _default


cdef int _check_whole(tuple values) except -1:
    """Raise for an integer that int64 does not hold: beside bool, it would be that. (Beside integers it wraps as they do.)"""
    for x in values:
        if isinstance(x, int) and not -(1 << 63) <= x < 1 << 63:
            raise NumberError(f"{x} beside bool does not fit into {dtype_of(INT64)}; give a float, or convert with .to(dtype)")
    return 0


cdef DType _result_type(tuple values):
    cdef int best[3]
    cdef int code, rank, k
    cdef object x
    best[0] = best[1] = best[2] = -1
    for x in values:
        if isinstance(x, TensorBase):
            code = (<TensorBase>x).dtype.code
            rank = 0 if PyTuple_GET_SIZE((<TensorBase>x).shape) else 1
        elif x is None:
            continue
        else:
            rank = 2
            code = BOOL if isinstance(x, bool) else INT64 if isinstance(x, int) else _default if isinstance(x, float) else _code_of(x)
        best[rank] = wider(best[rank], code)
    code = best[0]
    if best[2] == INT64 and max(best[0], best[1]) == BOOL:
        _check_whole(values)
    for k in range(1, 3):
        if best[k] >= 0 and (code < 0 or dtype_of(best[k]).category > dtype_of(code).category):
            code = best[k]
    if code < 0:
        raise ArgumentError("result_type: needs tensors or numbers, got None alone")
    return dtype_of(code)


cdef DType common_dtype(Primitive op, tuple inputs):
    """The dtype that the inputs of a promoting op are cast to. The condition of `where` has no part in it."""
    cdef DType dtype
    if op.count and not op.promoted[0]:
        inputs = inputs[1:]
    dtype = _result_type(inputs)
    if op.promotion == FLOATING and not dtype.is_floating_point:
        return dtype_of(_default)
    return dtype


cdef tuple promoted(Primitive op, tuple inputs):
    """The inputs with every tensor cast to the common dtype."""
    cdef DType dtype
    cdef list out = []
    cdef Py_ssize_t i
    cdef object x
    if op.promotion == EACH:
        return _promoted_by_kind(op, inputs)
    dtype = common_dtype(op, inputs)
    if not op.common >> dtype.code & 1:
        refuse_dtype(op, dtype.code)
    if op.no_bool:
        refuse_bool(op, inputs)
    for i in range(PyTuple_GET_SIZE(inputs)):
        x = <object>inputs[i]
        if not op.promoted[i]:
            if not isinstance(x, TensorBase) or not op.accepts[i] >> (<TensorBase>x).dtype.code & 1:
                _refuse(op, i, x, "")
        elif isinstance(x, TensorBase):
            if (<TensorBase>x).dtype is not dtype:
                x = i and not watching and is_half(dtype.code) and unrounded(op, <TensorBase>x) or _cast(x, dtype=dtype)
        elif is_half(dtype.code):
            x = rounded(op, x, dtype.code)
        out.append(x)
    return tuple(out)


cdef tuple _promoted_by_kind(Primitive op, tuple inputs):
    """The inputs with every tensor cast to the common dtype of those of its declared kind."""
    cdef dict groups = {}, dtypes = {}
    cdef unsigned int mask
    cdef Py_ssize_t i
    cdef DType dtype
    for i in range(op.count):
        groups.setdefault(op.accepts[i], []).append(inputs[i])
    for mask, group in groups.items():
        dtype = _result_type(tuple(group))
        if mask >> FLOAT32 & 1 and not dtype.is_floating_point:
            dtype = dtype_of(_default)
        dtypes[mask] = dtype
    for i in range(op.count):
        if not op.accepts[i] >> (<DType>dtypes[op.accepts[i]]).code & 1:
            _refuse(op, i, inputs[i], "")
    return tuple([_cast(x, dtype=dtypes[op.accepts[i]]) if isinstance(x, TensorBase) and (<TensorBase>x).dtype is not dtypes[op.accepts[i]]
                  else x for i, x in enumerate(inputs)])


cdef str _kinds(unsigned int mask):
    """The dtypes of a bit mask in words."""
    cdef list found = [], words = []
    for kind, word in ((FLOAT_MASK, "floating point"), (INTEGER_MASK, "integer"), (BOOL_MASK, "bool")):
        if mask & kind == kind:
            words.append(word)
            mask &= ~kind
    for code in range(DTYPES):
        if mask >> code & 1:
            found.append(dtype_of(code).name)
    words += found
    last = words.pop()
    return f"{', '.join(words)} or {last}" if words else last


cdef int refuse_dtype(Primitive op, int code) except -1:
    """Raise for operands of a promoting op that it does not take."""
    raise DTypeError(f"{op.name}: needs {_kinds(op.common)} tensors, got {dtype_of(code).name}; convert them with .to(dtype)")


cdef int refuse_bool(Primitive op, tuple inputs) except -1:
    """Raise where an operand is bool."""
    for x in inputs:
        if (<TensorBase>x).dtype.code == BOOL if isinstance(x, TensorBase) else isinstance(x, bool):
            raise DTypeError(f"{op.name}: does not take bool; use ^ or logical_xor() for a difference of bools, ~ or logical_not() to "
                             "invert one, or convert it with .to(dtype)")
    return 0


cdef int _refuse(Primitive op, Py_ssize_t i, object x, str needed) except -1:
    given = (<TensorBase>x).dtype.name if isinstance(x, TensorBase) else "None" if x is None else type(x).__name__
    way = f"to(volta.{needed})" if needed else "float()" if op.accepts[i] >> FLOAT32 & 1 else "bool()" if op.accepts[i] == 1 else "long()"
    raise DTypeError(f"{op.name}: {op.names[i]} must be {needed or _kinds(op.accepts[i])}, got {given}; convert it with .{way}")


cdef inline int _needed(Primitive op, Py_ssize_t k, int other, int code) noexcept:
    """The dtype that an input must have beside another of dtype `other`."""
    if is_half(other) and (op.widened[k] == WIDE or op.widened[k] == MAY_BE_WIDE and code == FLOAT32):
        return FLOAT32
    return other


cdef int check_dtypes(Primitive op, tuple inputs) except -1:
    """Raise unless every input of an op that does not promote is what its record declares."""
    cdef Py_ssize_t i, k, same, last = op.count - 1
    cdef int code, needed
    cdef object x
    for i in range(PyTuple_GET_SIZE(inputs)):
        x = <object>inputs[i]
        k = i if i < last else last
        if not isinstance(x, TensorBase):
            if isinstance(x, (list, tuple)):
                _check_list(op, k, x, None if op.same[k] < 0 else <object>inputs[op.same[k]])
            elif x is None and not op.optional[k]:
                _refuse(op, k, x, "")
            continue
        code = (<TensorBase>x).dtype.code
        if not op.accepts[k] >> code & 1:
            _refuse(op, k, x, "")
        same = op.same[k] if i <= last else last    # the last of any number are of one dtype
        if same >= 0 and isinstance(<object>inputs[same], TensorBase):
            needed = _needed(op, k, (<TensorBase>inputs[same]).dtype.code, code)
            if code != needed:
                _refuse(op, k, x, dtype_of(needed).name)
    return 0


cdef int _check_list(Primitive op, Py_ssize_t k, object tensors, object others) except -1:
    """Of an op over lists of tensors: a list is of one dtype, of a kind that the op takes or that of the list `others`."""
    cdef int needed = -1
    cdef TensorBase t
    for x in (*others, *tensors) if isinstance(others, (list, tuple)) else tensors:
        if isinstance(x, TensorBase):
            needed = (<TensorBase>x).dtype.code
            break
    for x in tensors:
        if not isinstance(x, TensorBase):
            continue
        t = <TensorBase>x
        if not op.accepts[k] >> t.dtype.code & 1:
            _refuse(op, k, t, "")
        if t.dtype.code != _needed(op, k, needed, t.dtype.code):
            _refuse(op, k, t, dtype_of(_needed(op, k, needed, t.dtype.code)).name)
    return 0


set_check(check_dtypes)


# ---------------------------------------------------------------- shapes

cdef tuple broadcast(Primitive op, tuple inputs):
    """The common shape of the tensors among `inputs`. Raises: ShapeError where there is none."""
    cdef tuple shape = None, other
    cdef object x
    for x in inputs:
        if isinstance(x, TensorBase):
            other = (<TensorBase>x).shape
            if shape is None:
                shape = other
            elif shape is not other and shape != other:
                shape = _broadcast(op, inputs, shape, other)
    return shape


cdef tuple _broadcast(Primitive op, tuple inputs, tuple a, tuple b):
    cdef Py_ssize_t n, i, la, lb, m
    if len(a) < len(b):
        a, b = b, a
    n, m = len(a), len(a) - len(b)
    cdef list out = list(a)
    for i in range(m, n):
        la, lb = a[i], b[i - m]
        if la != lb:
            if la == 1:
                out[i] = lb
            elif lb != 1:
                shapes = " and ".join([str(x.shape) for x in inputs if isinstance(x, TensorBase)])
                raise ShapeError(f"{op.name}: shapes {shapes} do not broadcast: sizes {la} and {lb} at dimension {i - n} "
                                 f"differ and neither is 1")
    return tuple(out)
