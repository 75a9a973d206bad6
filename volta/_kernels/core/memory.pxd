# Blocks of host memory. A block is usable from its next 64-byte boundary on.
from libc.stdint cimport uintptr_t

cdef enum:
    ALIGNMENT = 64

cdef void* allocate(Py_ssize_t nbytes) except NULL      # raises OutOfMemoryError
cdef void release(void* block) noexcept

cdef inline char* usable(void* block) noexcept nogil:
    return <char*>((<uintptr_t>block + 2 * ALIGNMENT - 1) & ~<uintptr_t>(ALIGNMENT - 1))
