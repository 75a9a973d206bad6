# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The GPU's hot path: blocks, bind groups, the recorded stream and transfers, through wgpu-native's C functions.

Layout: gpu_native.pxi (C functions), gpu_pool.pxi (blocks and Buffer), gpu_groups.pxi (bind group cache), here Pipeline and
Recorder, gpu_transfer.pxi (uploads and downloads). Knows buffers and pipelines; must not know tensors or shader text.

wgpu-native aborts the process on an error inside submit or poll, so whatever could be wrong is checked before it is
recorded, and an error while a batch is encoded drops the batch.

Threads: tables and the open batch are guarded by the GIL (no function lets it go while they are half changed); what is
sent to the queue goes through one lock, in order. Encoding, waiting and large copies run without the GIL.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

import threading

from volta.errors import ArgumentError, DeviceError, OutOfMemoryError, TransferError

include "gpu_native.pxi"
include "gpu_pool.pxi"
include "gpu_groups.pxi"

cdef enum:
    MAX_OPS = 256                # recorded operations at which a batch is sent
    MAX_IN_FLIGHT = 16           # batches sent and not waited for
    MAX_PARAMS = 128
    OP_DISPATCH = 0
    OP_COPY = 1
    OP_CLEAR = 2

# Bytes of outputs at which a batch is sent: 0.1 ms of memory traffic on a large GPU, so that it starts before a long
# recording ends; a step of a small model stays in one batch.
cdef uint64_t MAX_WRITTEN = 512 << 20

# Bytes handed to write_buffer at which they are sent: wgpu holds a copy of them until then.
cdef uint64_t MAX_UNSENT = 64 << 20

cdef struct Op:
    Handle first           # pipeline, or source buffer
    Handle second          # bind group, or target buffer
    uint64_t first_offset
    uint64_t second_offset
    uint64_t size
    uint32_t x, y, z
    uint32_t kind
    uint32_t params_size
    char[MAX_PARAMS] params


@cython.final
cdef class Pipeline:
    """A compiled kernel: what `Context.launch` takes first."""

    cdef Handle handle
    cdef Handle group_layout
    cdef uint64_t layout_id
    cdef uint64_t[MAX_BINDINGS] min_sizes
    cdef uint32_t written              # bit k: binding k is read_write
    cdef readonly int bindings
    cdef readonly int params_size
    cdef readonly str label
    cdef readonly tuple access         # "read" or "read_write" of each binding
    cdef readonly str params_format    # for struct.pack, padding included
    cdef object owner                  # the token of its context
    cdef object keep                   # native objects that must outlive it

    def __init__(self, object owner, str label, size_t handle, size_t group_layout, int layout_id, tuple access,
                 tuple min_sizes, int params_size, str params_format, object keep):
        if len(access) > MAX_BINDINGS or len(min_sizes) != len(access):
            raise DeviceError(f"{label}: {len(access)} buffers, at most {MAX_BINDINGS} can be bound")
        if params_size > MAX_PARAMS:
            raise DeviceError(f"{label}: Params takes {params_size} bytes, at most {MAX_PARAMS} are allowed")
        self.owner = owner
        self.label = label
        self.handle = <Handle>handle
        self.group_layout = <Handle>group_layout
        self.layout_id = layout_id
        self.access = access
        self.bindings = len(access)
        self.written = 0
        for k, kind in enumerate(access):
            self.min_sizes[k] = min_sizes[k]
            if kind == "read_write":
                self.written |= 1 << k
        self.params_size = params_size
        self.params_format = params_format
        self.keep = keep

    def __repr__(self):
        return f"Pipeline({self.label}, buffers={self.access}, params={self.params_size} bytes)"


