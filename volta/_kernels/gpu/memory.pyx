# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Memory where a device runs full: it waits for the batch, gives free blocks and their bind groups back, and tries again.

Knows the pool, the group cache and the batch, which do not know each other; must not know pipelines or transfers.
"""
cimport cython

from volta._kernels.gpu.native cimport USAGE_MAP_WRITE

from volta._kernels.gpu.pool import byte_text
from volta.errors import OutOfMemoryError


@cython.final
cdef class Memory:
    """Allocation on one device."""

    def __cinit__(self, DeviceLink link not None, Pool pool not None, GroupCache groups not None, Batch batch not None):
        self.link = link
        self.pool = pool
        self.groups = groups
        self.batch = batch

    cdef Buffer alloc(self, nbytes):
        # A buffer of `nbytes`, or OutOfMemoryError.
        cdef Buffer buffer = self.pool.alloc(nbytes)
        if buffer is None:
            self.empty()
            buffer = self.pool.alloc(nbytes)
        if buffer is None:
            raise OutOfMemoryError(self.pool.memory_text(nbytes))
        return buffer

    cdef Handle staging(self, uint64_t size, uint64_t usage) except NULL:
        # A native buffer that the host can map; one to be written comes mapped.
        cdef bint mapped = usage & USAGE_MAP_WRITE
        cdef Handle handle = self.link.new_buffer(size, usage, mapped)
        if handle == NULL:
            self.empty()
            handle = self.link.new_buffer(size, usage, mapped)
        if handle == NULL:
            raise OutOfMemoryError(f"transfer: no staging memory of {byte_text(size)}")
        self.pool.created += 1
        return handle

    cdef int empty(self) except -1:
        # Give the pool's free blocks back to the device.
        with self.batch.lock:
            self.batch.synchronize()
            # No Python code runs between these two: a block id must not be taken anew while a group still names it.
            self.pool.free_blocks(self.batch.submitted)
            self.groups.drop_dead(self.pool.blocks)
            with nogil:
                self.link.api.poll(self.link.device, 0, NULL)
        return 0
