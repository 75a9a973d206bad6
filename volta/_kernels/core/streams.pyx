# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Where random numbers come from: streams, the position that each has reached, and calls of the kernels that draw from them. Small draws
are made of little else. Knows no distribution.
"""
cimport cython
from libc.stdint cimport uint64_t

from volta._kernels.core.base cimport DType, Device, FLOAT32, FLOAT64, TensorBase
from volta._kernels.core.call cimport call_kernel, check_dtypes, watching
from volta._kernels.core.record cimport Primitive
from volta._kernels.core.size cimport plain

from volta._kernels.core.base import INFERRED, default_device
from volta._kernels.core.inplace import check_elements
from volta.errors import ArgumentError

cdef Source _default                        # of draws that name no generator
cdef object _mapped                         # `volta.random.mapped`, asked only while something watches: `vmap` does
cdef object _as_device
cdef long long _INFERRED = INFERRED


def configure(Source default not None, mapped, as_device):
    """Give this module what it draws by."""
    global _default, _mapped, _as_device
    _default, _mapped, _as_device = default, mapped, as_device


@cython.auto_pickle(True)                  # as generators are copied
cdef class Stream:
    """A seed and the position in its stream of random numbers."""
    cdef public uint64_t seed
    cdef public uint64_t offset


@cython.auto_pickle(True)
cdef class Source:
    """A stream that all threads share, or beside it one for each that has its own: `threads.stream`, where `threads` is not None."""
    cdef public Stream shared
    cdef public object threads

    cdef Stream present(self):
        return self.shared if self.threads is None else getattr(self.threads, "stream", self.shared)

    @property
    def _stream(self):
        """The one that the calling thread draws from."""
        return self.present()

    cdef uint64_t reserve(self, Py_ssize_t count, uint64_t* seed) except? 0:
        """The position of the first of `count` elements, which nobody else gets; while the GIL is held, nobody else looks."""
        cdef Stream stream = self.present()
        cdef uint64_t offset = stream.offset
        if watching:
            for size in _mapped.sizes:
                count *= size
        stream.offset = offset + <uint64_t>((count + 3) // 4)
        seed[0] = stream.seed
        return offset

    def advance(self, Py_ssize_t count):
        """Reserve `count` elements; gives (seed, offset) of the first."""
        cdef uint64_t seed, offset = self.reserve(count, &seed)
        return seed, offset


cdef Source _source(str op, object generator):
    if generator is None:
        return _default
    if not isinstance(generator, Source):
        raise ArgumentError(f"{op}: generator must be a volta.Generator, got {type(generator).__name__}")
    return generator


def source(str op not None, generator):
    """The generator, or the default one for None. Raises: ArgumentError for anything else."""
    return _source(op, generator)


def draw(str op not None, Primitive primitive not None, sizes, a, b, DType dtype not None, device, generator):
    """A new tensor of the next numbers of a generator, by the kernels that take two numbers."""
    cdef Device place = default_device() if device is None else _as_device(device)
    cdef tuple shape = plain(sizes)
    cdef Py_ssize_t count = 0 if place.is_meta else 1
    cdef uint64_t seed, offset
    cdef object drawn
    for size in shape:
        count *= size
    offset = _source(op, generator).reserve(count, &seed)
    if watching and _mapped.sizes:
        shape = (*_mapped.sizes, *shape)
    drawn = call_kernel(primitive, place, (shape, a, b), {"seed": seed, "offset": offset, "dtype": dtype, "device": place}, None)
    return _mapped.sample(drawn) if watching and _mapped.sizes else drawn


def draw_into(Primitive primitive not None, TensorBase t not None, str kind not None, double a, double b, generator):
    """`t`, overwritten with the next numbers of a generator, by the kernel that does so; None for what that does not write into: a sample
    of a batch, and other numbers than float32 and float64."""
    cdef Device place = t.storage.device
    cdef tuple inputs = (t,)
    cdef uint64_t seed, offset
    if t.storage.version < 0 or t.dtype.code != FLOAT32 and t.dtype.code != FLOAT64:
        return None
    if not t.contiguous or t.storage.version >= _INFERRED:
        check_elements(kind, t)
    offset = _source(kind, generator).reserve(0 if place.is_meta else t.size, &seed)
    check_dtypes(primitive, inputs)
    call_kernel(primitive, place, inputs, {"kind": kind, "a": a, "b": b, "seed": seed, "offset": offset}, None)
    return t
