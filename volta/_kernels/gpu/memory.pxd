# Blocks, bind groups and the open batch of one device together: what memory.pyx defines.
from libc.stdint cimport uint64_t

from volta._kernels.gpu.batch cimport Batch
from volta._kernels.gpu.groups cimport GroupCache
from volta._kernels.gpu.native cimport DeviceLink, Handle
from volta._kernels.gpu.pool cimport Buffer, Pool


cdef class Memory:
    cdef DeviceLink link
    cdef Pool pool
    cdef GroupCache groups
    cdef Batch batch

    cdef Buffer alloc(self, nbytes)
    cdef Handle staging(self, uint64_t size, uint64_t usage) except NULL
    cdef int empty(self) except -1
