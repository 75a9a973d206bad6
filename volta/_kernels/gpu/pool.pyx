# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Device memory: blocks (native buffers) by size class, and the Buffer that borrows one.

Size classes are powers of two with 4 steps between, from 256 bytes. Equal training steps should get equal blocks, since they
then find their bind groups in the cache. So an alloc takes the block that the alloc of the same number took two steps ago, else
one step ago (`Trace`): two, because what outlives its step (a loss in a loop variable) holds one of two blocks in turn. Where
neither is free, or neither step was like this one, the free block of the lowest id serves. What outlives all steps (`lasting`)
takes a block that the running step has not used, so that the next one can use the same blocks again.

Threads: the GIL guards everything here; no function lets it go while the tables are half changed. Knows the device link; must
not know batches, bind groups or tensors.
"""
cimport cython
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from volta._kernels.gpu.native cimport USAGE_COPY_DST, USAGE_COPY_SRC, USAGE_MAP_WRITE, USAGE_STORAGE

cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject*) except? -1

from volta.errors import ArgumentError, OutOfMemoryError


def byte_text(count):
    """A byte count for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


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


@cython.final
cdef class Pool:
    """All blocks of one device, live and free."""

    def __cinit__(self, DeviceLink link not None, uint64_t max_buffer, make_room):
        self.link = link
        self.make_room = make_room
        self.max_buffer = max_buffer
        self.spare_ids = []
        self.lasting = set()
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

    cdef uint32_t choose(self, int size_class, bint lasting) noexcept nogil:
        # A free block of the class, still free; NO_BLOCK where there is none.
        cdef Heap* heap = &self.heaps[size_class]
        cdef uint32_t number = self.traces[2].count, found = NO_BLOCK, block, i
        if lasting:
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

    def reset_peak(self):
        """Let the peak begin at what is live."""
        self.peak = self.live

    cdef void take(self, uint32_t block, uint64_t nbytes, bint lasting) noexcept nogil:
        cdef Block* record = &self.blocks[block]
        record.live = True
        record.nbytes = nbytes
        self.live += record.capacity
        if self.live > self.peak:
            self.peak = self.live
        if not lasting:
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
        # Room for one more block in the tables.
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

    # ------------------------------------------------------------------------------------- memory of the device

    cdef Buffer alloc(self, nbytes):
        # A buffer of `nbytes` (0 is allowed), contents undefined, or OutOfMemoryError.
        cdef int size_class
        cdef uint32_t block
        cdef bint lasting = len(self.lasting) != 0 and PyThread_get_thread_ident() in self.lasting
        cdef Py_ssize_t size = PyNumber_AsSsize_t(nbytes, NULL)     # beyond 64 bits: the largest number, which is too large too
        cdef Buffer result = Buffer.__new__(Buffer)
        if size < 0:
            raise ArgumentError(f"alloc: nbytes must not be negative, got {nbytes}")
        if <uint64_t>size > self.max_buffer:
            raise OutOfMemoryError(f"alloc: {byte_text(nbytes)} asked for, but this device's largest buffer is "
                                   f"{byte_text(self.max_buffer)}; use smaller tensors (a smaller batch, or split the tensor)")
        size_class = size_class_of(size)
        block = self.choose(size_class, lasting)
        while block == NO_BLOCK:
            if not self.grow(size_class):
                self.make_room()
                if not self.grow(size_class):
                    raise OutOfMemoryError(self.memory_text(nbytes))
            block = self.choose(size_class, lasting)
        self.take(block, size, lasting)
        result.block = block
        result.pool = self
        result.nbytes = size
        result.capacity = self.blocks[block].capacity
        return result

    cdef Handle staging(self, uint64_t size, uint64_t usage) except NULL:
        # A native buffer that the host can map; one to be written comes mapped.
        cdef bint mapped = usage & USAGE_MAP_WRITE
        cdef Handle handle = self.link.new_buffer(size, usage, mapped)
        if handle == NULL:
            self.make_room()
            handle = self.link.new_buffer(size, usage, mapped)
        if handle == NULL:
            raise OutOfMemoryError(f"transfer: no staging memory of {byte_text(size)}")
        self.created += 1
        return handle

    cdef int grow(self, int size_class) except -1:
        # One more free block of the class; 0 where there is no room for it.
        cdef uint64_t capacity = min(class_bytes(size_class), self.max_buffer)
        cdef Handle handle
        cdef uint32_t block
        self.link.check()
        if self.limit != 0 and self.held + capacity > self.limit:
            return 0
        self.reserve(size_class)
        handle = self.link.new_buffer(capacity, USAGE_STORAGE | USAGE_COPY_SRC | USAGE_COPY_DST, False)
        if handle == NULL:
            return 0
        self.reserve(size_class)        # again: another thread may have used the room
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
        return 1

    cdef int free_blocks(self, uint64_t submitted) except -1:
        # Give the free blocks back to the device, but for those that batches after `submitted` use.
        # Runs no Python code: what names the ids of these blocks has to go before they are taken anew.
        cdef uint32_t i, kept, block
        cdef int c
        cdef Heap* heap
        cdef Block* record
        for c in range(CLASS_COUNT):
            heap = &self.heaps[c]
            kept = 0
            for i in range(heap.count):
                block = heap.ids[i]
                record = &self.blocks[block]
                record.queued = False
                if record.live:
                    continue
                if record.last_use > submitted:         # recorded by another thread since
                    heap.ids[kept] = block
                    kept += 1
                    continue
                self.link.api.buffer_release(record.handle)
                record.handle = NULL
                self.held -= record.capacity
                self.made[c] -= 1
                self.spare_ids.append(block)
            heap.count = 0
            for i in range(kept):
                self.queue(heap.ids[i])
        return 0

    cdef object memory_text(self, nbytes):
        # Why an alloc failed, for people.
        largest = ", ".join([byte_text(size) for size in self.largest()]) or "none"
        limit = byte_text(self.limit) if self.limit else "none"
        capacity = min(class_bytes(size_class_of(nbytes)), self.max_buffer)
        return (f"alloc: out of GPU memory, {byte_text(nbytes)} asked for (a block of {byte_text(capacity)}); live "
                f"{byte_text(self.live)}, pooled {byte_text(self.held - self.live)}, limit {limit}; largest live buffers: "
                f"{largest}. Use a smaller batch, free tensors, or raise volta.gpu.set_memory_limit")

    def set_limit(self, nbytes):
        """Hold at most this many bytes of blocks, live and free, from now on; None lifts the limit."""
        if nbytes is not None and nbytes <= 0:
            raise ArgumentError(f"set_memory_limit: a positive number of bytes or None is needed, got {nbytes}")
        self.limit = nbytes or 0

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

    def __init__(self):
        raise TypeError("Buffer: made by Context.alloc only")

    def __dealloc__(self):
        if self.pool is not None:
            self.pool.give(self.block)

    def __repr__(self):
        return f"Buffer(block={self.block}, nbytes={self.nbytes}, capacity={self.capacity})"


cdef uint64_t copy_size(str op, Buffer buffer, long long offset, long long nbytes, bint padded) except? 0xFFFFFFFFFFFFFFFF:
    # The multiple of 4 to copy. An odd size is padded only where no element of the buffer follows.
    cdef uint64_t size = <uint64_t>(nbytes + 3) & ~<uint64_t>3
    cdef uint64_t room = buffer.capacity if padded else buffer.nbytes
    if offset < 0 or nbytes < 0 or <uint64_t>(offset + nbytes) > room:
        raise ArgumentError(f"{op}: {nbytes} bytes at byte {offset} lie outside a buffer of {buffer.nbytes} bytes")
    if offset % 4 or (size != <uint64_t>nbytes and <uint64_t>(offset + nbytes) != buffer.nbytes):
        raise ArgumentError(f"{op}: offset and size must be multiples of 4 bytes unless the range ends the buffer, "
                            f"got {nbytes} bytes at byte {offset} of {buffer.nbytes}")
    return size
