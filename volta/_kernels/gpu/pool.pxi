# Blocks (native buffers) by size class, and the Buffer that borrows one.
#
# Size classes are powers of two with 4 steps between, from 256 bytes. Equal training steps should get equal blocks, since they
# then find their bind groups in the cache. So an alloc takes the block that the alloc of the same number took two steps ago, else
# one step ago (`Trace`): two, because what outlives its step (a loss in a loop variable) holds one of two blocks in turn. Where
# neither is free, or neither step was like this one, the free block of the lowest id serves. What outlives all steps (`lasting`)
# takes a block that the running step has not used, so that the next one can use the same blocks again.
# The GIL guards everything here: no function below lets it go while the tables are half changed.

cdef enum:
    CLASS_COUNT = 160
    MIN_BLOCK = 256
    NO_BLOCK = 0xFFFFFFFF
    TRACE_ROOM = 1 << 16   # allocs of a step that are remembered

cdef struct Block:
    Handle handle          # NULL where destroyed; the id is then in `spare_ids`
    uint64_t capacity
    uint64_t nbytes        # asked for by the Buffer that holds it
    uint64_t last_use      # serial of the last batch that uses it
    uint64_t step          # the last step that took it
    int size_class
    bint live              # held by a Buffer
    bint queued            # in its heap; a live block may be, and is passed over there

cdef struct Heap:
    uint32_t* ids
    uint32_t count
    uint32_t room          # never below the number of blocks of the class: giving back cannot fail

cdef struct Trace:
    uint32_t* blocks       # the blocks that a step's allocs took, in order
    uint32_t count, room
    bint strange           # the running step has asked for other sizes than this one did


