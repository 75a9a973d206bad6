# cython: language_level=3
"""Which kernels get float16 operands widened to float32: declared where kernels are bound, and decided here before any of them runs."""
from volta._kernels.core.base cimport FLOAT16, DType, TensorBase


cdef class Widened:
    """`kernel`, which does not take float16; where an operand or the `dtype` asked for is float16, `wide(inputs, params)`."""

    cdef readonly object kernel, wide

    def __init__(self, kernel, wide):
        self.kernel, self.wide = kernel, wide

    def __call__(self, *inputs, **params):
        for x in inputs:
            if isinstance(x, TensorBase) and (<TensorBase>x).dtype.code == FLOAT16:
                return self.wide(inputs, params)
        cdef object dtype = params.get("dtype") if params else None
        if dtype is not None and (<DType?>dtype).code == FLOAT16:
            return self.wide(inputs, params)
        return self.kernel(*inputs, **params)

    def __repr__(self):
        return repr(self.kernel)
