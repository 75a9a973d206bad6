"""The structs behind every tensor.

Knows memory, shapes and strides. Must not know operations, derivatives or how a GPU works: a GPU storage only
carries the buffer object that keeps its bytes alive.
"""
import threading

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM, PyTuple_GET_SIZE

from volta._kernels.core.memory cimport allocate, release, usable
from volta._kernels.core.size cimport as_size, package, plain
from volta._kernels.core.switches cimport switched

from volta.errors import CallError, DTypeError, ShapeError

cdef extern from "Python.h":
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject*) except? -1        # with NULL, a number out of range gives the nearest in range
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject*, PyObject*, PyObject*)


# ---------------------------------------------------------------- element types

cdef class DType:
    """An element type, such as `volta.float32`. Compare with `is` or `==`."""

    def __cinit__(self, str name, int code, int itemsize, int category):
        self.name = name
        self.code = code
        self.itemsize = itemsize
        self.category = category
        self.is_floating_point = category == 2

    @property
    def is_signed(self):
        """Whether it has negative numbers."""
        return self.code != BOOL and self.code != UINT8

    @property
    def is_complex(self):
        """False: there are no complex numbers."""
        return False

    def to_real(self):
        """Itself: its numbers are real."""
        return self

    def __repr__(self):
        return f"{package}.{self.name}"

    def __reduce__(self):
        return (dtype_from_code, (self.code,))


cdef list _DTYPES = [
    DType("bool", BOOL, 1, 0), DType("uint8", UINT8, 1, 1), DType("int32", INT32, 4, 1), DType("int64", INT64, 8, 1),
    DType("float16", FLOAT16, 2, 2), DType("float32", FLOAT32, 4, 2), DType("float64", FLOAT64, 8, 2),
    DType("bfloat16", BFLOAT16, 2, 2), DType("int8", INT8, 1, 1), DType("int16", INT16, 2, 1),
]
STORED = STORED_MASK                    # for Python


def dtype_from_code(int code):
    """The element type with this code, which a damaged pickle may say. Raises: DTypeError where there is none."""
    if not 0 <= code < len(_DTYPES):
        raise DTypeError(f"dtype: there is no element type of code {code}; codes are 0 to {len(_DTYPES) - 1}")
    return _DTYPES[code]


cdef DType dtype_of(int code):
    return <DType>_DTYPES[code]


cpdef int wider(int a, int b) noexcept:
    """What two types are promoted to, by their codes; -1 is none."""
    cdef int low = min(a, b), high = max(a, b)
    if low == high or high < BFLOAT16:
        return high
    if high == BFLOAT16:
        return BFLOAT16 if low < FLOAT16 else max(low, <int>FLOAT32)    # neither float16 nor bfloat16 holds the other
    if low == UINT8 or low == INT8:                                     # nor int8 and uint8
        return INT16
    return high if low < UINT8 else low


# ---------------------------------------------------------------- devices

cdef object _thread = threading.local()         # `default`: the device of new tensors in this thread; `outer`: those to come back to


cdef class Device:
    """Where a tensor lives. One object per place, so `is` compares. Inside `with device:` new tensors are made there."""

    def __cinit__(self, str type, int index):
        self.index = index
        self.is_gpu = type != "cpu"
        self.is_meta = type == "meta"

    @property
    def type(self):
        """"cpu", "meta", or the word for GPUs: "gpu", under `volta.compat` "cuda"."""
        return "meta" if self.is_meta else _gpu_word if self.is_gpu else "cpu"

    def __repr__(self):
        return f"device(type='{self.type}', index={self.index})" if self.is_gpu and not self.is_meta else f"device(type='{self.type}')"

    def __str__(self):
        return self.type if self.index == 0 else f"{self.type}:{self.index}"

    def __enter__(self):
        _thread.outer = (default_device(), getattr(_thread, "outer", None))
        set_default_device(self)
        return self

    def __exit__(self, *exc):
        _thread.default, _thread.outer = _thread.outer


CPU = type("Device", (Device,), {"__slots__": (), "index": None})("cpu", 0)         # there is one, which has no number
cdef Device _CPU = CPU
cdef str _gpu_word = "gpu"


def call_gpus(str word not None):
    """Set what `Device.type` and a device's name say of GPUs; gives the previous word."""
    global _gpu_word
    cdef str previous = _gpu_word
    _gpu_word = word
    return previous


