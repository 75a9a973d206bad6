# In which order in memory the results of elementwise records lie.
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE

from volta._kernels.core.base cimport TensorBase

cdef extern from "Python.h":
    PyObject* PyTuple_GET_ITEM(tuple, Py_ssize_t)
    void* Py_TYPE(PyObject*)

cdef void* tensor_type                      # the class of nearly all tensors

cdef class Order:
    cdef tuple inputs                       # with their dimensions permuted, outermost in memory first
    cdef tuple shape                        # of the results, as the caller sees them
    cdef list places                        # per dimension its place among the permuted ones
    cdef tuple strides                      # of results that are row-major as permuted

cdef Order order_of(tuple inputs)
cdef object restored(Order order, object result)
cdef bint dense(TensorBase t) noexcept
cdef object copied_as(TensorBase x, object result)
cpdef tuple outermost_first(tuple strides)
cdef tuple pixel_strides(tuple shape)
cdef bint pixelwise(TensorBase t) noexcept
cdef bint suggest_pixels(int mask, tuple inputs) noexcept
cdef int disown(tuple outs, tuple args, dict options) except -1
cdef int given_by(object out, str name) except -1
cdef TensorBase by_columns(tuple lead, Py_ssize_t m, Py_ssize_t n, TensorBase like)
cdef int relabel(object out, tuple args, dict options, object label) except -1


cdef inline bint scattered(tuple inputs) noexcept:
    """Whether a tensor among the inputs is not row-major."""
    cdef Py_ssize_t i
    cdef PyObject* x
    for i in range(PyTuple_GET_SIZE(inputs)):
        x = PyTuple_GET_ITEM(inputs, i)
        if (Py_TYPE(x) == tensor_type or isinstance(<object>x, TensorBase)) and not (<TensorBase>x).contiguous:
            return True
    return False
