# Memory: a Queue that owns the device's blocks and bind groups.


cdef class Memory(Queue):
    """Allocation, its limits, and giving memory back."""

    cdef readonly Pool pool
    cdef readonly GroupCache groups
    cdef uint64_t max_groups, max_binding, max_buffer, offset_alignment
    cdef readonly uint64_t limit          # bytes of blocks, 0 = none

    def __cinit__(self, *args, **kwargs):
        self.pool = Pool()

    def start(self, DeviceLink link not None, dict limits not None, uint32_t group_capacity=8192):
        """Begin on an attached device; `limits` by WebGPU's names with dashes."""
        self.link = link
        self.groups = GroupCache(group_capacity)
        self.max_groups = limits["max-compute-workgroups-per-dimension"]
        self.max_binding = <uint64_t>limits["max-storage-buffer-binding-size"] & ~<uint64_t>15
        self.max_buffer = <uint64_t>limits["max-buffer-size"] & ~<uint64_t>15
        self.offset_alignment = limits["min-storage-buffer-offset-alignment"]

    def alloc(self, nbytes):
        """A buffer of `nbytes` (0 is allowed), contents undefined.

        Raises: OutOfMemoryError where the device, the limit or the largest possible buffer does not allow it.
        """
        cdef int size_class
        cdef uint32_t block
        cdef Py_ssize_t size = PyNumber_AsSsize_t(nbytes, NULL)     # beyond 64 bits: the largest number, which is too large too
        cdef Buffer result = Buffer.__new__(Buffer)
        if size < 0:
            raise ArgumentError(f"alloc: nbytes must not be negative, got {nbytes}")
        if <uint64_t>size > self.max_buffer:
            raise OutOfMemoryError(f"alloc: {_bytes(nbytes)} asked for, but this device's largest buffer is "
                                   f"{_bytes(self.max_buffer)}; use smaller tensors (a smaller batch, or split the tensor)")
        size_class = _size_class(size)
        block = self.pool.choose(size_class)
        while block == NO_BLOCK:
            self._grow(size_class, size)
            block = self.pool.choose(size_class)
        self.pool.take(block, size)
        result.block = block
        result.pool = self.pool
        result.nbytes = size
        result.capacity = self.pool.blocks[result.block].capacity
        return result

    cdef int _grow(self, int size_class, uint64_t nbytes) except -1:
        # One more free block of the class.
        cdef uint64_t capacity = min(_class_bytes(size_class), self.max_buffer)
        cdef Handle handle
        self.link.check()
        self.pool.reserve(size_class)
        handle = self._new_block(capacity)
        if handle == NULL:
            self.empty_cache()
            handle = self._new_block(capacity)
        if handle == NULL:
            raise OutOfMemoryError(self._memory_text(nbytes, capacity))
        self.pool.add(handle, size_class, capacity)
        return 0

    cdef Handle _new_block(self, uint64_t capacity) except? NULL:
        if self.limit != 0 and self.pool.held + capacity > self.limit:
            return NULL
        return self._new_buffer(capacity, USAGE_STORAGE | USAGE_COPY_SRC | USAGE_COPY_DST)

    cdef Handle _new_buffer(self, uint64_t size, uint64_t usage, bint mapped=False) except? NULL:
        # A native buffer; NULL where the device is out of memory.
        cdef BufferDescriptor descriptor
        cdef Handle handle
        memset(&descriptor, 0, sizeof(descriptor))
        descriptor.usage = usage
        descriptor.size = size
        descriptor.mapped_at_creation = mapped
        self.link._capture("volta")
        with nogil:
            handle = self.link.api.create_buffer(self.link.device, &descriptor)
        error = self.link._release("volta")
        if error is None and handle != NULL:
            return handle
        if handle != NULL:
            self.link.api.buffer_release(handle)
        # wgpu reports a full device as a validation error with this text.
        if error is None or "memory" in error[1].lower():
            return NULL
        raise DeviceError(f"alloc: no buffer of {size} bytes: {error[1]}")

    def _memory_text(self, nbytes, capacity):
        pool = self.pool
        largest = ", ".join(_bytes(size) for size in pool.largest()) or "none"
        limit = _bytes(self.limit) if self.limit else "none"
        return (f"alloc: out of GPU memory, {_bytes(nbytes)} asked for (a block of {_bytes(capacity)}); live "
                f"{_bytes(pool.live)}, pooled {_bytes(pool.held - pool.live)}, limit {limit}; largest live buffers: "
                f"{largest}. Use a smaller batch, free tensors, or raise volta.gpu.set_memory_limit")

    def set_memory_limit(self, nbytes):
        """Allow at most this many bytes of blocks, live and pooled; None lifts the limit."""
        if nbytes is not None and nbytes <= 0:
            raise ArgumentError(f"set_memory_limit: a positive number of bytes or None is needed, got {nbytes}")
        self.limit = nbytes or 0
        if self.limit and self.pool.held > self.limit:
            self.empty_cache()

    def empty_cache(self):
        """Give the pool's free blocks back to the device."""
        cdef uint32_t i, kept
        cdef int c
        cdef Heap* heap
        cdef Block* record
        with self.lock:
            self.synchronize()
            # No Python code runs until `drop_dead`: a block id must not be taken anew while a group still names it.
            for c in range(CLASS_COUNT):
                heap = &self.pool.heaps[c]
                kept = 0
                for i in range(heap.count):
                    record = &self.pool.blocks[heap.ids[i]]
                    record.queued = False
                    if record.live:
                        continue
                    if record.last_use > self.submitted:     # recorded by another thread since the flush
                        heap.ids[kept] = heap.ids[i]
                        kept += 1
                        continue
                    self.link.api.buffer_release(record.handle)
                    record.handle = NULL
                    self.pool.held -= record.capacity
                    self.pool.made[c] -= 1
                    self.pool.spare_ids.append(heap.ids[i])
                self._rebuild_heap(heap, kept)
            self.groups.drop_dead(self.pool.blocks, self.link.api.bind_group_release)
            with nogil:
                self.link.api.poll(self.link.device, 0, NULL)

    cdef void _rebuild_heap(self, Heap* heap, uint32_t kept) noexcept nogil:
        cdef uint32_t i, block
        heap.count = 0
        for i in range(kept):
            block = heap.ids[i]
            self.pool.blocks[block].queued = True
            _heap_push(heap, block)

    @property
    def memory(self):
        """(live, pooled, peak, held by the device) in bytes."""
        return self.pool.live, self.pool.held - self.pool.live, self.pool.peak, self.pool.held


def _bytes(count):
    """A byte count for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"
