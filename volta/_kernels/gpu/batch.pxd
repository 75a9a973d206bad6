# The open batch of recorded operations and what was sent: what batch.pyx defines.
from libc.stdint cimport uint32_t, uint64_t

from volta._kernels.gpu.native cimport DeviceLink, Handle

cdef enum:
    MAX_OPS = 256                # recorded operations at which a batch is sent
    FIRST_OPS = 4                # at which the first one after a wait is, while the device has nothing to do; then four times as many each
    MAX_WRITTEN = 2047 << 20     # bytes of outputs at which it is sent: 0.5 ms of memory traffic on a large GPU, so that it starts
                                 # before a long recording ends; a step of a small model stays in one batch
    MAX_IN_FLIGHT = 16           # batches sent and not waited for
    LOOKS = 4000                 # at the device before a thread that waits for it sleeps, some milliseconds: to be woken takes tens of
                                 # microseconds
    MAX_PARAMS = 128
    OP_DISPATCH = 0
    OP_COPY = 1
    OP_CLEAR = 2

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


cdef class Batch:
    cdef DeviceLink link
    cdef object lock
    cdef Op* ops                          # the open batch
    cdef readonly uint32_t count
    cdef uint32_t limit                   # operations at which it is sent
    cdef public uint32_t looks            # before a wait; 0 where the device's work is done by the host's processors
    cdef uint64_t serial, submitted       # of the open batch; of the last batch sent or dropped
    cdef uint64_t written, unsent         # bytes: of outputs; of queue writes since the last submission
    cdef uint64_t[MAX_IN_FLIGHT] in_flight
    cdef uint32_t in_flight_first, in_flight_count
    cdef readonly uint64_t dispatches, submits
    cdef Handle ring, ring_group          # parameters on adapters without immediates
    cdef uint32_t ring_stride
    cdef char* ring_bytes
    cdef object ring_owner

    cdef int record(self, uint32_t kind, Handle first, uint64_t first_offset, Handle second, uint64_t second_offset,
                    uint64_t size) except -1
    cdef int flush(self) except -1
    cdef void wait(self, const uint64_t* index) noexcept nogil
    cdef int synchronize(self) except -1
    cdef void is_idle(self) noexcept
    cdef uint64_t last_sent(self) noexcept nogil
    cdef int write(self, Handle buffer, uint64_t offset, const void* data, uint64_t size) except -1
    cdef int send(self, Op* ops, uint32_t count) except -1
    cdef int wait_for_room(self) except -1
    cdef void write_ring(self, const Op* ops, uint32_t count) noexcept nogil
    cdef Handle encode(self, Op* ops, uint32_t count) noexcept nogil
