# Blocks (native buffers) by size class, and the Buffer that borrows one: what pool.pyx defines.
from libc.stdint cimport uint32_t, uint64_t

from volta._kernels.gpu.native cimport DeviceLink, Handle

cdef enum:
    CLASS_COUNT = 160
    MIN_BLOCK = 256
    NO_BLOCK = 0xFFFFFFFF
    TRACE_ROOM = 1 << 16   # allocs of a step that are remembered

cdef struct Block:
    Handle handle          # NULL where destroyed; the id is then in `spare_ids`
    uint64_t capacity
    uint64_t nbytes        # asked for by the Buffer that holds it
    uint64_t last_use      # serial of the last batch that uses it
    uint64_t step          # the last step that took it
    int size_class
    bint live              # held by a Buffer
    bint queued            # in its heap; a live block may be, and is passed over there

cdef struct Heap:
    uint32_t* ids
    uint32_t count
    uint32_t room          # never below the number of blocks of the class: giving back cannot fail

cdef struct Trace:
    uint32_t* blocks       # the blocks that a step's allocs took, in order
    uint32_t count, room
    bint strange           # the running step has asked for other sizes than this one did


cdef inline int size_class_of(uint64_t nbytes) noexcept nogil:
    # 4 classes per octave: 256, 320, 384, 448, 512, 640, ...
    cdef int octave = 8
    cdef uint64_t top = MIN_BLOCK
    if nbytes <= MIN_BLOCK:
        return 0
    while (top << 1) < nbytes:
        top <<= 1
        octave += 1
    return (octave - 8) * 4 + <int>((nbytes - top + (top >> 2) - 1) // (top >> 2))


cdef inline uint64_t class_bytes(int size_class) noexcept nogil:
    cdef uint64_t top = <uint64_t>MIN_BLOCK << (size_class >> 2)
    return top + (top >> 2) * (size_class & 3)


cdef class Pool:
    cdef DeviceLink link
    cdef uint64_t max_buffer
    cdef Block* blocks
    cdef uint32_t block_count, block_room
    cdef Heap[CLASS_COUNT] heaps
    cdef uint32_t[CLASS_COUNT] made          # blocks of the class that exist
    cdef list spare_ids
    cdef object make_room                    # gives memory back where the device is full
    cdef Trace[3] traces                     # of the step before last, the last one, and the running one
    cdef uint64_t step                       # number of the running one
    cdef readonly set lasting                # threads: what they allocate now outlives many steps, or belongs to none
    cdef readonly uint64_t live, held, peak  # bytes: in Buffers; from the device; most ever live
    cdef readonly uint64_t created           # native buffers made, staging included
    cdef readonly uint64_t limit             # bytes of blocks, 0 = none

    cdef Buffer alloc(self, nbytes)
    cdef Handle staging(self, uint64_t size, uint64_t usage) except NULL
    cdef int free_blocks(self, uint64_t submitted) except -1
    cdef object memory_text(self, nbytes)
    cdef int grow(self, int size_class) except -1
    cdef void give(self, uint32_t block) noexcept nogil
    cdef void queue(self, uint32_t block) noexcept nogil
    cdef uint32_t choose(self, int size_class, bint lasting) noexcept nogil
    cdef void take(self, uint32_t block, uint64_t nbytes, bint lasting) noexcept nogil
    cdef void remember(self, uint32_t block) noexcept nogil
    cdef int reserve(self, int size_class) except -1


cdef class Buffer:
    cdef Pool pool
    cdef readonly uint32_t block
    cdef readonly uint64_t nbytes
    cdef readonly uint64_t capacity


cdef uint64_t copy_size(str op, Buffer buffer, long long offset, long long nbytes, bint padded) except? 0xFFFFFFFFFFFFFFFF
