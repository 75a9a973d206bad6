# The dtypes of what has no kernels for others, two or five: a module that needs no more is spared the C of vectors.
from libc.stdint cimport int32_t, int64_t, uint8_t

ctypedef fused real:
    float
    double

ctypedef fused number:
    uint8_t
    int32_t
    int64_t
    float
    double
