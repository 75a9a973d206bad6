# Bind groups by what they bind: a bounded hash table with least-recently-used eviction, all in C.
#
# A key is 1 + 3n words: layout id, then (block id, byte offset, byte size) of each binding.
# The GIL guards it. A group that recorded work still needs is never released (see Stream._make_group).

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
    uint32_t newer, older  # recency list


cdef inline uint64_t _hash_words(const uint64_t* words, uint32_t count) noexcept nogil:
    cdef uint64_t h = <uint64_t>0x9E3779B97F4A7C15
    cdef uint32_t i
    for i in range(count):
        h = (h ^ words[i]) * <uint64_t>0xFF51AFD7ED558CCD
        h ^= h >> 32
    return h


cdef class GroupCache:
    """The bind groups of one device."""

    cdef Group* slots
    cdef uint32_t* buckets
    cdef uint32_t bucket_mask, spare, newest, oldest
    cdef readonly uint32_t capacity, count
    cdef readonly uint64_t created

    def __cinit__(self, uint32_t capacity):
        cdef uint32_t size = 16, i
        while size < 2 * capacity:
            size *= 2
        self.slots = <Group*>malloc(capacity * sizeof(Group))
        self.buckets = <uint32_t*>malloc(size * sizeof(uint32_t))
        if self.slots == NULL or self.buckets == NULL:
            raise MemoryError()
        self.capacity = capacity
        self.bucket_mask = size - 1
        self.newest = self.oldest = NO_SLOT
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

    cdef void unlink(self, uint32_t i) noexcept nogil:
        cdef Group* g = &self.slots[i]
        if g.newer == NO_SLOT:
            self.newest = g.older
        else:
            self.slots[g.newer].older = g.older
        if g.older == NO_SLOT:
            self.oldest = g.newer
        else:
            self.slots[g.older].newer = g.newer

    cdef void link(self, uint32_t i) noexcept nogil:
        cdef Group* g = &self.slots[i]
        g.newer = NO_SLOT
        g.older = self.newest
        if self.newest == NO_SLOT:
            self.oldest = i
        else:
            self.slots[self.newest].newer = i
        self.newest = i

    cdef Group* find(self, const uint64_t* words, uint32_t count) noexcept nogil:
        # The group of this key, now the newest; NULL where there is none.
        cdef uint64_t h = _hash_words(words, count)
        cdef uint32_t i = self.buckets[h & self.bucket_mask]
        cdef Group* g
        while i != NO_SLOT:
            g = &self.slots[i]
            if g.hash == h and g.word_count == count and memcmp(g.words, words, count * sizeof(uint64_t)) == 0:
                if i != self.newest:
                    self.unlink(i)
                    self.link(i)
                return g
            i = g.chain
        return NULL

    cdef bint add(self, const uint64_t* words, uint32_t count, Handle handle) noexcept nogil:
        # False where there is no slot or no memory. The caller made room and checked that the key is new.
        cdef uint32_t i = self.spare
        cdef Group* g
        if i == NO_SLOT:
            return False
        g = &self.slots[i]
        g.words = <uint64_t*>malloc(count * sizeof(uint64_t))
        if g.words == NULL:
            return False
        self.spare = g.chain
        memcpy(g.words, words, count * sizeof(uint64_t))
        g.word_count = count
        g.handle = handle
        g.last_use = 0
        g.hash = _hash_words(words, count)
        g.chain = self.buckets[g.hash & self.bucket_mask]
        self.buckets[g.hash & self.bucket_mask] = i
        self.link(i)
        self.count += 1
        self.created += 1
        return True

    cdef Handle remove(self, uint32_t i) noexcept nogil:
        # Forget slot i; the caller releases the handle that this gives.
        cdef Group* g = &self.slots[i]
        cdef uint32_t* place = &self.buckets[g.hash & self.bucket_mask]
        while place[0] != i:
            place = &self.slots[place[0]].chain
        place[0] = g.chain
        self.unlink(i)
        free(g.words)
        g.words = NULL
        g.chain = self.spare
        self.spare = i
        self.count -= 1
        return g.handle

    cdef void drop_dead(self, Block* blocks, void (*release)(Handle) noexcept nogil) noexcept nogil:
        # Remove every group of a block that was destroyed.
        cdef uint32_t i = self.newest, older, k
        while i != NO_SLOT:
            older = self.slots[i].older
            for k in range(1, self.slots[i].word_count, 3):
                if blocks[self.slots[i].words[k]].handle == NULL:
                    release(self.remove(i))
                    break
            i = older
