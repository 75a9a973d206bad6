# Queue: the open batch, and how it reaches the device.

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



cdef class Queue:
    """Recorded operations of one device, sent in order."""

    cdef readonly DeviceLink link
    cdef object lock
    cdef Op* ops                          # the open batch
    cdef Op* spare_ops
    cdef uint32_t count
    cdef uint64_t serial, submitted       # of the open batch; of the last batch sent or dropped
    cdef uint64_t written, unsent         # bytes; see MAX_WRITTEN, MAX_UNSENT
    cdef uint64_t[MAX_IN_FLIGHT] in_flight
    cdef uint32_t in_flight_first, in_flight_count
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
        self.lock = threading.RLock()
        self.serial = 1

    def __dealloc__(self):
        free(self.ops)
        free(self.spare_ops)
        free(self.ring_bytes)

    def use_ring(self, size_t ring, size_t group, uint32_t stride, object keep):
        """Pass parameters in a uniform buffer of 256 slots of `stride` bytes instead of immediates."""
        self.ring_bytes = <char*>calloc(MAX_OPS, stride)
        if self.ring_bytes == NULL:
            raise MemoryError()
        self.ring = <Handle>ring
        self.ring_group = <Handle>group
        self.ring_stride = stride
        self.ring_keep = keep

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
