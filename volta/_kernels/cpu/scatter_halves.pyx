# Elements and slices of float16 and bfloat16 added at the places that indices name: summed in float32 in the order of the indices and
# rounded once, without looking at the places that no index names.
#
# Layout: tensors seen as [outer, size, inner] around the indexed dimension, of which n slices are added. The entries of each place are
# brought together first. Indices are int64 and checked before any is used.
# Threads: over places. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint16_t
from libc.string cimport memset

from volta._kernels.core.base cimport BFLOAT16, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport split_at
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.index cimport checked
from volta._kernels.cpu.scalar cimport brain_to_float, float_to_brain, float_to_half, half_to_float

cdef enum:
    COLUMNS = 256               # elements of a slice that are summed at a time

cdef struct Named:
    Py_ssize_t outer, n, size, inner
    Py_ssize_t count            # places that are named
    Py_ssize_t* places          # of which these have
    Py_ssize_t* ends            # the entries from the end of the one before to their own
    Py_ssize_t* entries
    bint brain                  # bfloat16


cdef void name_places(Named* p, const int64_t* index, Py_ssize_t* slots, Py_ssize_t shift, Py_ssize_t* of) noexcept nogil:
    """IN: slots, 2 ** (64 - shift) of them, more than entries; of, room for each entry. OUT: what p has of places."""
    cdef Py_ssize_t mask = (1 << (64 - shift)) - 1, i, k, slot
    memset(slots, 0, (mask + 1) * sizeof(Py_ssize_t))
    p.count = 0
    for i in range(p.n):
        slot = <Py_ssize_t>((<unsigned long long>index[i] * <unsigned long long>0x9E3779B97F4A7C15) >> shift)
        while slots[slot] != 0 and p.places[slots[slot] - 1] != index[i]:
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            p.places[p.count] = index[i]
            p.ends[p.count] = 0
            p.count += 1
            slots[slot] = p.count
        of[i] = slots[slot] - 1
        p.ends[of[i]] += 1
    k = 0
    for i in range(p.count):                        # where the entries of each begin, which become their ends below
        k += p.ends[i]
        p.ends[i] = k - p.ends[i]
    for i in range(p.n):
        p.entries[p.ends[of[i]]] = i
        p.ends[of[i]] += 1


cdef inline void widen(const Named* p, float* out, const uint16_t* x, Py_ssize_t n) noexcept nogil:
    if p.brain:
        brain_to_float(out, x, n)
    else:
        half_to_float(out, x, n)


cdef void add_named(const Named* p, const uint16_t* x, Py_ssize_t low, Py_ssize_t high, uint16_t* out) noexcept nogil:
    """At the places low .. high of those that are named."""
    cdef float sums[COLUMNS]
    cdef float line[COLUMNS]
    cdef Py_ssize_t o, i, k, j, block, first, n
    cdef uint16_t* to
    for o in range(p.outer):
        for i in range(low, high):
            for block in range((p.inner + COLUMNS - 1) // COLUMNS):
                first = block * COLUMNS
                n, to = min(<Py_ssize_t>COLUMNS, p.inner - first), out + (o * p.size + p.places[i]) * p.inner + first
                widen(p, sums, to, n)
                for k in range(p.ends[i - 1] if i else 0, p.ends[i]):
                    widen(p, line, x + (o * p.n + p.entries[k]) * p.inner + first, n)
                    for j in range(n):
                        sums[j] += line[j]
                if p.brain:
                    float_to_brain(to, sums, n)
                else:
                    float_to_half(to, sums, n)


cdef TensorBase elements_named(TensorBase index, int dim, Py_ssize_t size):
    """Of each element of a checked index, which it names among all in their order, of a tensor with `size` along dim."""
    cdef Py_ssize_t outer, n, inner, o, i, j
    split_at(index.shape, dim, &outer, &n, &inner)
    cdef TensorBase out = empty_host((index.size,), index.dtype)
    cdef const int64_t* at = <const int64_t*>address(index)
    cdef int64_t* to = <int64_t*>address(out)
    for o in range(outer):
        for i in range(n):
            for j in range(inner):
                to[j] = (o * size + at[j]) * inner + j
            to, at = to + inner, at + inner
    return out


def add_halves(str name, bint full, TensorBase out not None, TensorBase x not None, TensorBase index not None, int dim):
    """In place: the slices of x added to those of out at index[n], or if `full` its elements where index sends them along dim. IN: out,
    row-major."""
    cdef Named p
    cdef int bits = 2, threads, t
    cdef Storage memory
    cdef const int64_t* at
    cdef const uint16_t* source
    cdef uint16_t* target = <uint16_t*>address(out)
    split_at(out.shape, dim, &p.outer, &p.size, &p.inner)
    index, x = checked(name, index, dim, p.size), packed(x)
    if full:
        index = elements_named(index, dim, p.size)
        p.outer, p.size, p.inner = 1, out.size, 1
    p.n, p.brain = index.size, out.dtype.code == BFLOAT16
    if x.size == 0:
        return
    while (<Py_ssize_t>1 << bits) < 2 * p.n:
        bits += 1
    memory = host_storage((4 * p.n + (<Py_ssize_t>1 << bits)) * sizeof(Py_ssize_t))
    p.places = <Py_ssize_t*>memory.data
    p.ends, p.entries = p.places + p.n, p.places + 2 * p.n
    at, source = <const int64_t*>address(index), <const uint16_t*>address(x)
    threads = threads_for(x.size * 2)
    with nogil:
        name_places(&p, at, p.places + 4 * p.n, 64 - bits, p.places + 3 * p.n)
        for t in prange(threads, num_threads=threads, schedule="static"):
            add_named(&p, source, p.count * t // threads, p.count * (t + 1) // threads, target)
