"""Host memory for tensors.

Freed blocks are kept by size class, since fresh pages of a large block cost more than most loops over it. Where none of its class is free,
a large request takes the least of the free blocks up to twice as large: kernels' work space, of many sizes, then lies in few blocks. A
block is malloc's; the bytes start at its next 64-byte boundary. Its first words are its class and that of the bytes asked for. Blocks that
lie behind each other are kept apart: where a result starts a few vectors behind an operand, counted modulo 4096 bytes, a loop takes up to
two fifths longer, since a processor then takes what it loads for what it has just stored. Knows no tensor.
"""
import os

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from volta.errors import OutOfMemoryError

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef extern from *:
    """
    #if defined(__linux__)
      #include <stdint.h>
      #include <sys/mman.h>
    #endif
    /* Let Linux use large pages within a new block, as NumPy does: loops over many megabytes wait for the addresses of small ones. */
    static void volta_large_pages(void *block, size_t bytes) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        uintptr_t page = (uintptr_t)1 << 21, start = (uintptr_t)block;
        uintptr_t first = (start + page - 1) & ~(page - 1), last = (start + bytes) & ~(page - 1);
        if (last > first) (void)madvise((void *)first, last - first, MADV_HUGEPAGE);
    #else
        (void)block, (void)bytes;
    #endif
    }
    """
    void large_pages "volta_large_pages"(void* block, size_t nbytes) noexcept nogil

cdef enum:
    CLASSES = 256
    LARGE = 64                              # class from which on requests take larger blocks: 64 KiB,
    LARGER = 4                              # by at most so many classes
    SPREAD = 48                             # class from which on blocks are kept apart: 4 KiB,
    APART = 512                             # by so many bytes
    PAGED = 1 << 22                         # bytes from which blocks are to have large pages

cdef void* _free_blocks[CLASSES]
cdef Py_ssize_t _cached_bytes = 0
cdef Py_ssize_t _live_bytes = 0
cdef Py_ssize_t _peak_bytes = 0
cdef Py_ssize_t CACHE_LIMIT = 1 << 30
cdef Py_ssize_t _memory = 0             # of the machine, once it is known
cdef bint _fills = False                # new blocks with a word
cdef int32_t _word = 0


cdef inline int _size_class(Py_ssize_t nbytes) noexcept nogil:
    """Class whose size is the least power of two, in quarter steps, that holds nbytes."""
    cdef int log = 6
    if nbytes <= 64:
        return 24
    while (<Py_ssize_t>1 << (log + 1)) <= nbytes:
        log += 1
    cdef Py_ssize_t base = <Py_ssize_t>1 << log
    cdef int step = <int>((nbytes - base + (base >> 2) - 1) // (base >> 2))
    return log * 4 + step


cdef inline Py_ssize_t _class_bytes(int size_class) noexcept nogil:
    cdef Py_ssize_t base = <Py_ssize_t>1 << (size_class >> 2)
    return base + (size_class & 3) * (base >> 2)


cdef void* allocate(Py_ssize_t nbytes) except NULL:
    """Block for nbytes; its first usable byte is `usable(block)`."""
    global _cached_bytes, _live_bytes, _peak_bytes
    cdef void* block
    if nbytes < 0 or nbytes >> 62:                  # of which no class can be counted, as of 2**60 elements of 8 the bytes cannot
        raise _out_of_memory(nbytes)
    cdef int size_class = _size_class(nbytes), found = size_class
    if size_class >= CLASSES:
        raise _out_of_memory(nbytes)
    cdef Py_ssize_t capacity = _class_bytes(size_class), room = capacity + 2 * ALIGNMENT + (APART if size_class >= SPREAD else 0)
    block = _free_blocks[size_class]
    if block == NULL and size_class >= LARGE:
        while block == NULL and found < size_class + LARGER and found < CLASSES - 1:
            found += 1
            block = _free_blocks[found]
    if block != NULL:
        _free_blocks[found] = (<void**>usable(block))[0]
        _cached_bytes -= _class_bytes(found)
    else:
        if capacity > memory_size():
            raise _out_of_memory(nbytes)
        block = malloc(room)
        if block == NULL:
            empty_host_cache()
            block = malloc(room)
            if block == NULL:
                raise _out_of_memory(nbytes)
        if capacity >= PAGED:
            large_pages(block, room)
        (<int*>block)[0] = size_class
    (<int*>block)[1] = size_class
    _live_bytes += capacity
    if _live_bytes > _peak_bytes:
        _peak_bytes = _live_bytes
    if _fills:
        _fill(<int32_t*>usable(block), capacity // sizeof(int32_t))
    return block


cdef void _fill(int32_t* words, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        words[i] = _word


def fill_host_memory(word):
    """From now on a block holds this 32-bit word everywhere when it is allocated; None: what it happens to hold. For tests: kernels must
    not compute with what nobody wrote."""
    global _fills, _word
    _fills = word is not None
    _word = word or 0


cpdef Py_ssize_t memory_size():
    """Bytes of the machine's memory; a number that nothing reaches where it is not known. Some systems promise any size and kill the
    process that then writes to it."""
    global _memory
    if _memory == 0:
        try:
            _memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):       # not known here
            pass
        if _memory <= 0:
            _memory = PY_SSIZE_T_MAX
    return _memory


cdef void release(void* block) noexcept:
    global _cached_bytes, _live_bytes
    cdef int size_class = (<int*>block)[0]
    cdef Py_ssize_t capacity = _class_bytes(size_class)
    _live_bytes -= _class_bytes((<int*>block)[1])
    if _cached_bytes + capacity > CACHE_LIMIT:
        free(block)
        return
    (<void**>usable(block))[0] = _free_blocks[size_class]
    _free_blocks[size_class] = block
    _cached_bytes += capacity


def empty_host_cache():
    """Give all cached host blocks back to the system."""
    global _cached_bytes
    cdef int i
    cdef void* block
    for i in range(CLASSES):
        while _free_blocks[i] != NULL:
            block = _free_blocks[i]
            _free_blocks[i] = (<void**>usable(block))[0]
            free(block)
    _cached_bytes = 0


def host_memory_stats():
    """Bytes of host memory: live (held by storages), cached (free, kept for reuse) and peak (most live so far)."""
    return {"live": _live_bytes, "cached": _cached_bytes, "peak": _peak_bytes}


cdef object _out_of_memory(Py_ssize_t nbytes):
    return OutOfMemoryError(
        f"cpu: cannot allocate {f'{nbytes:,}' if nbytes >= 0 else '2**63 or more'} bytes; {_live_bytes:,} bytes are live. "
        "Free tensors or use smaller ones.")
