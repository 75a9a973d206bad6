# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Functions of other ops on float16 and bfloat16: what they compute in float32 is rounded once."""
from cpython.object cimport PyObject

from volta._kernels.core.base cimport DType, FLOAT32, TensorBase, dtype_of, is_half
from volta._kernels.core.graph cimport apply
from volta._kernels.core.record cimport Primitive

from volta._kernels.core.call import result_type

cdef extern from "Python.h":
    object PyObject_Call(object function, tuple args, PyObject* options)
    Py_ssize_t PyDict_GET_SIZE(dict)

cdef Primitive _cast
cdef DType _FLOAT32 = dtype_of(FLOAT32)


def configure(Primitive cast not None):
    """Give this module the record that converts."""
    global _cast
    _cast = cast


cdef inline object _as(object x, DType dtype):
    return x if (<TensorBase?>x).dtype is dtype else apply(_cast, (x,), {"dtype": dtype})


cdef inline object _wide(object x):
    return apply(_cast, (x,), {"dtype": _FLOAT32}) if isinstance(x, TensorBase) and is_half((<TensorBase>x).dtype.code) else x


def widened(function, args, dict options not None):
    """function(*args, **options) with float32 for the narrow floats, its result or results (or None) rounded to the dtype that the tensors
    have in common."""
    cdef DType dtype = None
    cdef bint one = True
    cdef object x, out
    cdef list parts
    for x in (args, options.values()) if PyDict_GET_SIZE(options) else (args,):
        for each in x:
            if isinstance(each, TensorBase):
                one = one and (dtype is None or dtype is (<TensorBase>each).dtype)
                dtype = (<TensorBase>each).dtype
    if not one:
        dtype = result_type(*[x for x in (*args, *options.values()) if isinstance(x, TensorBase)])
    if PyDict_GET_SIZE(options):
        options = {name: _wide(x) for name, x in options.items()}
    out = PyObject_Call(function, tuple([_wide(x) for x in args]), <PyObject*>options if PyDict_GET_SIZE(options) else NULL)
    if not isinstance(out, tuple):
        return _as(out, dtype)
    parts = [_as(o, dtype) if o is not None and (<TensorBase?>o).dtype.is_floating_point else o for o in out]
    return type(out)(*parts) if hasattr(out, "_fields") else tuple(parts)
