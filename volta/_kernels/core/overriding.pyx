# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Calls that a mode or an argument takes over by `__torch_function__`. `ops/taking_over.py` says what becomes of them."""
from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.switches cimport switched

cdef extern from *:
    """
    VOLTA_PER_THREAD int volta_modes = 0, volta_as_tensors = 0;
    """
    int volta_modes                     # how many modes this thread is in
    int volta_as_tensors                # whether tensors of all classes are computed with in this thread

cdef type _plain = TensorBase           # the class of most tensors
cdef object _taken = None               # (op, args, options) -> what an argument that is no tensor gives, or NotImplemented
cdef object _overridden = None          # the same of modes and of tensors
overriding = False


def configure(taken, overridden):
    """Give this module the pieces of higher layers that it calls."""
    global _taken, _overridden
    _taken, _overridden = taken, overridden


def set_tensor_type(type cls not None):
    """Name the class of tensors whose calls nothing takes over."""
    global _plain
    _plain = cls


def start():
    """From now on calls are looked at: a class of tensors takes them over, or a mode does."""
    global overriding
    overriding = True


def set_modes(int count):
    """How many modes this thread is in."""
    global volta_modes
    volta_modes = count


cdef bint in_mode() noexcept:
    """Whether this thread is in a mode."""
    return volta_modes > 0


cdef int switch_as_tensors(int enabled) noexcept:
    return switched(&volta_as_tensors, enabled)


def as_tensors(bint enabled):
    """Whether this thread computes with tensors of all classes; gives the previous setting."""
    return bool(switch_as_tensors(enabled))


def taking_over(x):
    """Whether a call with this is left to its class: a tensor of one that takes over."""
    return not volta_as_tensors and _takes_over(x)


cdef bint _takes_over(object x) except -1:
    return isinstance(x, TensorBase) and type(x) is not _plain and type(x)._takes_over


cdef bint _any_takes_over(object values) except -1:
    cdef object x, y
    for x in values:
        if type(x) is list or type(x) is tuple:
            for y in x:
                if _takes_over(y):
                    return True
        elif _takes_over(x):
            return True
    return False


def asks(*values):
    """Whether a call with these arguments may be taken over, by a mode or by a tensor among them."""
    return overriding and (volta_modes > 0 or not volta_as_tensors and _any_takes_over(values))


cdef object taken(object op, tuple args, dict options):
    """The result of a call that an argument takes over that is no tensor, or NotImplemented."""
    return _taken(op, args, options)


cdef object overridden(object op, tuple args, dict options):
    """The result of a call that a mode or a tensor among the arguments takes over, or NotImplemented."""
    if volta_modes == 0 and (volta_as_tensors or not (_any_takes_over(args) or options and _any_takes_over(options.values()))):
        return NotImplemented
    return _overridden(op, args, options)
