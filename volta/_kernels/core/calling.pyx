# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Calls of composed functions with arguments as they are declared, most of which need no tuple and no dict of these (Python's vectorcall):
they give what `Composed.__call__` does, which makes all other calls.
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


cdef dict _named(PyObject** args, Py_ssize_t n, PyObject* names):
    cdef dict options = {}
    cdef Py_ssize_t i
    if names != NULL:
        for i in range(PyTuple_GET_SIZE(<tuple>names)):
            options[<object>(<tuple>names)[i]] = <object>args[n + i]
    return options


cdef object _in_full(Composed op, PyObject** args, Py_ssize_t n, PyObject* names):
    """The call with its arguments as a tuple and a dict. (`op(*args)` would come here again.)"""
    cdef dict options = _named(args, n, names)
    return (<PyTypeObject*>Composed).tp_call(op, _packed(args, n), <PyObject*>options)


cdef bint _fits(Composed op, PyObject** args, Py_ssize_t n, PyObject* names) except -1:
    """Whether the arguments are of the types that the parameters of these names and places take."""
    cdef Py_ssize_t i
    cdef object kinds
    for i in range(n):
        if not <int>(op.kinds[i] if i < PyTuple_GET_SIZE(op.kinds) else op.more) & (kind_of(<object>args[i]) | UNKNOWN):
            return False
    if names != NULL:
        for i in range(PyTuple_GET_SIZE(<tuple>names)):
            kinds = op.named.get(<object>(<tuple>names)[i])
            if kinds is None or not <int>kinds & (kind_of(<object>args[n + i]) | UNKNOWN):
                return False                        # None: another spelling, or `out`
        return not op.paired or n > 1 or "keepdim" not in <tuple>names or "dim" in <tuple>names
    return True


cdef object _call(PyObject* self, PyObject** args, size_t flags, PyObject* names):
    cdef Composed op = <Composed>self
    cdef Py_ssize_t n = PyVectorcall_NARGS(flags)
    cdef object out
    if watching or overriding or op.record is not None or op.kinds is None or not _fits(op, args, n, names):
        return _in_full(op, args, n, names)
    if op.in_float32 and (n == 0 or isinstance(<object>args[0], TensorBase) and is_half((<TensorBase>args[0]).dtype.code)):
        return _in_full(op, args, n, names)
    if op.declared is not None:
        op.check(_packed(args, n), _named(args, n, names))
    out = PyObject_Vectorcall(op.function, args, n, names)
    if op.label is None and isinstance(out, TensorBase) and (op.shows or (<TensorBase>out)._view is None):
        return out
    return op.given(out, _packed(args, n), _named(args, n, names))


(<PyTypeObject*>Composed).tp_vectorcall_offset = <Py_ssize_t>&(<Composed>NULL).vectorcall
(<PyTypeObject*>Composed).tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL


def as_they_lie(Composed op not None):
    """Let calls of `op` come here."""
    op.vectorcall = <void*>_call
