# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Python numbers beside float16 and bfloat16, which PyTorch rounds to these before many ops compute (`rounds` of the record)."""
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.math cimport frexp, isfinite, ldexp, rint

from volta._kernels.core.base cimport FLOAT16, FLOAT32, FLOAT64, TensorBase, address, is_half
from volta._kernels.core.record cimport Primitive


cdef object rounded(Primitive op, object number, int code):
    """What stands for a number beside tensors of this dtype."""
    cdef double x, near
    if not op.rounds:
        return number
    x = number
    near = _nearest(x, code == FLOAT16)
    return number if near == x else near


cdef object unrounded(Primitive op, TensorBase x):
    """The number in a tensor without dimensions, where that is a factor or divisor that PyTorch does not round on the CPU; else None."""
    if not op.factors or PyTuple_GET_SIZE(x.shape) or x._requires_grad or x.storage.version < 0 or (
            x._base is not None and x._base._requires_grad or x.storage.tangent is not None or x.storage.device.is_gpu):
        return None
    if x.dtype.code == FLOAT32:
        return <double>(<float*>address(x))[0]
    if x.dtype.code == FLOAT64:
        return (<double*>address(x))[0]
    return (<object>x).item() if is_half(x.dtype.code) else None


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
