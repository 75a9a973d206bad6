# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The GPU's hot path: blocks, bind groups, the recorded stream and transfers, through wgpu-native's C functions.

Layout: native.pxi (C functions), pool.pxi (blocks and Buffer), groups.pxi (bind group cache), then one class on
the other: Queue (queue.pxi: the open batch and submission), Memory (memory.pxi: alloc), Recorder (here: launch,
copy, clear), Stream (transfer.pxi: upload, download). Knows buffers and pipelines; must not know tensors or shaders.

wgpu-native aborts the process on an error inside submit or poll, so whatever could be wrong is checked before it is
recorded, and an error while a batch is encoded drops the batch.

Threads: tables and the open batch are guarded by the GIL (no function lets it go while they are half changed); what is
sent to the queue goes through one lock, in order. Encoding, waiting and large copies run without the GIL.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject*)

import threading

from volta.errors import ArgumentError, BindingLimitError, DeviceError, OutOfMemoryError, TransferError

include "native.pxi"
include "pool.pxi"
include "groups.pxi"
include "queue.pxi"
include "memory.pxi"


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


cdef class Recorder(Memory):
    """Launches, copies and clears, checked and recorded."""

    cdef readonly object token            # identity of this device's pipelines

    def __cinit__(self, *args, **kwargs):
        self.token = object()

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
            while self.count >= MAX_OPS:        # other threads may fill the new batch before this one goes on
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
                raise BindingLimitError(f"{pipeline.label}: buffer {k} has {buffer.nbytes} bytes, at most {self.max_binding} can "
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


include "transfer.pxi"
