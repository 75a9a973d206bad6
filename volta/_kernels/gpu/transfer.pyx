# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Transfers: elements pass between host and device in one pass, converted on the way.

A small upload is a queue write, which lands at the start of the next submission; so what is recorded is sent first if
it uses the buffer. A large one is converted into mapped staging memory, copied from there inside the stream and sent at once.
A download is copied inside the stream to mapped staging memory, waited for on this thread, and converted from there.

Threads: transfers are recorded and sent under the batch's lock; conversions, copies and waiting run without the GIL, and staging
memory of an upload is filled without the lock. Knows buffers and the batch; must not know tensors.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from volta._kernels.gpu.batch cimport OP_COPY
from volta._kernels.gpu.elements cimport BOOL, BYTE, CHAR, INT32, INT64, RAW, SHORT, device_size, fill, host_size, read_back
from volta._kernels.gpu.native cimport (
    CALLBACK_SPONTANEOUS, MAP_MODE_READ, MAP_MODE_WRITE, MAP_SUCCESS, USAGE_COPY_DST, USAGE_COPY_SRC, USAGE_MAP_READ, USAGE_MAP_WRITE,
    MapCallbackInfo, StringView,
)
from volta._kernels.gpu.pool cimport class_bytes, copy_size, size_class_of

import threading

from volta.errors import ArgumentError, DeviceError, TransferError

# Bytes from which an upload uses staging memory; below, a queue write costs less than the submission.
cdef uint64_t STAGED_UPLOAD = 1 << 20

# Bytes of one staged upload; larger ones go in pieces, so that filling one piece overlaps with sending the other.
cdef uint64_t UPLOAD_PIECE = 32 << 20

# Bytes of idle staging memory that are kept, in each direction.
cdef uint64_t STAGING_KEPT = 256 << 20

# Bytes of queue writes at which they are sent: wgpu holds a copy of them until then.
cdef uint64_t MAX_UNSENT = 64 << 20

FORMS = {None: RAW, "bool": BOOL, "uint8": BYTE, "int32": INT32, "int64": INT64, "int8": CHAR, "int16": SHORT, "float16": RAW,
         "float32": RAW}

_forbidden = threading.local()


def forbid(int change):
    """Add to this thread's count of open `forbid_transfers()` blocks."""
    _forbidden.depth = getattr(_forbidden, "depth", 0) + change


cdef int _check_allowed(str what, uint64_t nbytes) except -1:
    if getattr(_forbidden, "depth", 0):
        raise TransferError(f"{what} of {nbytes} bytes inside forbid_transfers(); keep the data on the GPU, or move the "
                            f"{what} out of the block")
    return 0


cdef int _check_count(uint64_t room, uint64_t n) except -1:
    # The chunks of an upload have as many elements as there is room for: no more, and at the end (n = 0) no fewer.
    if n > room or (n == 0 and room != 0):
        raise ArgumentError(f"upload: the data have {'more' if n else 'fewer'} elements than the buffer")
    return 0


cdef int _refuse_beyond(const int64_t* source, uint64_t n) except -1:
    cdef int64_t low = source[0], high = source[0]
    cdef uint64_t i
    for i in range(n):
        low = min(low, source[i])
        high = max(high, source[i])
    raise ArgumentError(f"int64 on the GPU holds 32 bits, got {low if low < -(1 << 31) else high}; keep such values on the CPU")