cdef class Recorder:
    """Memory, recording and submission of one device."""

    cdef readonly DeviceLink link
    cdef readonly Pool pool
    cdef readonly GroupCache groups
    cdef readonly object token            # identity of this device's pipelines
    cdef object lock
    cdef Op* ops                          # the open batch
    cdef Op* spare_ops
    cdef uint32_t count
    cdef uint64_t serial, submitted       # of the open batch; of the last batch sent or dropped
    cdef uint64_t written, unsent         # bytes; see MAX_WRITTEN, MAX_UNSENT
    cdef uint64_t[MAX_IN_FLIGHT] in_flight
    cdef uint32_t in_flight_first, in_flight_count
    cdef uint64_t max_groups, max_binding, max_buffer, offset_alignment
    cdef readonly uint64_t limit          # bytes of blocks, 0 = none
    cdef readonly uint64_t dispatches, submits
    cdef Handle ring, ring_group          # parameters on adapters without immediates
    cdef uint32_t ring_stride
    cdef char* ring_bytes
    cdef object ring_keep

    def __cinit__(self, *args, **kwargs):
        self.ops = <Op*>malloc(MAX_OPS * sizeof(Op))
        self.spare_ops = <Op*>malloc(MAX_OPS * sizeof(Op))
        if self.ops == NULL or self.spare_ops == NULL:
            raise MemoryError()
        self.pool = Pool()
        self.token = object()
        self.lock = threading.RLock()
        self.serial = 1

    def __dealloc__(self):
        free(self.ops)
        free(self.spare_ops)
        free(self.ring_bytes)

    def start(self, DeviceLink link not None, dict limits not None, uint32_t group_capacity=8192):
        """Begin on an attached device; `limits` by WebGPU's names with dashes."""
        self.link = link
        self.groups = GroupCache(group_capacity)
        self.max_groups = limits["max-compute-workgroups-per-dimension"]
        self.max_binding = <uint64_t>limits["max-storage-buffer-binding-size"] & ~<uint64_t>15
        self.max_buffer = <uint64_t>limits["max-buffer-size"] & ~<uint64_t>15
        self.offset_alignment = limits["min-storage-buffer-offset-alignment"]

    def use_ring(self, size_t ring, size_t group, uint32_t stride, object keep):
        """Pass parameters in a uniform buffer of 256 slots of `stride` bytes instead of immediates."""
        self.ring_bytes = <char*>calloc(MAX_OPS, stride)
        if self.ring_bytes == NULL:
            raise MemoryError()
        self.ring = <Handle>ring
        self.ring_group = <Handle>group
        self.ring_stride = stride
        self.ring_keep = keep

    # ---------------------------------------------------------------------------------------------------- memory

    def alloc(self, long long nbytes):
        """A buffer of `nbytes` (0 is allowed), contents undefined.

        Raises: OutOfMemoryError where the device, the limit or the largest possible buffer does not allow it.
        """
        cdef int size_class
        cdef Heap* heap
        cdef Buffer result = Buffer.__new__(Buffer)
        if nbytes < 0:
            raise ArgumentError(f"alloc: nbytes must not be negative, got {nbytes}")
        if <uint64_t>nbytes > self.max_buffer:
            raise OutOfMemoryError(f"alloc: {_bytes(nbytes)} asked for, but this device's largest buffer is "
                                   f"{_bytes(self.max_buffer)}; use smaller tensors (a smaller batch, or split the tensor)")
        size_class = _size_class(nbytes)
        heap = &self.pool.heaps[size_class]
        while heap.count == 0:
            self._grow(size_class, nbytes)
        result.block = _heap_pop(heap)
        self.pool.take(result.block, nbytes)
        result.pool = self.pool
        result.nbytes = nbytes
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
            _heap_push(heap, block)

    @property
    def memory(self):
        """(live, pooled, peak, held by the device) in bytes."""
        return self.pool.live, self.pool.held - self.pool.live, self.pool.peak, self.pool.held

    # ------------------------------------------------------------------------------------------------- recording

    def launch(self, Pipeline pipeline not None, tuple buffers not None, bytes params not None,
               long long x, long long y=1, long long z=1):
        """Record one dispatch of `x * y * z` workgroups; nothing runs before a flush.

        `buffers` holds, in binding order, a Buffer or (Buffer, byte offset, byte size). A grid with a 0 records nothing.
        Raises: DeviceError or ArgumentError, before anything is recorded, where the launch does not fit the pipeline.
        """
        cdef uint64_t[MAX_WORDS] words
        cdef Py_ssize_t count = PyTuple_GET_SIZE(buffers), i
        cdef uint64_t written = 0, touched
        cdef Group* group
        cdef Op* op
        if (pipeline.owner is not self.token or count != pipeline.bindings or len(params) != pipeline.params_size
                or x < 0 or y < 0 or z < 0):
            self._refuse_launch(pipeline, count, len(params), x, y, z)
        if self.link.lost[0] != 0 or self.link.dead_reason is not None:
            self.link.check()
        if <uint64_t>(x | y | z) > self.max_groups:
            x, y = self._fold(pipeline, x, y, z)
        if x == 0 or y == 0 or z == 0:
            return
        words[0] = pipeline.layout_id
        for i in range(count):
            touched = self._bind(pipeline, i, <object>PyTuple_GET_ITEM(buffers, i), &words[1 + 3 * i])
            if pipeline.written >> i & 1:
                written += touched
        while True:
            if self.count >= MAX_OPS:
                self.flush()
            group = self.groups.find(words, 1 + 3 * count)
            if group != NULL:
                break
            self._make_group(pipeline, words, count)
        # From here to the count no Python runs, so that other threads see a whole operation or none.
        op = &self.ops[self.count]
        op.kind = OP_DISPATCH
        op.first = pipeline.handle
        op.second = group.handle
        op.x = <uint32_t>x
        op.y = <uint32_t>y
        op.z = <uint32_t>z
        op.params_size = pipeline.params_size
        memcpy(op.params, <const char*>params, pipeline.params_size)
        group.last_use = self.serial
        for i in range(count):
            self.pool.blocks[words[1 + 3 * i]].last_use = self.serial
        self.count += 1
        self.dispatches += 1
        self.written += written
        if self.count >= MAX_OPS or self.written >= MAX_WRITTEN:
            self.flush()

    cdef inline uint64_t _bind(self, Pipeline pipeline, Py_ssize_t k, object item, uint64_t* word) except? 0xFFFFFFFFFFFFFFFF:
        # Three key words of binding k; gives the bytes that it covers.
        cdef Buffer buffer
        if type(item) is not Buffer:
            return self._bind_window(pipeline, k, item, word)
        buffer = <Buffer>item
        if buffer.pool is not self.pool:
            self._refuse_buffer(pipeline.label, buffer)
        word[0] = buffer.block
        word[1] = 0
        word[2] = buffer.capacity
        if buffer.capacity > self.max_binding:
            if buffer.nbytes > self.max_binding:
                raise DeviceError(f"{pipeline.label}: buffer {k} has {buffer.nbytes} bytes, at most {self.max_binding} can "
                                  f"be bound at once on this device; launch on (buffer, offset, size) windows")
            word[2] = self.max_binding
        if word[2] < pipeline.min_sizes[k]:
            self._refuse_size(pipeline, k, word[2])
        return buffer.nbytes

    cdef uint64_t _bind_window(self, Pipeline pipeline, Py_ssize_t k, object item, uint64_t* word) except? 0xFFFFFFFFFFFFFFFF:
        cdef Buffer buffer
        cdef long long offset, size
        if type(item) is not tuple or len(item) != 3 or type(item[0]) is not Buffer:
            raise ArgumentError(f"{pipeline.label}: buffer {k} must be a Buffer or (Buffer, offset, size), got {item!r}")
        buffer = item[0]
        offset = item[1]
        size = item[2]
        if buffer.pool is not self.pool:
            self._refuse_buffer(pipeline.label, buffer)
        size = (size + 3) & ~3
        if offset < 0 or size <= 0 or offset % <long long>self.offset_alignment or <uint64_t>(offset + size) > buffer.capacity:
            raise DeviceError(f"{pipeline.label}: window of buffer {k} at byte {offset}, size {item[2]}, must lie inside its "
                              f"{buffer.nbytes} bytes and start at a multiple of {self.offset_alignment}")
        if <uint64_t>size > self.max_binding:
            raise DeviceError(f"{pipeline.label}: window of buffer {k} has {size} bytes, at most {self.max_binding} can be "
                              "bound at once on this device; use smaller windows")
        word[0] = buffer.block
        word[1] = offset
        word[2] = size
        if word[2] < pipeline.min_sizes[k]:
            self._refuse_size(pipeline, k, word[2])
        return size

    def _refuse_launch(self, Pipeline pipeline, count, params_size, x, y, z):
        label = pipeline.label
        if pipeline.owner is not self.token:
            raise DeviceError(f"{label}: this pipeline belongs to another device; take it from this context's pipeline()")
        if count != pipeline.bindings:
            raise ArgumentError(f"{label}: {pipeline.bindings} buffers needed {pipeline.access}, got {count}")
        if params_size != pipeline.params_size:
            raise ArgumentError(f"{label}: params must have {pipeline.params_size} bytes "
                                f"(struct format {pipeline.params_format!r}), got {params_size}")
        raise ArgumentError(f"{label}: grid sizes must not be negative, got {(x, y, z)}")

    def _refuse_buffer(self, label, buffer):
        raise DeviceError(f"{label}: {buffer!r} belongs to another device; copy the tensor to this one first")

    def _refuse_size(self, Pipeline pipeline, k, size):
        raise DeviceError(f"{pipeline.label}: binding {k} needs at least {pipeline.min_sizes[k]} bytes, got {size}")

    def _fold(self, Pipeline pipeline, x, y, z):
        # x beyond the limit continues in y; the prelude's group_index gives the running number back.
        top = self.max_groups
        if y == 0 or z == 0:
            return 0, 0
        rows = -(-x // top)
        if y > top or z > top or (rows > 1 and y != 1) or rows > top:
            raise DeviceError(f"{pipeline.label}: grid {(x, y, z)} is too large, y and z may be up to {top}, and x "
                              f"beyond that needs y = 1")
        return (-(-x // rows), rows) if rows > 1 else (x, y)

    cdef int _make_group(self, Pipeline pipeline, uint64_t* words, Py_ssize_t count) except -1:
        # Create and cache the bind group of this key.
        cdef BindGroupEntry[MAX_BINDINGS] entries
        cdef BindGroupDescriptor descriptor
        cdef Handle handle
        cdef Py_ssize_t i, j
        self.link.check()
        for i in range(count):
            for j in range(i):
                if words[1 + 3 * i] == words[1 + 3 * j] and (pipeline.written >> i & 1) != (pipeline.written >> j & 1):
                    raise DeviceError(f"{pipeline.label}: buffers {j} and {i} are the same memory, one read and one written; "
                                      "use a kernel that binds it once as read_write")
        # The oldest group may still be needed by recorded work only where the cache is smaller than two batches.
        while self.groups.spare == NO_SLOT:
            if self.groups.slots[self.groups.oldest].last_use > self.submitted:
                self.flush()
            else:
                self.link.api.bind_group_release(self.groups.remove(self.groups.oldest))
        memset(entries, 0, count * sizeof(BindGroupEntry))
        for i in range(count):
            entries[i].binding = i
            entries[i].buffer = self.pool.blocks[words[1 + 3 * i]].handle
            entries[i].offset = words[2 + 3 * i]
            entries[i].size = words[3 + 3 * i]
        memset(&descriptor, 0, sizeof(descriptor))
        descriptor.layout = pipeline.group_layout
        descriptor.entry_count = count
        descriptor.entries = entries
        self.link._capture("volta")
        handle = self.link.api.create_bind_group(self.link.device, &descriptor)
        error = self.link._release("volta")
        if error is not None or handle == NULL:
            if handle != NULL:
                self.link.api.bind_group_release(handle)
            raise DeviceError(f"{pipeline.label}: cannot bind these buffers: {error[1] if error else 'no handle'}")
        # Another thread may have made the same group, or taken the slot, while Python ran above.
        if self.groups.find(words, 1 + 3 * count) != NULL or not self.groups.add(words, 1 + 3 * count, handle):
            self.link.api.bind_group_release(handle)
        return 0

    def copy(self, Buffer source not None, long long source_offset, Buffer target not None, long long target_offset,
             long long nbytes):
        """Record a copy of `nbytes`; offsets and size are multiples of 4 (a size may end odd at the target's end)."""
        cdef Buffer middle
        cdef uint64_t size = _copy_size("copy", target, target_offset, nbytes)
        _copy_size("copy", source, source_offset, size, True)
        if source.pool is not self.pool or target.pool is not self.pool:
            self._refuse_buffer("copy", target if source.pool is self.pool else source)
        if nbytes == 0:
            return
        if source.block == target.block:       # WebGPU copies between different buffers only
            middle = self.alloc(size)
            self._record_copy(source, source_offset, middle, 0, size)
            self._record_copy(middle, 0, target, target_offset, size)
        else:
            self._record_copy(source, source_offset, target, target_offset, size)

    cdef int _record_copy(self, Buffer source, uint64_t source_offset, Buffer target, uint64_t target_offset, uint64_t size) except -1:
        self._record(OP_COPY, self.pool.blocks[source.block].handle, source_offset,
                     self.pool.blocks[target.block].handle, target_offset, size)
        self.pool.blocks[source.block].last_use = self.serial
        self.pool.blocks[target.block].last_use = self.serial
        return 0

    def clear(self, Buffer buffer not None, long long offset=0, nbytes=None):
        """Record zeros over `nbytes` (default: to the end)."""
        cdef long long wanted = buffer.nbytes - offset if nbytes is None else nbytes
        cdef uint64_t size = _copy_size("clear", buffer, offset, wanted)
        if buffer.pool is not self.pool:
            self._refuse_buffer("clear", buffer)
        if size:
            self._record(OP_CLEAR, NULL, 0, self.pool.blocks[buffer.block].handle, offset, size)
            self.pool.blocks[buffer.block].last_use = self.serial

    cdef int _record(self, uint32_t kind, Handle first, uint64_t first_offset, Handle second, uint64_t second_offset, uint64_t size) except -1:
        # One operation that is no dispatch.
        cdef Op* op
        self.link.check()
        while self.count >= MAX_OPS:
            self.flush()
        op = &self.ops[self.count]
        op.kind = kind
        op.first = first
        op.first_offset = first_offset
        op.second = second
        op.second_offset = second_offset
        op.size = size
        self.count += 1
        self.written += size
        return 0

    # ------------------------------------------------------------------------------------------------ submission

    cpdef flush(self):
        """Send everything recorded so far to the device; does not wait.

        Raises: DeviceError where the device is lost or refuses the batch, which is then dropped.
        """
        cdef Op* batch
        cdef uint32_t count
        cdef uint64_t serial
        self.link.check()
        with self.lock:
            self.link.check()
            count = self.count
            if count == 0 and self.unsent == 0:
                return
            batch = self.ops
            if self.spare_ops == NULL:           # a flush inside a flush: a finaliser that runs while Python code is called
                self.spare_ops = <Op*>malloc(MAX_OPS * sizeof(Op))
                if self.spare_ops == NULL:
                    raise MemoryError()
            self.ops = self.spare_ops
            self.spare_ops = NULL
            serial = self.serial
            self.count = 0
            self.serial += 1
            self.written = self.unsent = 0
            try:
                self._send(batch, count)
            finally:
                self.submitted = max(self.submitted, serial)
                if self.spare_ops == NULL:
                    self.spare_ops = batch
                else:
                    free(batch)

    cdef int _send(self, Op* batch, uint32_t count) except -1:
        cdef Handle commands = NULL
        cdef uint64_t index
        cdef size_t command_count = 0
        self._wait_for_room()
        self.link._capture("volta")
        try:
            with nogil:
                if self.ring != NULL:
                    self._write_ring(batch, count)
                if count:
                    commands = self._encode(batch, count)
                    command_count = 1
        finally:
            error = self.link._release("volta")
        if error is not None or (count and commands == NULL):
            if commands != NULL:
                self.link.api.command_buffer_release(commands)
            raise DeviceError(f"gpu: the device refused {count} recorded operations, which are dropped: "
                              f"{error[1] if error else 'no command buffer'}")
        self.link.check()
        with nogil:
            index = self.link.api.submit(self.link.queue, command_count, &commands)
            if commands != NULL:
                self.link.api.command_buffer_release(commands)
        self.submits += 1
        self.in_flight[(self.in_flight_first + self.in_flight_count) % MAX_IN_FLIGHT] = index
        self.in_flight_count += 1
        return 0

    cdef int _wait_for_room(self) except -1:
        # Bounds what the queue holds; the oldest batch is usually long done.
        cdef uint64_t index
        while self.in_flight_count >= MAX_IN_FLIGHT:
            index = self.in_flight[self.in_flight_first]
            with nogil:
                self.link.api.poll(self.link.device, 1, &index)
            self.in_flight_first = (self.in_flight_first + 1) % MAX_IN_FLIGHT
            self.in_flight_count -= 1
        return 0

    cdef void _write_ring(self, Op* batch, uint32_t count) noexcept nogil:
        # Queue order makes one buffer enough: this write lands after the batches sent before, ahead of the next.
        cdef uint32_t i
        for i in range(count):
            if batch[i].kind == OP_DISPATCH:
                memcpy(self.ring_bytes + i * self.ring_stride, batch[i].params, batch[i].params_size)
        if count:
            self.link.api.write_buffer(self.link.queue, self.ring, 0, self.ring_bytes, count * self.ring_stride)

    cdef Handle _encode(self, Op* batch, uint32_t count) noexcept nogil:
        cdef Api* api = &self.link.api
        cdef Handle encoder = api.create_encoder(self.link.device, NULL)
        cdef Handle compute = NULL, last = NULL, commands
        cdef uint32_t i, slot
        cdef Op* op
        if encoder == NULL:
            return NULL
        for i in range(count):
            op = &batch[i]
            if op.kind == OP_DISPATCH:
                if compute == NULL:
                    compute = api.begin_pass(encoder, NULL)
                    last = NULL
                if op.first != last:
                    api.set_pipeline(compute, op.first)
                    last = op.first
                api.set_bind_group(compute, 0, op.second, 0, NULL)
                if op.params_size and self.ring != NULL:
                    slot = i * self.ring_stride
                    api.set_bind_group(compute, 1, self.ring_group, 1, &slot)
                elif op.params_size:
                    api.set_immediates(compute, 0, op.params, op.params_size)
                api.dispatch(compute, op.x, op.y, op.z)
                continue
            if compute != NULL:
                api.end_pass(compute)
                api.pass_release(compute)
                compute = NULL
            if op.kind == OP_COPY:
                api.copy_buffer(encoder, op.first, op.first_offset, op.second, op.second_offset, op.size)
            else:
                api.clear_buffer(encoder, op.second, op.second_offset, op.size)
        if compute != NULL:
            api.end_pass(compute)
            api.pass_release(compute)
        commands = api.finish(encoder, NULL)
        api.encoder_release(encoder)
        return commands

    def synchronize(self):
        """Send everything recorded and wait until the device has done it."""
        cdef uint64_t index
        with self.lock:
            self.flush()
            if self.in_flight_count == 0:
                return
            index = self.in_flight[(self.in_flight_first + self.in_flight_count - 1) % MAX_IN_FLIGHT]
            with nogil:
                self.link.api.poll(self.link.device, 1, &index)
            self.in_flight_count = 0

    def drain(self):
        """Wait for what was sent, at exit; what is only recorded is not sent."""
        if self.link.lost[0] == 0 and self.link.dead_reason is None and self.lock.acquire(timeout=5):
            self.link.api.poll(self.link.device, 1, NULL)
            self.in_flight_count = 0
            self.lock.release()

    def link_check(self):
        """Raises: DeviceError where the device cannot be used any more."""
        self.link.check()

    def abandon(self, reason):
        """Drop what is recorded and refuse all further work with `reason`; at exit and after fork."""
        self.link.dead_reason = reason
        self.count = 0

    @property
    def recorded(self):
        """Operations in the open batch."""
        return self.count


cdef uint64_t _copy_size(str op, Buffer buffer, long long offset, long long nbytes, bint padded=False) except? 0xFFFFFFFFFFFFFFFF:
    # The multiple of 4 to copy. An odd size is padded only where no element of the buffer follows.
    cdef uint64_t size = <uint64_t>(nbytes + 3) & ~<uint64_t>3
    cdef uint64_t room = buffer.capacity if padded else buffer.nbytes
    if offset < 0 or nbytes < 0 or <uint64_t>(offset + nbytes) > room:
        raise ArgumentError(f"{op}: {nbytes} bytes at byte {offset} lie outside a buffer of {buffer.nbytes} bytes")
    if offset % 4 or (size != <uint64_t>nbytes and <uint64_t>(offset + nbytes) != buffer.nbytes):
        raise ArgumentError(f"{op}: offset and size must be multiples of 4 bytes unless the range ends the buffer, "
                            f"got {nbytes} bytes at byte {offset} of {buffer.nbytes}")
    return size


def _bytes(count):
    """A byte count for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


include "gpu_transfer.pxi"
