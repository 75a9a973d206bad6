# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The operators of tensors, and the attributes that users give them. Another object beside a tensor (no tensor, number or array) is left
to Python, by NotImplemented: it may have the reflected operator, and `==` is false.
"""
import warnings

from cpython.object cimport PyObject
from cpython.slice cimport PySlice_Check
from cpython.tuple cimport PyTuple_CheckExact

from volta.errors import AutogradError, DTypeError
from volta._kernels.core.base cimport TensorBase, same_bytes
from volta._kernels.core.call cimport View, call_kernel
from volta._kernels.core.direct cimport bare_one
from volta._kernels.core.graph cimport apply, apply2
from volta._kernels.core.indexing import parse
from volta._kernels.core.inplace import check_elements, check_inferred
from volta._kernels.core.overriding cimport in_mode, overridden, overriding
from volta._kernels.core.record cimport Op, Primitive

cdef extern from "Python.h":
    object PyMethod_New(object function, object instance)
    bint PyLong_CheckExact(object)
    ctypedef object (*binaryfunc)(object, object)
    ctypedef int (*objobjargproc)(PyObject*, PyObject*, PyObject*) except -1
    ctypedef struct PyMappingMethods:
        binaryfunc mp_subscript
        objobjargproc mp_ass_subscript
    ctypedef struct PyNumberMethods:
        void* nb_add
        void* nb_subtract
        void* nb_multiply
        void* nb_true_divide
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    ctypedef int (*inquiry)(PyObject*) noexcept
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef struct PyTypeObject:
        PyNumberMethods* tp_as_number
        PyMappingMethods* tp_as_mapping
        Py_ssize_t tp_dictoffset
        traverseproc tp_traverse
        inquiry tp_clear
        destructor tp_dealloc
    object PyObject_GenericGetDict(object, void*)
    int PyObject_GenericSetDict(object, object, void*) except -1
    void PyObject_GC_UnTrack(PyObject*)
    void Py_CLEAR(PyObject*)

cdef Primitive _add = None, _sub = None, _mul = None, _div = None, _slice = None, _copy_into = None
cdef object _as_operand = None              # (other, tensor) -> what an op takes, or NotImplemented
cdef object _subscript = None               # (tensor, key) -> x[key]
cdef object _write = None                   # (tensor, key, value): x[key] = value
cdef object _get_asked = None, _set_asked = None    # the same two where a mode may take them over


def configure(Primitive add, Primitive sub, Primitive mul, Primitive div, Primitive slice, Primitive copy_into, as_operand, subscript):
    """Bind the arithmetic operators and the records of subscripts, and give this module the pieces of higher layers that it calls."""
    global _add, _sub, _mul, _div, _slice, _copy_into, _as_operand, _subscript
    _add, _sub, _mul, _div, _slice, _copy_into, _as_operand, _subscript = add, sub, mul, div, slice, copy_into, as_operand, subscript


cdef inline bint _is_common(object other):
    return isinstance(other, (TensorBase, float, int))


cdef object _apply(Primitive op, object x, object other, bint reflected=False):
    cdef object result
    if overriding:
        result = overridden(op, (other, x) if reflected else (x, other), {})
        if result is not NotImplemented:
            return result
    if not _is_common(other):
        other = _as_operand(other, x)
        if other is NotImplemented:
            return other
        if hasattr(type(other), "__torch_function__"):
            try:
                return apply(op, (other, x) if reflected else (x, other), {})
            except TypeError:                   # it does not: its own operator is asked
                return NotImplemented
    return apply(op, (other, x), {}) if reflected else apply2(op, x, other)


cdef class Operator:
    """An operator of two operands as a tensor class has it: an op, or the op with the operands in the other order."""

    cdef Op op
    cdef bint reflected

    def __init__(self, Op op not None, bint reflected=False):
        self.op, self.reflected = op, reflected

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __call__(self, input, other, *more):
        if not _is_common(other):
            other = _as_operand(other, input)
            if other is NotImplemented:
                return other
            if hasattr(type(other), "__torch_function__"):
                try:
                    return self.op(other, input, *more) if self.reflected else self.op(input, other, *more)
                except TypeError:
                    return NotImplemented
        return self.op(other, input, *more) if self.reflected else self.op(input, other, *more)


def give_over(get, set):
    """Let modes take over subscripts: x[key] and x[key] = value as methods that ask them."""
    global _get_asked, _set_asked
    _get_asked, _set_asked = get, set


def use_c_operators(type cls not None):
    """Let a subclass of `Operators` reach its arithmetic, and views by subscripts, without the look-up by name
    that a Python class would do in every call."""
    global _write
    cdef PyNumberMethods* own = (<PyTypeObject*>cls).tp_as_number
    cdef PyNumberMethods* base = (<PyTypeObject*>Operators).tp_as_number
    _write = cls.__setitem__
    own.nb_add, own.nb_subtract = base.nb_add, base.nb_subtract
    own.nb_multiply, own.nb_true_divide = base.nb_multiply, base.nb_true_divide
    (<PyTypeObject*>cls).tp_as_mapping.mp_subscript = _get
    (<PyTypeObject*>cls).tp_as_mapping.mp_ass_subscript = _set


cdef inline bint _is_plain(object item):
    return PyLong_CheckExact(item) or PySlice_Check(item) or item is None or item is Ellipsis


cdef bint _names_view(object key):
    cdef object item
    if not PyTuple_CheckExact(key):
        return _is_plain(key)
    for item in <tuple>key:
        if not _is_plain(item):
            return False
    return True


cdef object _get(object x, object key):
    """x[key]: here where it is a view."""
    if overriding and in_mode():
        return _get_asked(x, key)
    return apply(_slice, (x,), parse(x, key)) if _names_view(key) else _subscript(x, key)


cdef int _set(PyObject* x, PyObject* key, PyObject* value) except -1:
    """x[key] = value."""
    if value == NULL:
        raise TypeError("Tensor does not support deleting items")
    if overriding and in_mode():
        _set_asked(<object>x, <object>key, <object>value)
    elif overriding or not isinstance(<object>value, TensorBase) or not _copied(<TensorBase>x, <object>key, <TensorBase>value):
        _write(<object>x, <object>key, <object>value)
    return 0


cdef bint _copied(TensorBase x, object key, TensorBase value) except -1:
    """Whether x[key] has become a tensor that fits as it is: a view, on the host, of other memory, while nobody records or watches."""
    cdef TensorBase view
    if value.dtype is not x.dtype or same_bytes(value.storage, x.storage) or not bare_one(x) or not bare_one(value) or not _names_view(key):
        return False
    if x._view is not None:
        check_inferred(x)
    view = (<View?>_slice.cpu).shown(x, parse(x, key))
    if view.shape != value.shape:
        return False
    check_elements("setitem", view)
    call_kernel(_copy_into, x.storage.device, (view, value), None, None)
    return True


cdef str _NO_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
    "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf "
    "Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.")


cdef class Operators(TensorBase):
    """A tensor with the arithmetic operators, in C so that `a + b` costs no Python frame."""

    cdef PyObject* attributes               # their dict, which Python makes when one is set; Cython's would be made with every tensor

    @property
    def __dict__(self):
        """The attributes that users have set."""
        return PyObject_GenericGetDict(self, NULL)

    @__dict__.setter
    def __dict__(self, value):
        PyObject_GenericSetDict(self, value, NULL)

    @property
    def _attributes(self):
        """The same, None where there has been none: asking for it makes no dict."""
        return None if self.attributes == NULL else <object>self.attributes

    @property
    def grad(self):
        """The gradient that has arrived. That of a tensor which some op has made is None, unless it was asked to keep it."""
        cdef TensorBase t = <TensorBase>self
        if t.grad is None and t._node is not None and not self.retains_grad:
            warnings.warn(_NO_LEAF, UserWarning)
        return t.grad

    @grad.setter
    def grad(self, value):
        cdef TensorBase t = <TensorBase>self, g
        if isinstance(value, TensorBase):
            g = <TensorBase>value
            if g is t:
                raise AutogradError("grad: a tensor cannot be its own gradient")
            kept = t.dtype if t._hooks is None or t._node is not None else self.grad_dtype         # None for any
            if t.storage.version >= 0 and g.storage.version >= 0 and (
                    g.shape != t.shape or kept is not None and g.dtype is not kept or g.storage.device is not t.storage.device):
                raise AutogradError(f"grad: must be like the tensor, {kept or 'of any dtype,'} of shape {t.shape} on {t.storage.device}, "
                                    f"got {g.dtype} of shape {g.shape} on {g.storage.device}")
        elif value is not None and not hasattr(value, "to_dense"):          # a sparse tensor is no Tensor
            raise DTypeError(f"grad: must be a tensor or None, got {type(value).__name__}")
        t.grad = value

    @grad.deleter
    def grad(self):
        (<TensorBase>self).grad = None

    def __add__(self, other):
        return _apply(_add, self, other)

    def __radd__(self, other):
        return _apply(_add, self, other)

    def __sub__(self, other):
        return _apply(_sub, self, other)

    def __rsub__(self, other):
        return _apply(_sub, self, other, True)

    def __mul__(self, other):
        return _apply(_mul, self, other)

    def __rmul__(self, other):
        return _apply(_mul, self, other)

    def __truediv__(self, other):
        return _apply(_div, self, other)

    def __rtruediv__(self, other):
        return _apply(_div, self, other, True)


# ---------------------------------------------------------------- the dict of attributes, as Python's type slots want it

cdef PyTypeObject* _base = <PyTypeObject*>TensorBase


cdef int _traverse(PyObject* t, visitproc visit, void* arg) noexcept:
    cdef int stop = visit((<Operators>t).attributes, arg) if (<Operators>t).attributes != NULL else 0
    return stop or _base.tp_traverse(t, visit, arg)


cdef int _clear(PyObject* t) noexcept:
    Py_CLEAR((<Operators>t).attributes)
    return _base.tp_clear(t)


cdef void _dealloc(PyObject* t) noexcept:
    if (<Operators>t).attributes != NULL:
        PyObject_GC_UnTrack(t)              # what dies with the attributes may run any code
        Py_CLEAR((<Operators>t).attributes)
    _base.tp_dealloc(t)


cdef _take_attributes():
    cdef PyTypeObject* cls = <PyTypeObject*>Operators
    cls.tp_dictoffset = <Py_ssize_t>&(<Operators>NULL).attributes
    cls.tp_traverse, cls.tp_clear, cls.tp_dealloc = _traverse, _clear, _dealloc


_take_attributes()
