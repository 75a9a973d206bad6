# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Python numbers beside float16 and bfloat16, which PyTorch rounds to these before many ops compute (`rounds` of the record)."""
from libc.math cimport frexp, isfinite, ldexp, rint

from volta._kernels.core.base cimport FLOAT16
from volta._kernels.core.record cimport Primitive


cdef object rounded(Primitive op, object number, int code):
    """What stands for a number beside tensors of this dtype."""
    cdef double x, near
    if not op.rounds:
        return number
    x = number
    near = _nearest(x, code == FLOAT16)
    return number if near == x else near


cdef double _nearest(double x, bint narrow) noexcept:
    """The float16 (`narrow`) or bfloat16 next to x, of two the even one, by way of float32; x where that would be infinite."""
    cdef double single = <double><float>x, step, near
    cdef int exponent = 0
    if not isfinite(single):
        return x
    frexp(single, &exponent)
    step = ldexp(1.0, max(exponent, -13 if narrow else -125) - (11 if narrow else 8))
    near = rint(single / step) * step
    return x if abs(near) > (65504.0 if narrow else 3.3895313892515355e38) else near
