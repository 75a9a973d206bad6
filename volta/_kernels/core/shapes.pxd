# Arithmetic of shapes, which Python and C call alike.
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

cpdef Py_ssize_t as_dim(str op, object dim, Py_ssize_t rank) except -1
cpdef tuple listed(str op, object sizes, object named=*)
cpdef tuple listed_sizes(str op, object given, object named=*)
cpdef tuple exchanged(str op, Py_ssize_t rank, object dim0, object dim1)
cpdef tuple infer(str op, Py_ssize_t size, object sizes)
cpdef tuple view_strides(object sizes, object steps, object new_sizes)
cpdef tuple expanded(object sizes, object wanted)
cpdef tuple expand_strides(object sizes, object steps, object new_sizes)
cdef bint fits(tuple shape, tuple into)


cdef inline int put(tuple values, Py_ssize_t i, object value) except -1:
    """Set an item of a new tuple."""
    Py_INCREF(value)
    PyTuple_SET_ITEM(values, i, value)
    return 0
