# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The open batch: recorded operations of one device, encoded and sent in order.

wgpu-native aborts the process on an error inside submit or poll, so an error while a batch is encoded drops the batch, and
nothing is sent to a device that is lost.

Threads: the open batch is guarded by the GIL (whoever fills in an operation runs no Python until it is counted); what is sent
to the queue goes through `lock`, in order. Encoding and waiting run without the GIL. Knows native handles; must not know
blocks, bind groups or pipelines.
"""
cimport cython
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from volta._kernels.gpu.native cimport Api

import threading

from volta.errors import DeviceError

@cython.final
cdef class Batch:
    """Recorded operations of one device, sent in order."""

    def __cinit__(self, DeviceLink link not None):
        self.link = link
        self.ops = <Op*>malloc(MAX_OPS * sizeof(Op))
        if self.ops == NULL:
            raise MemoryError()
        self.lock = threading.RLock()
        self.serial = 1
        self.limit = FIRST_OPS
        self.looks = LOOKS

    def __dealloc__(self):
        free(self.ops)
        free(self.ring_bytes)

    def use_ring(self, size_t ring, size_t group, uint32_t stride, object owner):
        """Pass parameters in a uniform buffer of 256 slots of `stride` bytes instead of immediates."""
        self.ring_bytes = <char*>calloc(MAX_OPS, stride)
        if self.ring_bytes == NULL:
            raise MemoryError()
        self.ring = <Handle>ring
        self.ring_group = <Handle>group
        self.ring_stride = stride
        self.ring_owner = owner

    cdef int record(self, uint32_t kind, Handle first, uint64_t first_offset, Handle second, uint64_t second_offset,
                    uint64_t size) except -1:
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

    cdef int flush(self) except -1:
        # Send everything recorded so far to the device; does not wait. Raises DeviceError where the device is lost or refuses
        # the batch, which is then dropped.
        cdef Op* ops
        cdef Op* fresh
        cdef uint32_t count
        cdef uint64_t serial
        self.link.check()
        with self.lock:
            self.link.check()
            count = self.count
            if count == 0 and self.unsent == 0:
                return 0
            fresh = <Op*>malloc(MAX_OPS * sizeof(Op))
            if fresh == NULL:
                raise MemoryError()
            ops = self.ops
            self.ops = fresh
            serial = self.serial
            self.count = 0
            self.serial += 1
            self.written = self.unsent = 0
            self.limit = min(4 * self.limit, <uint32_t>MAX_OPS)
            try:
                self.send(ops, count)
            finally:
                self.submitted = max(self.submitted, serial)
                free(ops)
        return 0

    cdef int send(self, Op* ops, uint32_t count) except -1:
        cdef Handle commands = NULL
        cdef uint64_t index
        cdef size_t command_count = 0
        self.wait_for_room()
        self.link.capture()
        try:
            with nogil:
                if self.ring != NULL:
                    self.write_ring(ops, count)
                if count:
                    commands = self.encode(ops, count)
                    command_count = 1
        finally:
            error = self.link.take_error()
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

    cdef int wait_for_room(self) except -1:
        # Bounds what the queue holds; the oldest batch is usually long done.
        cdef uint64_t index
        while self.in_flight_count >= MAX_IN_FLIGHT:
            index = self.in_flight[self.in_flight_first]
            with nogil:
                self.link.api.poll(self.link.device, 1, &index)
            self.in_flight_first = (self.in_flight_first + 1) % MAX_IN_FLIGHT
            self.in_flight_count -= 1
        return 0

    cdef void write_ring(self, const Op* ops, uint32_t count) noexcept nogil:
        # Queue order makes one buffer enough: this write lands after the batches sent before, ahead of the next.
        cdef uint32_t i
        for i in range(count):
            if ops[i].kind == OP_DISPATCH:
                memcpy(self.ring_bytes + i * self.ring_stride, ops[i].params, ops[i].params_size)
        if count:
            self.link.api.write_buffer(self.link.queue, self.ring, 0, self.ring_bytes, count * self.ring_stride)

    cdef Handle encode(self, Op* ops, uint32_t count) noexcept nogil:
        cdef Api* api = &self.link.api
        cdef Handle encoder = api.create_encoder(self.link.device, NULL)
        cdef Handle compute = NULL, last = NULL, commands
        cdef uint32_t i, slot
        cdef Op* op
        if encoder == NULL:
            return NULL
        for i in range(count):
            op = &ops[i]
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

    cdef uint64_t last_sent(self) noexcept nogil:
        # The queue's number of the last batch in flight; there must be one.
        return self.in_flight[(self.in_flight_first + self.in_flight_count - 1) % MAX_IN_FLIGHT]

    cdef int write(self, Handle buffer, uint64_t offset, const void* data, uint64_t size) except -1:
        # A queue write, which lands ahead of the batches that are not sent yet. wgpu holds a copy of the bytes until then.
        self.link.check()
        self.link.capture()
        with nogil:
            self.link.api.write_buffer(self.link.queue, buffer, offset, data, size)
        error = self.link.take_error()
        self.unsent += size
        if error is not None:
            raise DeviceError(f"upload: {size} bytes at byte {offset} refused: {error[1]}")
        return 0

    cdef int synchronize(self) except -1:
        # Send everything recorded and wait until the device has done it.
        cdef uint64_t index
        with self.lock:
            self.flush()
            if self.in_flight_count == 0:
                return 0
            index = self.last_sent()
            with nogil:
                self.wait(&index)
            self.is_idle()
        return 0

    cdef void wait(self, const uint64_t* index) noexcept nogil:
        # Until the device has done the batch of that number.
        cdef uint32_t look
        for look in range(self.looks):
            if self.link.api.poll(self.link.device, 0, NULL) & 0xff:        # all is done; the bits above are undefined
                break
        self.link.api.poll(self.link.device, 1, index)

    cdef void is_idle(self) noexcept:
        # The device has done all that was sent.
        self.in_flight_count = 0
        self.limit = FIRST_OPS

    def drain(self):
        """Wait for what was sent, at exit; what is only recorded is not sent."""
        if self.link.lost[0] == 0 and self.link.dead_reason is None and self.lock.acquire(timeout=5):
            self.link.api.poll(self.link.device, 1, NULL)
            self.in_flight_count = 0
            self.lock.release()

    def abandon(self, str reason not None):
        """Drop what is recorded and refuse all further work with `reason`; at exit and after fork."""
        self.link.dead_reason = reason
        self.count = 0
