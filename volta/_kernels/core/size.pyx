"""`volta.Size`, the tuple that `x.shape` is: a class in C, since Cython has no subclasses of tuples and those of Python are slow to read.

Slices, sums and multiples of a Size are Sizes; elsewhere it is a tuple. Knows nothing of tensors.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.slice cimport PySlice_Check
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_GetSlice, PyTuple_SET_ITEM

import math
import operator

cdef extern from "Python.h":
    ctypedef object (*binaryfunc)(object, object)
    ctypedef struct PyMappingMethods:
        binaryfunc mp_subscript
    ctypedef struct PySequenceMethods:
        binaryfunc sq_concat
        object (*sq_repeat)(object, Py_ssize_t)
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject*, Py_ssize_t)
        PyMappingMethods* tp_as_mapping
        PySequenceMethods* tp_as_sequence
    ctypedef struct PyType_Slot:
        int slot
        void* pfunc
    ctypedef struct PyType_Spec:
        const char* name
        int basicsize
        int itemsize
        unsigned int flags
        PyType_Slot* slots
    ctypedef struct PyMethodDef:
        const char* ml_name
        object (*ml_meth)(object, object)
        int ml_flags
        const char* ml_doc
    object PyType_FromSpecWithBases(PyType_Spec*, object bases)
    PyTypeObject PyTuple_Type
    unsigned int Py_TPFLAGS_DEFAULT
    int METH_NOARGS, Py_mp_subscript, Py_nb_add, Py_sq_repeat, Py_tp_doc, Py_tp_methods, Py_tp_new, Py_tp_repr

package = "volta"
cdef PyTypeObject* _size                # Size


def call_package(str name not None):
    """Set the name that dtypes and shapes are printed under."""
    global package
    package = name


def package_name():
    """The name that dtypes, layouts and tuples of results are printed under."""
    return package


cdef tuple as_size(tuple sizes):
    cdef Py_ssize_t n = PyTuple_GET_SIZE(sizes), i
    cdef tuple out = <tuple>_size.tp_alloc(_size, n)
    cdef object value
    for i in range(n):
        value = <object>PyTuple_GET_ITEM(sizes, i)
        Py_INCREF(value)
        PyTuple_SET_ITEM(out, i, value)
    return out


cdef tuple as_plain(object sizes):
    if not PyTuple_Check(sizes):
        raise TypeError(f"a shape is a tuple of ints, got {type(sizes).__name__}")
    return PyTuple_GetSlice(sizes, 0, PyTuple_GET_SIZE(sizes))


cdef tuple _checked(tuple values):
    """A Size of any integers. Raises: TypeError for anything else."""
    cdef Py_ssize_t i
    cdef bint plain_ints = True
    for i in range(len(values)):
        if type(values[i]) is not int:
            plain_ints = False
            if not hasattr(values[i], "__index__"):
                raise TypeError(f"{package}.Size() takes an iterable of 'int' (item {i} is {type(values[i]).__name__!r})")
    return as_size(values if plain_ints else tuple(map(operator.index, values)))


cdef object _new(PyObject* cls, object arguments, PyObject* named):
    if named is not NULL and <object>named or PyTuple_GET_SIZE(arguments) > 1:
        raise TypeError(f"Size: takes one iterable of ints, got {len(arguments)} arguments")
    return _checked(tuple(arguments[0])) if arguments else as_size(())


cdef object _repr(object self):
    return f"{package}.Size({list(self)})"


cdef object _subscript(object self, object key):
    found = PyTuple_Type.tp_as_mapping.mp_subscript(self, key)
    return as_size(plain(found)) if PySlice_Check(key) else found


cdef object _add(object a, object b):
    if not PyTuple_Check(a) or not PyTuple_Check(b):
        return NotImplemented
    cdef tuple both = plain(PyTuple_Type.tp_as_sequence.sq_concat(a, b))
    return _checked(both)


cdef object _repeat(object self, Py_ssize_t count):
    return as_size(plain(PyTuple_Type.tp_as_sequence.sq_repeat(self, count)))


cdef object _numel(object self, object nothing):
    return math.prod(self)


cdef object _reduce(object self, object nothing):
    return (Size, (plain(self),))


cdef PyMethodDef[3] _methods = [
    PyMethodDef("__reduce__", <object (*)(object, object)>_reduce, METH_NOARGS, NULL),
    PyMethodDef("numel", <object (*)(object, object)>_numel, METH_NOARGS, "Number of elements of a tensor of this shape."),
    PyMethodDef(NULL, NULL, 0, NULL)]
cdef PyType_Slot[8] _slots = [
    PyType_Slot(Py_tp_new, <void*>_new), PyType_Slot(Py_tp_repr, <void*>_repr), PyType_Slot(Py_mp_subscript, <void*>_subscript),
    PyType_Slot(Py_nb_add, <void*>_add), PyType_Slot(Py_sq_repeat, <void*>_repeat), PyType_Slot(Py_tp_methods, <void*>_methods),
    PyType_Slot(Py_tp_doc, <void*><char*>"A tensor's shape: a tuple of ints whose slices, sums and multiples are of this class too."),
    PyType_Slot(0, NULL)]
cdef PyType_Spec _spec = PyType_Spec("volta.Size", 0, 0, Py_TPFLAGS_DEFAULT, &_slots[0])

Size = PyType_FromSpecWithBases(&_spec, (tuple,))
_size = <PyTypeObject*>Size
