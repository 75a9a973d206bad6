# The C structs that every layer shares: element types, devices, storages and tensor views.
# Kernels cimport them; Python sees the readonly attributes.

cdef enum DTypeCode:
    # Ordered so that promotion of two types is the larger code, but for those from BFLOAT16 on (`wider`).
    BOOL = 0
    UINT8 = 1
    INT32 = 2
    INT64 = 3
    FLOAT16 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    BFLOAT16 = 7
    INT8 = 8
    INT16 = 9

cdef enum:
    DTYPES = 10                             # how many there are
    # Bit masks by code.
    BOOL_MASK = 0b0000000001
    INTEGER_MASK = 0b1100001110
    FLOAT_MASK = 0b0011110000
    STORED_MASK = 0b1110010000              # types that are stored as such and computed in float32 or int32 (devices/stored.py)
    PLAIN_MASK = 0b0011100000               # floating point numbers that any Python number beside them leaves as they are

cdef enum:
    MAX_RANK = 32

cdef class DType:
    cdef readonly str name
    cdef readonly int code
    cdef readonly int itemsize              # bytes of one element on the host
    cdef readonly int category              # 0 bool, 1 integer, 2 floating point
    cdef readonly bint is_floating_point

cdef class Device:
    cdef readonly int index
    cdef readonly bint is_gpu               # whether its memory is no host memory: of a GPU, or none ("meta")
    cdef readonly bint is_meta

cdef class Storage:
    cdef char* data                         # host bytes; NULL on a GPU
    cdef void* block                        # what the host allocator gave, NULL where `buffer` owns the bytes
    cdef readonly object buffer             # the GPU Buffer, or the object that owns borrowed host memory
    cdef readonly Device device
    cdef readonly Py_ssize_t nbytes
    cdef public long long version           # grows with every in-place write
    cdef public object bounds               # (least, largest) of uploaded integers, None where unknown; of version 0
    cdef public object tangent              # of forward_ad: that of all elements, None where they have none
    cdef readonly Storage root              # whose bytes these are, with a version of their own (`Tensor.data`); None: its own

cdef class TensorBase:
    cdef readonly Storage storage
    cdef readonly tuple shape
    cdef tuple sizes                        # the shape as a `volta.Size`, which `shape` is in Python; None until asked for
    cdef readonly tuple _strides            # in elements
    cdef readonly Py_ssize_t offset         # in elements
    cdef Py_ssize_t size                    # number of elements; `_size` in Python, where `size()` is PyTorch's method
    cdef readonly DType dtype
    cdef bint contiguous                    # row-major, or empty; `_contiguous` in Python
    cdef bint usual                         # with the strides of a new tensor, along dimensions of size 1 and 0 too
    cdef public bint _requires_grad         # a leaf that wants a gradient, or the output of a recorded op
    cdef public int _index                  # which output of `_node` this is
    cdef public long long _node_version     # storage version when `_node` (of a view: its history) was set
    cdef public TensorBase _base            # of a recorded view: the tensor that it shows a part of, which is no view
    cdef public object _view                # how it was made: a `histories.Shown`; None for no view
    cdef public object _node                # autograd.Node, None for a leaf
    cdef public object grad
    cdef public object _hooks               # of the gradient, before it is added
    cdef public object _arrived_hooks       # of a leaf, after its gradient was added
    cdef object _slot                       # the engine's: what has arrived here in the walk that goes on
    cdef object __weakref__

cdef bint rare                              # whether there has been any tensor of bfloat16, int8 or int16

cdef Storage host_storage(Py_ssize_t nbytes)
cdef TensorBase make_tensor(Storage storage, tuple shape, tuple strides, Py_ssize_t offset, DType dtype)
cdef tuple contiguous_strides(tuple shape)
cdef DType dtype_of(int code)
# What two types are promoted to; -1 is none.
cpdef int wider(int a, int b) noexcept
# Errors to raise, which the inline functions of views.pxd cannot make.
cdef object no_float(str name, DType dtype)
cdef object two_types(str name, DType a, DType b)
# New contiguous host tensor, contents undefined.
cdef TensorBase empty_host(tuple shape, DType dtype)
# The same where the caller knows that `strides` are those of a contiguous `shape` (no tuple is built).
cdef TensorBase empty_host_like(TensorBase like, DType dtype)

cdef inline bint same_bytes(Storage a, Storage b) noexcept:
    """Whether two storages are one memory."""
    return a is b or (a if a.root is None else a.root) is (b if b.root is None else b.root)


cdef inline bint is_half(int code) noexcept:
    """Whether elements are stored in 16 bits and computed in float32."""
    return code == FLOAT16 or code == BFLOAT16


cdef int check_read(TensorBase t) except -1
cdef inline char* address(TensorBase t) noexcept:
    """Address of the first element of a host tensor."""
    return t.storage.data + t.offset * t.dtype.itemsize
