# Loops of float32 that are those of float64, block by block: for functions that go through float64 anyway, without loops of their own.

# OUT: po. IN: pa, pb, each n elements, pb NULL where there is one operand.
ctypedef void (*wide_t)(char* po, char* pa, char* pb, char* pc, char* pd, Py_ssize_t n) noexcept nogil

cdef enum:
    NARROW_BLOCK = 512


cdef inline void narrow(wide_t loop, char* po, char* pa, char* pb, Py_ssize_t n) noexcept nogil:
    cdef double a[NARROW_BLOCK]
    cdef double b[NARROW_BLOCK]
    cdef float* out = <float*>po
    cdef Py_ssize_t start = 0, length, i
    while start < n:
        length = min(<Py_ssize_t>NARROW_BLOCK, n - start)
        for i in range(length):
            a[i] = (<const float*>pa)[start + i]
        if pb != NULL:
            for i in range(length):
                b[i] = (<const float*>pb)[start + i]
        loop(<char*>a, <char*>a, <char*>b, NULL, NULL, length)
        for i in range(length):
            out[start + i] = <float>a[i]
        start += length
