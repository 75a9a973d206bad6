# Stream: a Recorder that also moves data between host and device.
#
# A small upload is a queue write, which lands at the start of the next submission; so what is recorded is sent first if
# it uses the buffer. A large one goes through mapped staging memory, copied inside the stream and sent at once.
# A download is copied inside the stream to mapped staging memory and waited for on this thread.

# Bytes from which an upload uses staging memory; below, a queue write costs less than the submission.
cdef uint64_t STAGED_UPLOAD = 1 << 20

# Bytes of one staged upload; larger ones go in pieces, so that copying to one piece overlaps with sending the other.
cdef uint64_t UPLOAD_PIECE = 32 << 20

# Bytes of idle staging memory that are kept, in each direction.
cdef uint64_t STAGING_KEPT = 256 << 20

_forbidden = threading.local()


@cython.final
@cython.no_gc
cdef class Staging:
    """Host-visible buffer for transfers in one direction."""

    cdef Handle handle
    cdef uint64_t size
    cdef int* status            # 0 while a map is pending; MAP_SUCCESS once mapped
    cdef bint pending

    def __dealloc__(self):
        # A callback that is still to come writes to `status`: then it is left to it.
        if not self.pending:
            free(self.status)


cdef class Stream(Recorder):
    """Everything that a device does for Volta; `volta.gpu.runtime.Context` adds pipelines."""

    cdef list read_staging, write_staging
    cdef readonly uint64_t uploads, downloads, upload_bytes, download_bytes

    def __cinit__(self, *args, **kwargs):
        self.read_staging = []
        self.write_staging = []

    def upload(self, Buffer buffer not None, data, long long offset=0):
        """Write host bytes (any C-contiguous buffer) at byte `offset`, after everything recorded so far.

        Offset and size are multiples of 4 bytes, but the size may end odd at the buffer's end.
        Raises: TransferError inside `forbid_transfers()`.
        """
        cdef Py_buffer view
        if buffer.pool is not self.pool:
            self._refuse_buffer("upload", buffer)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            _check_transfer("upload", view.len)
            size = _copy_size("upload", buffer, offset, view.len)
            self.link.check()
            if view.len == 0:
                return
            if <uint64_t>view.len >= STAGED_UPLOAD:
                self._upload_staged(buffer, <const char*>view.buf, view.len, offset)
            else:
                self._upload_written(buffer, <const char*>view.buf, view.len, offset)
            self.uploads += 1
            self.upload_bytes += view.len
        finally:
            PyBuffer_Release(&view)

    cdef int _upload_written(self, Buffer buffer, const char* data, uint64_t nbytes, uint64_t offset) except -1:
        cdef uint64_t size = (nbytes + 3) & ~<uint64_t>3
        cdef char* padded = NULL
        cdef Handle handle = self.pool.blocks[buffer.block].handle
        if size != nbytes:
            padded = <char*>calloc(1, size)
            if padded == NULL:
                raise MemoryError()
            memcpy(padded, data, nbytes)
            data = padded
        try:
            with self.lock:
                if self.pool.blocks[buffer.block].last_use > self.submitted or self.unsent >= MAX_UNSENT:
                    self.flush()
                self.link._capture("volta")
                with nogil:
                    self.link.api.write_buffer(self.link.queue, handle, offset, data, size)
                error = self.link._release("volta")
                self.unsent += size
        finally:
            free(padded)
        if error is not None:
            raise DeviceError(f"upload: {nbytes} bytes at byte {offset} refused: {error[1]}")
        return 0

    cdef int _upload_staged(self, Buffer buffer, const char* data, uint64_t nbytes, uint64_t offset) except -1:
        cdef uint64_t done = 0, piece
        cdef Staging staging
        cdef void* target
        with self.lock:
            while done < nbytes:
                piece = min(nbytes - done, UPLOAD_PIECE)
                staging = self._take_staging(self.write_staging, piece, USAGE_MAP_WRITE | USAGE_COPY_SRC)
                if staging.status[0] != MAP_SUCCESS:
                    self._map(staging, MAP_MODE_WRITE, NULL)
                staging.pending = False
                target = self.link.api.mapped_range(staging.handle, 0, staging.size)
                if target == NULL:
                    raise DeviceError(f"upload: the device gave no memory for {piece} bytes")
                with nogil:
                    memcpy(target, data + done, piece)
                    self.link.api.unmap(staging.handle)
                staging.status[0] = 0
                self._record(OP_COPY, staging.handle, 0, self.pool.blocks[buffer.block].handle, offset + done, (piece + 3) & ~<uint64_t>3)
                self.pool.blocks[buffer.block].last_use = self.serial
                self.flush()        # a staging buffer must be out of the open batch before it is mapped again
                self._start_map(staging, MAP_MODE_WRITE)
                self._keep_staging(self.write_staging, staging)
                done += piece
        return 0

    def download(self, Buffer buffer not None, array, long long offset=0):
        """Fill a C-contiguous writable host array from byte `offset`, after everything recorded so far.

        Raises: TransferError inside `forbid_transfers()`.
        """
        cdef Py_buffer view
        if buffer.pool is not self.pool:
            self._refuse_buffer("download", buffer)
        PyObject_GetBuffer(array, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            _check_transfer("download", view.len)
            if offset < 0 or <uint64_t>(offset + view.len) > buffer.nbytes:
                raise ArgumentError(f"download: {view.len} bytes at byte {offset} lie outside a buffer of {buffer.nbytes} bytes")
            self.link.check()
            if view.len:
                self._download(buffer, <char*>view.buf, view.len, offset)
            self.downloads += 1
            self.download_bytes += view.len
        finally:
            PyBuffer_Release(&view)
        return array

    cdef int _download(self, Buffer buffer, char* target, uint64_t nbytes, uint64_t offset) except -1:
        cdef uint64_t start = offset & ~<uint64_t>3
        cdef uint64_t size = ((offset + nbytes + 3) & ~<uint64_t>3) - start
        cdef uint64_t index
        cdef Staging staging
        cdef const char* source
        with self.lock:
            staging = self._take_staging(self.read_staging, size, USAGE_MAP_READ | USAGE_COPY_DST)
            self._record(OP_COPY, self.pool.blocks[buffer.block].handle, start, staging.handle, 0, size)
            self.pool.blocks[buffer.block].last_use = self.serial
            self.flush()
            index = self.in_flight[(self.in_flight_first + self.in_flight_count - 1) % MAX_IN_FLIGHT]
            self._map(staging, MAP_MODE_READ, &index)
            self.in_flight_count = 0
            source = <const char*>self.link.api.const_mapped_range(staging.handle, 0, size)
            if source == NULL:
                raise DeviceError(f"download: the device gave no memory for {nbytes} bytes")
            with nogil:
                memcpy(target, source + (offset - start), nbytes)
                self.link.api.unmap(staging.handle)
            staging.status[0] = 0
            self._keep_staging(self.read_staging, staging)
        return 0

    # -------------------------------------------------------------------------------------------- staging memory

    cdef Staging _take_staging(self, list idle, uint64_t size, uint64_t usage):
        # The first idle buffer of this size class, else a new one. Those for writing are made mapped.
        cdef Staging staging
        cdef Py_ssize_t i
        cdef uint64_t wanted = min(_class_bytes(_size_class(size)), self.max_buffer)
        for i in range(len(idle)):
            staging = <Staging>idle[i]
            if staging.size == wanted:
                # For writing, alternate between two, so that the copy into one overlaps with the sending of the other.
                if usage & USAGE_MAP_WRITE and staging.status[0] != MAP_SUCCESS and self._count_staging(idle, wanted) < 2:
                    break
                return idle.pop(i)
        staging = Staging.__new__(Staging)
        staging.status = <int*>calloc(1, sizeof(int))
        if staging.status == NULL:
            raise MemoryError()
        staging.size = wanted
        staging.handle = self._new_buffer(wanted, usage, usage & USAGE_MAP_WRITE)
        if staging.handle == NULL:
            self.empty_cache()
            staging.handle = self._new_buffer(wanted, usage, usage & USAGE_MAP_WRITE)
        if staging.handle == NULL:
            raise OutOfMemoryError(f"transfer: no staging memory of {_bytes(wanted)}")
        if usage & USAGE_MAP_WRITE:
            staging.status[0] = MAP_SUCCESS
        self.pool.created += 1
        return staging

    cdef Py_ssize_t _count_staging(self, list idle, uint64_t size) except -1:
        cdef Py_ssize_t count = 0
        for staging in idle:
            count += (<Staging>staging).size == size
        return count

    cdef int _keep_staging(self, list idle, Staging staging) except -1:
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

    cdef int _start_map(self, Staging staging, uint64_t mode) except -1:
        cdef MapCallbackInfo info
        info.next = NULL
        info.mode = CALLBACK_SPONTANEOUS
        info.callback = _map_done
        info.userdata1 = staging.status
        info.userdata2 = NULL
        staging.status[0] = 0
        staging.pending = True
        self.link._capture("volta")
        self.link.api.map_async(staging.handle, mode, 0, staging.size, info)
        error = self.link._release("volta")
        if error is not None:
            raise DeviceError(f"transfer: staging memory cannot be mapped: {error[1]}")
        return 0

    cdef int _map(self, Staging staging, uint64_t mode, const uint64_t* index) except -1:
        # Wait until the staging buffer is mapped; one waiting poll is enough unless the driver reports late.
        cdef int tries
        if not staging.pending:
            self._start_map(staging, mode)
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


cdef int _check_transfer(str what, Py_ssize_t nbytes) except -1:
    if getattr(_forbidden, "depth", 0):
        raise TransferError(f"{what} of {nbytes} bytes inside forbid_transfers(); keep the data on the GPU, or move the "
                            f"{what} out of the block")
    return 0


def forbid(int change):
    """Add to this thread's count of open `forbid_transfers()` blocks."""
    _forbidden.depth = getattr(_forbidden, "depth", 0) + change
