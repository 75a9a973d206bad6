# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Calls of composed functions with arguments by position alone, most of which need no tuple and no dict of these (Python's vectorcall): they
are what `Composed.__call__` is, which makes all other calls.
"""
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_New

from volta._kernels.core.base cimport TensorBase, is_half
from volta._kernels.core.call cimport watching
from volta._kernels.core.overriding cimport overriding
from volta._kernels.core.record cimport UNKNOWN, Composed, kind_of
from volta._kernels.core.shapes cimport put

cdef extern from "Python.h":
    ctypedef object (*ternaryfunc)(object, object, PyObject*)
    ctypedef struct PyTypeObject:
        ternaryfunc tp_call
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    Py_ssize_t PyVectorcall_NARGS(size_t flags)
    object PyObject_Vectorcall(object function, PyObject** args, size_t count, PyObject* names)


cdef tuple _packed(PyObject** args, Py_ssize_t n):
    cdef tuple packed = PyTuple_New(n)
    cdef Py_ssize_t i
    for i in range(n):
        put(packed, i, <object>args[i])
    return packed


cdef object _in_full(Composed op, PyObject** args, Py_ssize_t n, PyObject* names):
    """The call with its arguments as a tuple and a dict. (`op(*args)` would come here again.)"""
    cdef dict options
    cdef Py_ssize_t i
    if names == NULL:
        return (<PyTypeObject*>Composed).tp_call(op, _packed(args, n), NULL)
    options = {}
    for i in range(PyTuple_GET_SIZE(<tuple>names)):
        options[<object>(<tuple>names)[i]] = <object>args[n + i]
    return (<PyTypeObject*>Composed).tp_call(op, _packed(args, n), <PyObject*>options)


cdef object _call(PyObject* self, PyObject** args, size_t flags, PyObject* names):
    cdef Composed op = <Composed>self
    cdef Py_ssize_t n = PyVectorcall_NARGS(flags), i
    cdef object out
    if names != NULL or watching or overriding or op.record is not None or op.kinds is None:
        return _in_full(op, args, n, names)
    for i in range(n):
        if not <int>(op.kinds[i] if i < PyTuple_GET_SIZE(op.kinds) else op.more) & (kind_of(<object>args[i]) | UNKNOWN):
            return _in_full(op, args, n, NULL)
    if op.in_float32 and (n == 0 or isinstance(<object>args[0], TensorBase) and is_half((<TensorBase>args[0]).dtype.code)):
        return _in_full(op, args, n, NULL)
    if op.declared is not None:
        op.check(_packed(args, n), {})
    out = PyObject_Vectorcall(op.function, args, n, NULL)
    if op.label is None and isinstance(out, TensorBase) and (op.shows or (<TensorBase>out)._view is None):
        return out
    return op.given(out, _packed(args, n), {})


(<PyTypeObject*>Composed).tp_vectorcall_offset = <Py_ssize_t>&(<Composed>NULL).vectorcall
(<PyTypeObject*>Composed).tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL


def by_position(Composed op not None):
    """Let calls of `op` come here."""
    op.vectorcall = <void*>_call
