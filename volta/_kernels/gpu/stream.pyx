# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The GPU's hot path: what is launched, copied and moved, checked and recorded, in order.

A Stream is composed of a device link (native), blocks (pool), bind groups (groups), the open batch (batch) and transfers;
when memory runs out it waits for the batch, gives free blocks and their groups back, and tries again.
Knows buffers and pipelines; must not know tensors or shaders.

wgpu-native aborts the process on an error inside submit or poll, so whatever could be wrong is checked before it is recorded.

Threads: tables and the open batch are guarded by the GIL (no function lets it go while they are half changed); what is
sent to the queue goes through one lock, in order. Encoding, waiting and large copies run without the GIL.
"""
cimport cython
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from volta._kernels.gpu.batch cimport MAX_OPS, MAX_PARAMS, MAX_WRITTEN, OP_CLEAR, OP_COPY, OP_DISPATCH, Batch, Op
from volta._kernels.gpu.groups cimport MAX_BINDINGS, MAX_WORDS, NO_SLOT, Group, GroupCache
from volta._kernels.gpu.native cimport DeviceLink, Handle
from volta._kernels.gpu.pool cimport Buffer, Pool, copy_size
from volta._kernels.gpu.transfer cimport Transfers

from volta.errors import ArgumentError, BindingLimitError, DeviceError


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
    cdef object owners                 # native objects that must outlive it

    def __init__(self, object owner, str label, size_t handle, size_t group_layout, int layout_id, tuple access,
                 tuple min_sizes, int params_size, str params_format, object owners):
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
        self.owners = owners

    def __repr__(self):
        return f"Pipeline({self.label}, buffers={self.access}, params={self.params_size} bytes)"


cdef class Stream:
    """Everything that a device does for Volta; `volta.gpu.runtime.Context` adds pipelines."""

    cdef readonly object token            # identity of this device's pipelines
    cdef readonly DeviceLink link
    cdef readonly Pool pool
    cdef readonly GroupCache groups
    cdef readonly Batch batch
    cdef readonly Transfers transfers
    cdef uint64_t max_groups, max_binding, offset_alignment

    def __cinit__(self, *args, **kwargs):
        self.token = object()

    def start(self, DeviceLink link not None, dict limits not None, uint32_t group_capacity=8192):
        """Begin on an attached device; `limits` by WebGPU's names with dashes."""
        self.link = link
        self.pool = Pool(link, <uint64_t>limits["max-buffer-size"] & ~<uint64_t>15, self.empty_cache)
        self.groups = GroupCache(link, group_capacity)
        self.batch = Batch(link)
        self.transfers = Transfers(link, self.pool, self.batch)
        self.max_groups = limits["max-compute-workgroups-per-dimension"]
        self.max_binding = <uint64_t>limits["max-storage-buffer-binding-size"] & ~<uint64_t>15
        self.offset_alignment = limits["min-storage-buffer-offset-alignment"]

    # ------------------------------------------------------------------------------------------------ recording

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
        cdef Batch batch = self.batch
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
            touched = self.bind(pipeline, i, <object>PyTuple_GET_ITEM(buffers, i), &words[1 + 3 * i])
            if pipeline.written >> i & 1:
                written += touched
        while True:
            while batch.count >= MAX_OPS:       # other threads may fill the new batch before this one goes on
                batch.flush()
            group = self.groups.find(words, 1 + 3 * count)
            if group != NULL:
                break
            self.make_group(pipeline, words, count)
        # From here to the count no Python runs, so that other threads see a whole operation or none.
        op = &batch.ops[batch.count]
        op.kind = OP_DISPATCH
        op.first = pipeline.handle
        op.second = group.handle
        op.x = <uint32_t>x
        op.y = <uint32_t>y
        op.z = <uint32_t>z
        op.params_size = pipeline.params_size
        memcpy(op.params, <const char*>params, pipeline.params_size)
        group.last_use = batch.serial
        for i in range(count):
            self.pool.blocks[words[1 + 3 * i]].last_use = batch.serial
        batch.count += 1
        batch.dispatches += 1
        batch.written += written
        if batch.count >= batch.limit or batch.written >= MAX_WRITTEN:
            batch.flush()

    @cython.final
    cdef inline uint64_t bind(self, Pipeline pipeline, Py_ssize_t k, object item, uint64_t* word) except? 0xFFFFFFFFFFFFFFFF:
        # Three key words of binding k; gives the bytes that it covers.
        cdef Buffer buffer
        if type(item) is not Buffer:
            return self.bind_window(pipeline, k, item, word)
        buffer = <Buffer>item
        if buffer.pool is not self.pool:
            self._refuse_buffer(pipeline.label, buffer)
        word[0] = buffer.block
        word[1] = 0
        word[2] = buffer.capacity
        if buffer.capacity > self.max_binding:
            if buffer.nbytes > self.max_binding:
                raise BindingLimitError(f"{pipeline.label}: buffer {k} has {buffer.nbytes} bytes, at most {self.max_binding} can "
                                  f"be bound at once on this device; launch on (buffer, offset, size) windows")
            word[2] = self.max_binding
        if word[2] < pipeline.min_sizes[k]:
            self._refuse_size(pipeline, k, word[2])
        return buffer.nbytes

    @cython.final
    cdef uint64_t bind_window(self, Pipeline pipeline, Py_ssize_t k, object item, uint64_t* word) except? 0xFFFFFFFFFFFFFFFF:
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
            raise BindingLimitError(f"{pipeline.label}: window of buffer {k} has {size} bytes, at most {self.max_binding} can be "
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
        # x beyond the limit continues in y; the prelude's group_of gives the running number back.
        top = self.max_groups
        if y == 0 or z == 0:
            return 0, 0
        rows = -(-x // top)
        if y > top or z > top or (rows > 1 and y != 1) or rows > top:
            raise DeviceError(f"{pipeline.label}: grid {(x, y, z)} is too large, y and z may be up to {top}, and x "
                              f"beyond that needs y = 1")
        return (-(-x // rows), rows) if rows > 1 else (x, y)

    @cython.final
    cdef int make_group(self, Pipeline pipeline, const uint64_t* words, Py_ssize_t count) except -1:
        # Create and cache the bind group of this key.
        cdef Py_ssize_t i, j
        self.link.check()
        for i in range(count):
            for j in range(i):
                if words[1 + 3 * i] == words[1 + 3 * j] and (pipeline.written >> i & 1) != (pipeline.written >> j & 1):
                    raise DeviceError(f"{pipeline.label}: buffers {j} and {i} are the same memory, one read and one written; "
                                      "use a kernel that binds it once as read_write")
        while self.groups.spare == NO_SLOT:
            if not self.groups.drop_done(self.batch.submitted):
                self.batch.flush()
        self.groups.make(pipeline.label, pipeline.group_layout, words, count, self.pool.blocks)
        return 0

    def copy(self, Buffer source not None, long long source_offset, Buffer target not None, long long target_offset,
             long long nbytes):
        """Record a copy of `nbytes`; offsets and size are multiples of 4 (a size may end odd at the target's end)."""
        cdef Buffer middle
        cdef uint64_t size = copy_size("copy", target, target_offset, nbytes, False)
        copy_size("copy", source, source_offset, size, True)
        if source.pool is not self.pool or target.pool is not self.pool:
            self._refuse_buffer("copy", target if source.pool is self.pool else source)
        if nbytes == 0:
            return
        if source.block == target.block:       # WebGPU copies between different buffers only
            middle = self.pool.alloc(size)
            self.record_copy(source, source_offset, middle, 0, size)
            self.record_copy(middle, 0, target, target_offset, size)
        else:
            self.record_copy(source, source_offset, target, target_offset, size)

    @cython.final
    cdef int record_copy(self, Buffer source, uint64_t source_offset, Buffer target, uint64_t target_offset, uint64_t size) except -1:
        self.batch.record(OP_COPY, self.pool.blocks[source.block].handle, source_offset,
                     self.pool.blocks[target.block].handle, target_offset, size)
        self.pool.blocks[source.block].last_use = self.batch.serial
        self.pool.blocks[target.block].last_use = self.batch.serial
        return 0

    def clear(self, Buffer buffer not None, long long offset=0, nbytes=None):
        """Record zeros over `nbytes` (default: to the end)."""
        cdef long long wanted = buffer.nbytes - offset if nbytes is None else nbytes
        cdef uint64_t size = copy_size("clear", buffer, offset, wanted, False)
        if buffer.pool is not self.pool:
            self._refuse_buffer("clear", buffer)
        if size:
            self.batch.record(OP_CLEAR, NULL, 0, self.pool.blocks[buffer.block].handle, offset, size)
            self.pool.blocks[buffer.block].last_use = self.batch.serial

    cpdef flush(self):
        """Send everything recorded so far to the device; does not wait.

        Raises: DeviceError where the device is lost or refuses the batch, which is then dropped.
        """
        self.batch.flush()

    def synchronize(self):
        """Send everything recorded and wait until the device has done it."""
        self.batch.synchronize()

    # --------------------------------------------------------------------------------------------------- memory

    def alloc(self, nbytes):
        """A buffer of `nbytes` (0 is allowed), contents undefined.

        Raises: OutOfMemoryError where the device, the limit or the largest possible buffer does not allow it.
        """
        return self.pool.alloc(nbytes)

    def set_memory_limit(self, nbytes):
        """Allow at most this many bytes of blocks, live and pooled; None lifts the limit."""
        self.pool.set_limit(nbytes)
        if self.pool.limit and self.pool.held > self.pool.limit:
            self.empty_cache()

    def empty_cache(self):
        """Give the pool's free blocks back to the device."""
        with self.batch.lock:
            self.batch.synchronize()
            # No Python code runs between these two: a block id must not be taken anew while a group still names it.
            self.pool.free_blocks(self.batch.submitted)
            self.groups.drop_dead(self.pool.blocks)
            with nogil:
                self.link.api.poll(self.link.device, 0, NULL)

    @property
    def memory(self):
        """(live, pooled, peak, held by the device) in bytes."""
        return self.pool.live, self.pool.held - self.pool.live, self.pool.peak, self.pool.held

    # ------------------------------------------------------------------------------------------------ transfers

    def upload(self, Buffer buffer not None, data, long long offset=0, str elements=None):
        """Write host data at byte `offset`, after everything recorded so far; gives (least, largest) of integers, else None.

        `data` is any C-contiguous buffer, or an iterator of such (np.nditer), which must fill the buffer. `elements` is their type
        on the host ("bool", "uint8", "int32", "int64"; others pass as they are), from which they are converted on the way.
        Offset and size are multiples of 4 bytes, but the size may end odd at the buffer's end.
        Raises: TransferError inside `forbid_transfers()`; ArgumentError, with nothing recorded, where an int64 exceeds 32 bits.
        """
        if buffer.pool is not self.pool:
            self._refuse_buffer("upload", buffer)
        return self.transfers.upload(buffer, data, offset, elements)

    def download(self, Buffer buffer not None, array, long long offset=0, str elements=None):
        """Fill a C-contiguous writable host array from byte `offset`, after everything recorded so far; `elements` as in upload.

        Raises: TransferError inside `forbid_transfers()`.
        """
        if buffer.pool is not self.pool:
            self._refuse_buffer("download", buffer)
        self.transfers.download(buffer, array, offset, elements)
        return array
