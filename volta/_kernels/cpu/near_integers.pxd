# Integers as their distances from the least of them, in 32 bits: what is sorted is then a key that shares a word with its place.
#
# Threads: none. Sizes: the caller's.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

ctypedef fused whole:
    uint8_t
    int32_t
    int64_t


cdef inline int narrowed(const whole* x, Py_ssize_t n, int32_t* out, int64_t* least) noexcept nogil:
    """How many bits the distances from the least have, in whole bytes; 0 where these are more than 32. OUT: the distances,
    less 2**31. IN: n > 0."""
    cdef Py_ssize_t i
    cdef whole low = x[0], high = x[0]
    cdef uint64_t far
    cdef int bits = 8
    for i in range(n):
        low = x[i] if x[i] < low else low
        high = x[i] if x[i] > high else high
    far = <uint64_t>high - <uint64_t>low
    if far > <uint64_t>0xFFFFFFFF:
        return 0
    for i in range(n):
        out[i] = <int32_t>(<uint32_t>(<uint64_t>x[i] - <uint64_t>low) ^ <uint32_t>0x80000000)
    least[0] = low
    while far >> bits:
        bits += 8
    return bits


cdef inline void widened(const int32_t* x, Py_ssize_t n, int64_t least, whole* out) noexcept nogil:
    """The integers again."""
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = <whole>(<uint64_t>(<uint32_t>x[i] ^ <uint32_t>0x80000000) + <uint64_t>least)