cdef int _scan(chunks) except -1:
    # Refuse 64-bit integers beyond 32 bits before the first piece of a large upload is sent.
    cdef Py_buffer view
    cdef uint64_t beyond = 0
    cdef Py_ssize_t i
    for chunk in chunks:
        PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                for i in range(view.len // 8):
                    beyond |= <uint64_t>(<const int64_t*>view.buf)[i] + <uint64_t>0x80000000
            if beyond >> 32:
                _refuse_beyond(<const int64_t*>view.buf, view.len // 8)
        finally:
            PyBuffer_Release(&view)
    return 0


cdef void _map_done(int status, StringView message, void* userdata1, void* userdata2) noexcept nogil:
    # Runs inside wgpuDevicePoll, on whichever thread polls; no Python here.
    (<int*>userdata1)[0] = status


@cython.final
@cython.no_gc
cdef class Staging:
    """Host-visible buffer for transfers in one direction."""

    def __dealloc__(self):
        # A callback that is still to come writes to `status`: then it is left to it.
        if not self.pending:
            free(self.status)


@cython.final
cdef class Transfers:
    """Data between the host and one device."""

    def __cinit__(self, DeviceLink link not None, Pool pool not None, Batch batch not None):
        self.link = link
        self.pool = pool
        self.batch = batch
        self.max_buffer = pool.max_buffer
        self.read_staging = []
        self.write_staging = []

    def __dealloc__(self):
        free(self.scratch)

    cdef object upload(self, Buffer buffer, data, long long offset, str elements):
        # See Stream.upload.
        cdef Sink sink
        cdef Py_buffer view
        cdef uint64_t nbytes
        cdef bint direct = PyObject_CheckBuffer(data)
        sink.form = FORMS[elements]
        sink.target = NULL
        sink.room = sink.beyond = 0
        sink.low, sink.high = 0x7FFFFFFF, <int32_t>-0x80000000
        if direct:
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            nbytes = <uint64_t>view.len // host_size(sink.form) * device_size(sink.form)
            PyBuffer_Release(&view)
        else:
            nbytes = buffer.nbytes - offset if offset < <long long>buffer.nbytes else 0
        _check_allowed("upload", nbytes)
        copy_size("upload", buffer, offset, nbytes, False)
        self.link.check()
        if nbytes == 0:
            return None
        chunks = (data,) if direct else data
        if nbytes < STAGED_UPLOAD:
            self.write_small(buffer, chunks, direct, &sink, nbytes, offset)
        else:
            if sink.form == INT64 and nbytes > UPLOAD_PIECE:
                _scan(chunks)
                if not direct:
                    data.reset()
            self.write_staged(buffer, chunks, &sink, nbytes, offset)
        self.uploads += 1
        self.upload_bytes += nbytes
        return (sink.low, sink.high) if sink.form == INT32 or sink.form == INT64 else None

    cdef int write_small(self, Buffer buffer, chunks, bint direct, Sink* sink, uint64_t nbytes, uint64_t offset) except -1:
        cdef uint64_t size = (nbytes + 3) & ~<uint64_t>3
        cdef Py_buffer view
        with self.batch.lock:
            if direct and size == nbytes and sink.form == RAW:
                PyObject_GetBuffer(chunks[0], &view, PyBUF_SIMPLE)
                try:
                    self.write_now(buffer, view.buf, size, offset)
                finally:
                    PyBuffer_Release(&view)
                return 0
            if self.scratch == NULL:
                self.scratch = <char*>malloc(STAGED_UPLOAD)
                if self.scratch == NULL:
                    raise MemoryError()
            memset(self.scratch + size - 4, 0, 4)       # the padding
            sink.target = self.scratch
            sink.room = nbytes // device_size(sink.form)
            for chunk in chunks:
                self.pour_all(sink, chunk)
            _check_count(sink.room, 0)
            self.write_now(buffer, self.scratch, size, offset)
        return 0

    cdef int write_now(self, Buffer buffer, const void* data, uint64_t size, uint64_t offset) except -1:
        # Queue writes land ahead of what is recorded, so that goes first if it uses the buffer.
        if self.pool.blocks[buffer.block].last_use > self.batch.submitted or self.batch.unsent >= MAX_UNSENT:
            self.batch.flush()
        self.batch.write(self.pool.blocks[buffer.block].handle, offset, data, size)
        return 0

    cdef int pour_all(self, Sink* sink, chunk) except -1:
        cdef Py_buffer view
        cdef uint64_t n
        PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
        try:
            n = view.len // host_size(sink.form)
            _check_count(sink.room, n)
            with nogil:
                fill(sink, <const char*>view.buf, n)
            if sink.beyond >> 32:
                _refuse_beyond(<const int64_t*>view.buf, n)
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int write_staged(self, Buffer buffer, chunks, Sink* sink, uint64_t nbytes, uint64_t offset) except -1:
        # Piece by piece: each is filled from as many chunks as it takes and sent before the next one is begun.
        cdef uint64_t sent = 0, piece = 0, left, n
        cdef const char* source
        cdef Py_buffer view
        cdef Staging staging = None, full
        # Only taking and sending hold the lock: another thread may record, send and wait while this one fills.
        try:
            for chunk in chunks:
                PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
                try:
                    source = <const char*>view.buf
                    left = view.len // host_size(sink.form)
                    while left:
                        if sink.room == 0:
                            piece = min(nbytes - sent, UPLOAD_PIECE)
                            _check_count(piece, 1)
                            with self.batch.lock:
                                staging = self.take_staging(self.write_staging, piece, USAGE_MAP_WRITE | USAGE_COPY_SRC)
                            sink.target = staging.data
                            sink.room = piece // device_size(sink.form)
                        n = min(left, sink.room)
                        with nogil:
                            fill(sink, source, n)
                        if sink.beyond >> 32:
                            _refuse_beyond(<const int64_t*>source, n)
                        source += n * host_size(sink.form)
                        left -= n
                        if sink.room == 0:
                            full, staging = staging, None       # not kept where sending fails
                            with self.batch.lock:
                                self.send_piece(full, piece, buffer, offset + sent)
                            sent += piece
                finally:
                    PyBuffer_Release(&view)
        finally:
            if staging is not None:
                with self.batch.lock:
                    self.keep_staging(self.write_staging, staging)
        _check_count(nbytes - sent, 0)
        return 0

    cdef int send_piece(self, Staging staging, uint64_t nbytes, Buffer buffer, uint64_t offset) except -1:
        self.link.api.unmap(staging.handle)
        staging.data = NULL
        staging.status[0] = 0
        self.batch.record(OP_COPY, staging.handle, 0, self.pool.blocks[buffer.block].handle, offset, (nbytes + 3) & ~<uint64_t>3)
        self.pool.blocks[buffer.block].last_use = self.batch.serial
        self.batch.flush()        # a staging buffer must be out of the open batch before it is mapped again
        self.start_map(staging, MAP_MODE_WRITE)
        self.keep_staging(self.write_staging, staging)
        return 0

    cdef int download(self, Buffer buffer, array, long long offset, str elements) except -1:
        # See Stream.download.
        cdef Py_buffer view
        cdef Form form = FORMS[elements]
        cdef uint64_t nbytes
        PyObject_GetBuffer(array, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            nbytes = <uint64_t>view.len // host_size(form) * device_size(form)
            _check_allowed("download", nbytes)
            if offset < 0 or offset + nbytes > buffer.nbytes:
                raise ArgumentError(f"download: {nbytes} bytes at byte {offset} lie outside a buffer of {buffer.nbytes} bytes")
            self.link.check()
            if nbytes:
                self.read(buffer, <char*>view.buf, form, nbytes, offset)
            self.downloads += 1
            self.download_bytes += nbytes
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int read(self, Buffer buffer, char* target, Form form, uint64_t nbytes, uint64_t offset) except -1:
        cdef uint64_t start = offset & ~<uint64_t>3
        cdef uint64_t size = ((offset + nbytes + 3) & ~<uint64_t>3) - start
        cdef uint64_t index
        cdef Staging staging
        cdef const char* source
        with self.batch.lock:
            staging = self.take_staging(self.read_staging, size, USAGE_MAP_READ | USAGE_COPY_DST)
            self.batch.record(OP_COPY, self.pool.blocks[buffer.block].handle, start, staging.handle, 0, size)
            self.pool.blocks[buffer.block].last_use = self.batch.serial
            self.batch.flush()
            index = self.batch.last_sent()
            self.wait_mapped(staging, MAP_MODE_READ, &index)
            self.batch.is_idle()
            source = <const char*>self.link.api.const_mapped_range(staging.handle, 0, size)
            if source == NULL:
                raise DeviceError(f"download: the device gave no memory for {nbytes} bytes")
            with nogil:
                read_back(target, source + (offset - start), form, nbytes)
                self.link.api.unmap(staging.handle)
            staging.status[0] = 0
            self.keep_staging(self.read_staging, staging)
        return 0

    # -------------------------------------------------------------------------------------------- staging memory

    cdef Staging take_staging(self, list idle, uint64_t size, uint64_t usage):
        # The first idle buffer of this size class, else a new one. Those for writing come mapped.
        cdef Staging staging = self.find_idle(idle, min(class_bytes(size_class_of(size)), self.max_buffer), usage)
        if usage & USAGE_MAP_WRITE and staging.data == NULL:
            if staging.status[0] != MAP_SUCCESS:
                self.wait_mapped(staging, MAP_MODE_WRITE, NULL)
            staging.pending = False
            staging.data = <char*>self.link.api.mapped_range(staging.handle, 0, staging.size)
            if staging.data == NULL:
                raise DeviceError(f"upload: the device gave no memory for {size} bytes")
        return staging

    cdef Staging find_idle(self, list idle, uint64_t size, uint64_t usage):
        cdef Staging staging
        cdef Py_ssize_t i
        for i in range(len(idle)):
            staging = <Staging>idle[i]
            if staging.size == size:
                # For writing, alternate between two, so that filling one overlaps with the sending of the other.
                if usage & USAGE_MAP_WRITE and staging.status[0] != MAP_SUCCESS and self.count_staging(idle, size) < 2:
                    break
                return idle.pop(i)
        staging = Staging.__new__(Staging)
        staging.status = <int*>calloc(1, sizeof(int))
        if staging.status == NULL:
            raise MemoryError()
        staging.size = size
        staging.handle = self.pool.staging(size, usage)
        if usage & USAGE_MAP_WRITE:
            staging.status[0] = MAP_SUCCESS
        return staging

    cdef Py_ssize_t count_staging(self, list idle, uint64_t size) except -1:
        cdef Py_ssize_t count = 0
        for staging in idle:
            count += (<Staging>staging).size == size
        return count

    cdef int keep_staging(self, list idle, Staging staging) except -1:
        # Newest last; the oldest go where too much is idle. Releasing a buffer in use is safe: wgpu keeps it.
        cdef uint64_t total = staging.size
        for other in idle:
            total += (<Staging>other).size
        idle.append(staging)
        while total > STAGING_KEPT:
            staging = idle.pop(0)
            total -= staging.size
            self.link.api.buffer_release(staging.handle)
        return 0

    cdef int start_map(self, Staging staging, uint64_t mode) except -1:
        cdef MapCallbackInfo info
        info.next = NULL
        info.mode = CALLBACK_SPONTANEOUS
        info.callback = _map_done
        info.userdata1 = staging.status
        info.userdata2 = NULL
        staging.status[0] = 0
        staging.pending = True
        self.link.capture()
        self.link.api.map_async(staging.handle, mode, 0, staging.size, info)
        error = self.link.take_error()
        if error is not None:
            raise DeviceError(f"transfer: staging memory cannot be mapped: {error[1]}")
        return 0

    cdef int wait_mapped(self, Staging staging, uint64_t mode, const uint64_t* index) except -1:
        # Wait until the staging buffer is mapped: by looks, then asleep; one waiting poll is enough unless the driver reports late.
        cdef int tries
        cdef uint32_t look
        if not staging.pending:
            self.start_map(staging, mode)
        with nogil:
            for look in range(self.batch.looks):
                if staging.status[0] != 0:
                    break
                self.link.api.poll(self.link.device, 0, NULL)
        for tries in range(4):
            if staging.status[0] == 0:
                with nogil:
                    self.link.api.poll(self.link.device, 1, index if tries == 0 else NULL)
        self.link.check()
        if staging.status[0] != 0:
            staging.pending = False
        if staging.status[0] != MAP_SUCCESS:
            raise DeviceError(f"transfer: staging memory was not mapped (status {staging.status[0]})")
        return 0