cdef inline int _size_class(uint64_t nbytes) noexcept nogil:
    # 4 classes per octave: 256, 320, 384, 448, 512, 640, ...
    cdef int octave = 8
    cdef uint64_t top = MIN_BLOCK
    if nbytes <= MIN_BLOCK:
        return 0
    while (top << 1) < nbytes:
        top <<= 1
        octave += 1
    return (octave - 8) * 4 + <int>((nbytes - top + (top >> 2) - 1) // (top >> 2))


cdef inline uint64_t _class_bytes(int size_class) noexcept nogil:
    cdef uint64_t top = <uint64_t>MIN_BLOCK << (size_class >> 2)
    return top + (top >> 2) * (size_class & 3)


cdef void _heap_push(Heap* heap, uint32_t block) noexcept nogil:
    cdef uint32_t i = heap.count, parent
    heap.count += 1
    while i > 0:
        parent = (i - 1) >> 1
        if heap.ids[parent] <= block:
            break
        heap.ids[i] = heap.ids[parent]
        i = parent
    heap.ids[i] = block


cdef uint32_t _heap_pop(Heap* heap) noexcept nogil:
    cdef uint32_t lowest = heap.ids[0], last, i = 0, child
    heap.count -= 1
    last = heap.ids[heap.count]
    while True:
        child = 2 * i + 1
        if child >= heap.count:
            break
        if child + 1 < heap.count and heap.ids[child + 1] < heap.ids[child]:
            child += 1
        if last <= heap.ids[child]:
            break
        heap.ids[i] = heap.ids[child]
        i = child
    heap.ids[i] = last
    return lowest


cdef class Pool:
    """All blocks of one device, live and free."""

    cdef Block* blocks
    cdef uint32_t block_count, block_room
    cdef Heap[CLASS_COUNT] heaps
    cdef uint32_t[CLASS_COUNT] made          # blocks of the class that exist
    cdef list spare_ids
    cdef Trace[3] traces                     # of the step before last, the last one, and the running one
    cdef uint64_t step                       # number of the running one
    cdef public bint lasting                 # what is allocated now outlives many steps
    cdef readonly uint64_t live, held, peak  # bytes: in Buffers; from the device; most ever live
    cdef readonly uint64_t created           # native buffers made, staging included

    def __cinit__(self):
        self.spare_ids = []
        self.step = 1           # a new block's 0 is no step
        memset(self.heaps, 0, sizeof(self.heaps))
        memset(self.made, 0, sizeof(self.made))
        memset(self.traces, 0, sizeof(self.traces))

    def __dealloc__(self):
        cdef int i
        for i in range(CLASS_COUNT):
            free(self.heaps[i].ids)
        for i in range(3):
            free(self.traces[i].blocks)
        free(self.blocks)

    cdef void give(self, uint32_t block) noexcept nogil:
        cdef Block* record = &self.blocks[block]
        record.live = False
        self.live -= record.capacity
        self.queue(block)

    cdef void queue(self, uint32_t block) noexcept nogil:
        if not self.blocks[block].queued:
            self.blocks[block].queued = True
            _heap_push(&self.heaps[self.blocks[block].size_class], block)

    cdef uint32_t choose(self, int size_class) noexcept nogil:
        # A free block of the class, still free; NO_BLOCK where there is none.
        cdef Heap* heap = &self.heaps[size_class]
        cdef uint32_t number = self.traces[2].count, found = NO_BLOCK, block, i
        if self.lasting:
            for i in range(heap.count):
                if not self.blocks[heap.ids[i]].live and self.blocks[heap.ids[i]].step != self.step:
                    return heap.ids[i]
            return NO_BLOCK
        for i in range(2):
            if self.traces[i].strange:
                continue
            if number >= self.traces[i].count or self.blocks[self.traces[i].blocks[number]].size_class != size_class:
                self.traces[i].strange = True
                continue
            block = self.traces[i].blocks[number]
            if found == NO_BLOCK and not self.blocks[block].live and self.blocks[block].handle:
                found = block
        if found != NO_BLOCK:
            return found
        while heap.count and self.blocks[heap.ids[0]].live:
            self.blocks[_heap_pop(heap)].queued = False
        return heap.ids[0] if heap.count else <uint32_t>NO_BLOCK

    cdef void take(self, uint32_t block, uint64_t nbytes) noexcept nogil:
        cdef Block* record = &self.blocks[block]
        record.live = True
        record.nbytes = nbytes
        self.live += record.capacity
        if self.live > self.peak:
            self.peak = self.live
        if not self.lasting:
            record.step = self.step
            self.remember(block)

    cdef void remember(self, uint32_t block) noexcept nogil:
        cdef Trace* trace = &self.traces[2]
        cdef uint32_t room
        cdef void* grown
        if trace.count == trace.room:
            room = max(<uint32_t>256, 2 * trace.room)
            grown = realloc(trace.blocks, room * sizeof(uint32_t)) if room <= TRACE_ROOM else NULL
            if grown == NULL:      # a step too long: the rest of it takes the lowest free blocks
                return
            trace.blocks = <uint32_t*>grown
            trace.room = room
        trace.blocks[trace.count] = block
        trace.count += 1

    def end_step(self):
        """A training step ends here: the next one's allocs are matched with this one's."""
        cdef Trace oldest = self.traces[0]
        self.traces[0] = self.traces[1]
        self.traces[1] = self.traces[2]
        oldest.count = 0
        self.traces[2] = oldest
        self.traces[0].strange = self.traces[1].strange = False
        self.step += 1

    def forget_steps(self):
        """The first of a new kind of training step begins here."""
        cdef int i
        for i in range(3):
            self.traces[i].count = 0
        self.step += 1

    cdef int reserve(self, int size_class) except -1:
        # Room for one more block in the tables, so that `add` cannot fail.
        cdef void* grown
        cdef uint32_t room
        cdef Heap* heap = &self.heaps[size_class]
        if self.block_count >= self.block_room:
            room = max(<uint32_t>256, 2 * self.block_room)
            grown = realloc(self.blocks, room * sizeof(Block))
            if grown == NULL:
                raise MemoryError()
            self.blocks = <Block*>grown
            self.block_room = room
        if self.made[size_class] >= heap.room:
            room = max(<uint32_t>16, 2 * heap.room)
            grown = realloc(heap.ids, room * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError()
            heap.ids = <uint32_t*>grown
            heap.room = room
        return 0

    cdef int add(self, Handle handle, int size_class, uint64_t capacity) except -1:
        # A new block, free. `reserve` again: another thread may have used the room since the caller's.
        cdef uint32_t block
        self.reserve(size_class)
        if self.spare_ids:
            block = self.spare_ids.pop()
        else:
            block = self.block_count
            self.block_count += 1
        self.blocks[block] = Block(handle, capacity, 0, 0, 0, size_class, False, False)
        self.made[size_class] += 1
        self.created += 1
        self.held += capacity
        self.queue(block)
        return 0

    def largest(self, int count=5):
        """Sizes in bytes of the largest live buffers."""
        cdef uint32_t i
        sizes = [self.blocks[i].nbytes for i in range(self.block_count) if self.blocks[i].handle and self.blocks[i].live]
        return sorted(sizes, reverse=True)[:count]


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Buffer:
    """Device memory of `nbytes`, borrowed from the pool until this object dies."""

    cdef Pool pool
    cdef readonly uint32_t block
    cdef readonly uint64_t nbytes
    cdef readonly uint64_t capacity

    def __init__(self):
        raise TypeError("Buffer: made by Context.alloc only")

    def __dealloc__(self):
        if self.pool is not None:
            self.pool.give(self.block)

    def __repr__(self):
        return f"Buffer(block={self.block}, nbytes={self.nbytes}, capacity={self.capacity})"
