# Bind groups by what they bind: what groups.pyx defines.
#
# A key is 1 + 3n words: layout id, then (block id, byte offset, byte size) of each binding.
from libc.stdint cimport uint32_t, uint64_t

from volta._kernels.gpu.native cimport DeviceLink, Handle
from volta._kernels.gpu.pool cimport Block

cdef enum:
    MAX_BINDINGS = 32
    MAX_WORDS = 1 + 3 * MAX_BINDINGS
    NO_SLOT = 0xFFFFFFFF

cdef struct Group:
    uint64_t hash
    Handle handle
    uint64_t* words
    uint64_t last_use
    uint32_t word_count
    uint32_t chain         # next slot of the same bucket, or of the spare list


cdef class GroupCache:
    cdef DeviceLink link
    cdef Group* slots
    cdef uint32_t* buckets
    cdef uint32_t bucket_mask, spare
    cdef readonly uint32_t capacity, count
    cdef readonly uint64_t created

    cdef Group* find(self, const uint64_t* words, uint32_t count) noexcept nogil
    cdef int make(self, str label, Handle layout, const uint64_t* words, uint32_t bindings, const Block* blocks) except -1
    cdef void drop(self, uint32_t i) noexcept nogil
    cdef void drop_dead(self, const Block* blocks) noexcept nogil
    cdef uint32_t drop_done(self, uint64_t submitted) noexcept nogil