cdef bint _defaults_set = False         # in any thread: asking a thread takes as long as making a tensor's shape


def default_device():
    """Where this thread makes tensors that no device is given for."""
    return getattr(_thread, "default", _CPU) if _defaults_set else _CPU


def set_default_device(Device device not None):
    """Set it for this thread."""
    global _defaults_set
    _defaults_set = True
    _thread.default = device


# ---------------------------------------------------------------- storage

cdef object _reads = None               # while something watches: (storage, refuse) -> whether values must not be read


def watch_reads(function):
    """Let `function(storage, refuse)` say, before host code reads values outside kernels, whether they must not be read; with `refuse`
    it raises then. None ends it."""
    global _reads
    _reads = function


def host_sees(TensorBase t not None, bint anywhere=False):
    """Whether host code may look at values, to check them or for a faster way: they are here, or `anywhere`, and nobody records them."""
    return (anywhere or not t.storage.device.is_gpu) and (_reads is None or not _reads(t.storage, False))


cdef extern from *:
    """
    VOLTA_PER_THREAD int volta_inferring = 0;
    """
    int volta_inferring                 # whether this thread is in `inference_mode`


INFERRED = 1 << 62                       # from this version on: of what was made there
cdef long long _INFERRED = INFERRED


def set_inferring(bint enabled):
    """Whether this thread makes tensors that are not to be differentiated; gives the previous setting."""
    return switched(&volta_inferring, enabled) != 0


def inferring():
    """Whether it does."""
    return volta_inferring != 0


def is_inferred(TensorBase t not None):
    """Whether it was made so."""
    return t.storage.version >= _INFERRED


cdef class Storage:
    """The bytes under one or more tensors."""

    def __cinit__(self):
        self.device = _CPU
        if volta_inferring:
            self.version = _INFERRED

    def __dealloc__(self):
        if self.block != NULL:
            release(self.block)

    def __call__(self):
        """PyTorch's `x.storage()`. Raises: CallError, which names what there is."""
        raise CallError("storage: there are no storages of a type of elements; write x.untyped_storage() for the memory, x.data_ptr() for "
                        "its address, x.storage_offset() for the place in it")

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.device.is_gpu:
            raise BufferError("storage: its bytes are on the GPU; copy the tensor to the CPU first")
        if _reads is not None:
            _reads(self, True)
        PyBuffer_FillInfo(view, self, self.data, self.nbytes, 0, flags)


cdef inline Storage _storage(object buffer, char* data, Py_ssize_t nbytes, Device device):
    cdef Storage storage = Storage.__new__(Storage)
    storage.buffer = buffer
    storage.data = data
    storage.nbytes = nbytes
    storage.device = device
    return storage


cdef Storage host_storage(Py_ssize_t nbytes):
    cdef Storage storage = Storage.__new__(Storage)
    storage.block = allocate(nbytes)
    storage.data = usable(storage.block)
    storage.nbytes = nbytes
    return storage


def gpu_storage(object buffer, Py_ssize_t nbytes, Device device not None):
    """Storage over a GPU buffer, which it keeps alive."""
    return _storage(buffer, NULL, nbytes, device)


def borrowed_storage(object owner, Py_ssize_t data, Py_ssize_t nbytes):
    """Host storage over memory of `owner` (a NumPy array) at address `data`."""
    return _storage(owner, <char*>data, nbytes, _CPU)


