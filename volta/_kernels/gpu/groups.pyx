# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bind groups by what they bind: a hash table that starts anew where it is full, all in C.

Threads: the GIL guards it. A group that recorded work still needs must not be dropped: `last_use` is the serial of the last
batch that uses it, and whoever drops groups compares it. Knows handles and block ids; must not know batches or buffers.
"""
cimport cython
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from volta._kernels.gpu.native cimport BindGroupDescriptor, BindGroupEntry

from volta.errors import DeviceError


cdef inline uint64_t _hash_words(const uint64_t* words, uint32_t count) noexcept nogil:
    cdef uint64_t h = <uint64_t>0x9E3779B97F4A7C15
    cdef uint32_t i
    for i in range(count):
        h = (h ^ words[i]) * <uint64_t>0xFF51AFD7ED558CCD
        h ^= h >> 32
    return h


@cython.final
cdef class GroupCache:
    """The bind groups of one device."""

    def __cinit__(self, DeviceLink link not None, uint32_t capacity):
        cdef uint32_t size = 16, i
        self.link = link
        while size < 2 * capacity:
            size *= 2
        self.slots = <Group*>malloc(capacity * sizeof(Group))
        self.buckets = <uint32_t*>malloc(size * sizeof(uint32_t))
        if self.slots == NULL or self.buckets == NULL:
            raise MemoryError()
        self.capacity = capacity
        self.bucket_mask = size - 1
        for i in range(size):
            self.buckets[i] = NO_SLOT
        for i in range(capacity):
            self.slots[i].words = NULL
            self.slots[i].chain = i + 1 if i + 1 < capacity else <uint32_t>NO_SLOT
        self.spare = 0

    def __dealloc__(self):
        # Native handles are left to the process's end: the device may be gone before this object.
        cdef uint32_t i
        if self.slots != NULL:
            for i in range(self.capacity):
                free(self.slots[i].words)
        free(self.slots)
        free(self.buckets)

    cdef Group* find(self, const uint64_t* words, uint32_t count) noexcept nogil:
        # The group of this key; NULL where there is none.
        cdef uint64_t h = _hash_words(words, count)
        cdef uint32_t i = self.buckets[h & self.bucket_mask]
        cdef Group* g
        while i != NO_SLOT:
            g = &self.slots[i]
            if g.hash == h and g.word_count == count and memcmp(g.words, words, count * sizeof(uint64_t)) == 0:
                return g
            i = g.chain
        return NULL

    cdef int make(self, str label, Handle layout, const uint64_t* words, uint32_t bindings, const Block* blocks) except -1:
        # Create the bind group of this key and add it, if there is a slot. The caller finds it, or makes room and comes again.
        cdef BindGroupEntry[MAX_BINDINGS] entries
        cdef BindGroupDescriptor descriptor
        cdef Handle handle
        cdef uint32_t i, count = 1 + 3 * bindings
        cdef Group* g
        memset(entries, 0, bindings * sizeof(BindGroupEntry))
        for i in range(bindings):
            entries[i].binding = i
            entries[i].buffer = blocks[words[1 + 3 * i]].handle
            entries[i].offset = words[2 + 3 * i]
            entries[i].size = words[3 + 3 * i]
        memset(&descriptor, 0, sizeof(descriptor))
        descriptor.layout = layout
        descriptor.entry_count = bindings
        descriptor.entries = entries
        self.link.capture()
        handle = self.link.api.create_bind_group(self.link.device, &descriptor)
        error = self.link.take_error()
        if error is not None or handle == NULL:
            if handle != NULL:
                self.link.api.bind_group_release(handle)
            raise DeviceError(f"{label}: cannot bind these buffers: {error[1] if error else 'no handle'}")
        # Another thread may have made the same group, or taken the slot, while Python ran above.
        i = self.spare
        if i == NO_SLOT or self.find(words, count) != NULL:
            self.link.api.bind_group_release(handle)
            return 0
        g = &self.slots[i]
        g.words = <uint64_t*>malloc(count * sizeof(uint64_t))
        if g.words == NULL:
            self.link.api.bind_group_release(handle)
            raise MemoryError()
        self.spare = g.chain
        memcpy(g.words, words, count * sizeof(uint64_t))
        g.word_count = count
        g.handle = handle
        g.last_use = 0
        g.hash = _hash_words(words, count)
        g.chain = self.buckets[g.hash & self.bucket_mask]
        self.buckets[g.hash & self.bucket_mask] = i
        self.count += 1
        self.created += 1
        return 0

    cdef void drop(self, uint32_t i) noexcept nogil:
        # Forget and release the group in slot i.
        cdef Group* g = &self.slots[i]
        cdef uint32_t* place = &self.buckets[g.hash & self.bucket_mask]
        while place[0] != i:
            place = &self.slots[place[0]].chain
        place[0] = g.chain
        free(g.words)
        g.words = NULL
        g.chain = self.spare
        self.spare = i
        self.count -= 1
        self.link.api.bind_group_release(g.handle)

    cdef void drop_dead(self, const Block* blocks) noexcept nogil:
        # Remove every group of a block that was destroyed.
        cdef uint32_t i, k
        for i in range(self.capacity):
            if self.slots[i].words != NULL:
                for k in range(1, self.slots[i].word_count, 3):
                    if blocks[self.slots[i].words[k]].handle == NULL:
                        self.drop(i)
                        break

    cdef uint32_t drop_done(self, uint64_t submitted) noexcept nogil:
        # Start anew: remove every group that no batch after `submitted` uses. Gives how many.
        cdef uint32_t i, before = self.count
        for i in range(self.capacity):
            if self.slots[i].words != NULL and self.slots[i].last_use <= submitted:
                self.drop(i)
        return before - self.count