def array_storage(object array):
    """Host storage over the memory of a C-contiguous NumPy array."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    cdef char* data = <char*>view.buf
    cdef Py_ssize_t nbytes = view.len
    PyBuffer_Release(&view)                     # NumPy's arrays keep their memory while they live
    return _storage(array, data, nbytes, _CPU)


# ---------------------------------------------------------------- tensors

cdef class TensorBase:
    """A strided view of a storage, with its place in the autograd graph. What `Tensor.__new__(Tensor)` gives is empty, as in PyTorch."""

    def __cinit__(self):
        self.storage, self.shape, self._strides, self.dtype = _nothing, (0,), (1,), _FLOAT32
        self.contiguous = self.usual = True

    @property
    def device(self):
        """The device that holds the data."""
        return self.storage.device

    @property
    def _sizes(self):
        """What `shape` is to users: a `volta.Size`."""
        if self.sizes is None:
            self.sizes = as_size(self.shape)
        return self.sizes

    @property
    def ndim(self):
        """Number of dimensions."""
        return len(self.shape)

    @property
    def _size(self):
        """Number of elements."""
        return self.size

    @property
    def _contiguous(self):
        """Whether the elements lie row-major without gaps."""
        return self.contiguous

    @property
    def _address(self):
        """Host address of the first element."""
        return <Py_ssize_t>address(self)


cdef Storage _nothing = host_storage(0)
cdef DType _FLOAT32 = dtype_of(FLOAT32)
cdef object _tensor_type = TensorBase


def set_tensor_type(type cls):
    """Make `cls`, a subclass of TensorBase with no fields of its own, the class of every new tensor."""
    global _tensor_type
    _tensor_type = cls


cdef tuple contiguous_strides(tuple shape):
    """Strides of a row-major tensor. A size-0 dimension counts as 1, as in PyTorch."""
    cdef Py_ssize_t n = PyTuple_GET_SIZE(shape), i, step = 1, length
    cdef tuple strides = PyTuple_New(n)
    cdef object value
    for i in range(n - 1, -1, -1):
        value = step
        Py_INCREF(value)
        PyTuple_SET_ITEM(strides, i, value)
        length = PyNumber_AsSsize_t(shape[i], NULL)
        if length > 1:
            step *= length
    return strides


cdef Py_ssize_t MAX_SIZE = <Py_ssize_t>1 << 60       # elements: their bytes still fit 64 bits


cpdef tuple plain_sizes(tuple given):
    """The shape of `f(2, 3)` or `f((2, 3))`, counted by `checked_size`; None unless it has sizes, all of them ints of at least 0."""
    cdef tuple sizes = plain(given[0]) if PyTuple_GET_SIZE(given) == 1 and isinstance(given[0], tuple) else given
    cdef Py_ssize_t n = PyTuple_GET_SIZE(sizes), i
    for i in range(n):
        if type(sizes[i]) is not int or sizes[i] < 0:
            return None
    checked_size(sizes)
    return sizes if n > 0 else None


cpdef Py_ssize_t checked_size(object sizes) except -1:
    """Number of elements. Raises: ShapeError for a negative size, and for too many dimensions or elements to count; a size of 0 counts
    as 1 there, since strides do too."""
    cdef tuple shape = plain(sizes)
    cdef Py_ssize_t n = PyTuple_GET_SIZE(shape), size = 1, reach = 1, i, length
    cdef bint refused = n > MAX_RANK
    for i in range(n):
        length = PyNumber_AsSsize_t(shape[i], NULL)
        if length < 0:
            raise ShapeError(f"shape: sizes must not be negative, got {shape}")
        size *= length
        if length > 1:
            if length > MAX_SIZE // reach:
                refused = True
                break
            reach *= length
    if refused:
        raise ShapeError(f"shape: at most {MAX_RANK} dimensions and 2**60 elements are possible, got "
                         f"{shape if n <= MAX_RANK else f'{n} dimensions'}")
    return size


rare = False


cdef TensorBase _new(Storage storage, tuple shape, tuple strides, Py_ssize_t offset, DType dtype):
    global rare
    cdef PyTypeObject* cls = <PyTypeObject*>_tensor_type
    cdef TensorBase t = <TensorBase>(<PyTypeObject*>TensorBase).tp_new(cls, <PyObject*>(), NULL)       # Python's makes data, too
    t.storage = storage
    t.shape = shape
    t._strides = strides
    t.offset = offset
    t.dtype = dtype
    if dtype.code >= BFLOAT16:
        rare = True
    return t


cdef TensorBase make_tensor(Storage storage, tuple shape, tuple strides, Py_ssize_t offset, DType dtype):
    """Tensor over a storage. IN: strides and offset in elements, within the storage (checked by the caller)."""
    cdef TensorBase t = _new(storage, shape, strides, offset, dtype)
    cdef Py_ssize_t step = 1, i, length, n = PyTuple_GET_SIZE(shape), total = checked_size(shape)
    cdef bint contiguous = True, usual = True
    for i in range(n - 1, -1, -1):
        length = <Py_ssize_t>shape[i]
        if <Py_ssize_t>strides[i] != step:
            usual = False
            contiguous = contiguous and length == 1
        if length > 1:
            step *= length
    t.size = total
    t.contiguous, t.usual = contiguous or total == 0, usual
    return t


cdef TensorBase _new_host(tuple shape, tuple strides, Py_ssize_t size, DType dtype):
    cdef TensorBase t = _new(host_storage(size * dtype.itemsize), shape, strides, 0, dtype)
    t.size = size
    t.contiguous = t.usual = True
    return t


cdef TensorBase empty_host(tuple shape, DType dtype):
    cdef Py_ssize_t size = checked_size(shape)
    return _new_host(shape, contiguous_strides(shape), size, dtype)


cdef TensorBase empty_host_like(TensorBase like, DType dtype):
    return _new_host(like.shape, like._strides, like.size, dtype) if like.usual else empty_host(like.shape, dtype)


def empty(shape, DType dtype not None):
    """Contiguous host tensor with undefined contents. IN: sizes are non-negative ints."""
    return empty_host(plain(shape), dtype)


def tensor(Storage storage not None, sizes, strides, Py_ssize_t offset, DType dtype not None):
    """Tensor over `storage`; `strides` None means contiguous."""
    cdef tuple shape = plain(sizes)
    return make_tensor(storage, shape, contiguous_strides(shape) if strides is None else strides, offset, dtype)


def alias(TensorBase t not None):
    """A new tensor of the same data with no graph."""
    cdef TensorBase out = _new(t.storage, t.shape, t._strides, t.offset, t.dtype)
    out.size = t.size
    out.contiguous, out.usual = t.contiguous, t.usual
    return out


def apart(TensorBase t not None, long long version=0):
    """As `alias`, but writes to it are no changes of `t` (`.data`). Integers whose extremes are known, and what is traced, stay with
    their changes."""
    cdef TensorBase out = <TensorBase>alias(t)
    cdef Storage own, shared = t.storage
    if shared.bounds is None and _reads is None:
        own = out.storage = _storage(shared.buffer, shared.data, shared.nbytes, shared.device)
        own.root = shared if shared.root is None else shared.root
        own.version = version
    return out


def detached(TensorBase t not None):
    """As `alias`, of what has tangents without these. As in PyTorch, what `inference_mode` has made may be changed by it outside."""
    if t.storage.version >= _INFERRED and not volta_inferring:
        return apart(t)
    return alias(t) if t.storage.tangent is None else apart(t, t.storage.version)


def same_memory(TensorBase a not None, TensorBase b not None):
    """Whether two tensors show parts of one memory."""
    return same_bytes(a.storage, b.storage)


def stands_in(TensorBase t not None):
    """Whether a tensor has no values of its own but refers to a batch (`vmap`)."""
    return t.storage.version < 0


def view(TensorBase t not None, shape, tuple strides, Py_ssize_t offset):
    """A view of the same storage with another geometry, no graph."""
    return make_tensor(t.storage, plain(shape), strides, offset, t.dtype)


def reshaped(TensorBase t not None, sizes):
    """A contiguous tensor's data under another shape of as many elements, no graph."""
    cdef tuple shape = plain(sizes)
    return make_tensor(t.storage, shape, contiguous_strides(shape), t.offset, t.dtype)


def strides_of(shape):
    """Row-major strides of `shape`, in elements."""
    return contiguous_strides(plain(shape))


def assign(TensorBase t not None, TensorBase source not None):
    """Make `t` show the data that `source` does (`.data =`); its graph fields stay."""
    t._base = None
    t._view = None
    t.storage = source.storage
    t.shape = source.shape
    t.sizes = source.sizes
    t._strides = source._strides
    t.offset = source.offset
    t.size, t.dtype = source.size, source.dtype
    t.contiguous, t.usual = source.contiguous, source.usual


cdef int check_read(TensorBase t) except -1:
    """Raise where what watches says that the values must not be read."""
    if _reads is not None:
        _reads(t.storage, True)
    return 0


# ---------------------------------------------------------------- what kernels refuse

cdef object no_float(str name, DType dtype):
    return DTypeError(f"{name}: the CPU computes in float32 and float64, got {dtype.name}; cast it with .float()")


cdef object two_types(str name, DType a, DType b):
    return DTypeError(f"{name}: needs tensors of one dtype, got {a.name} and {b.name}; convert one with .to(dtype)")
