# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Plans: what one geometry of operands needs done on a GPU, made once and launched many times.

A plan has outputs, scratch memory and steps (pipeline, buffers, parameters, grid). It knows no address: where an operand lies in its
storage is written into the parameters at the call, for which whoever makes the plan puts `At` among them.

Knows tensors and that a context allocates and launches. Must not know any operation. Threads: as those of the context.
"""
import struct
from ctypes import c_float

from volta.errors import DeviceError

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t

from volta._kernels.core.base cimport Device, DType, Storage, TensorBase, contiguous_strides, make_tensor
from volta._kernels.core.size cimport plain

cdef object _context = None
cdef dict _limits = {}          # Device: bytes of a binding
cdef Device _latest = None      # and of one, the latest that was asked for
cdef Py_ssize_t _latest_limit = 0

cdef int[10] ITEMSIZE = [4, 4, 4, 4, 2, 4, 8, 2, 4, 4]       # bytes of an element on a GPU, by DType.code


def set_context(context):
    """Give the function from a device to its context, whose limits are read anew then."""
    global _context, _latest
    _context = context
    _limits.clear()
    _latest = None


cdef Py_ssize_t bytes_of(TensorBase t) noexcept:
    return t.size * ITEMSIZE[t.dtype.code]


cdef Py_ssize_t limit_of(Device device) except -1:
    global _latest, _latest_limit
    if device is not _latest:
        found = _limits.get(device)
        if found is None:
            found = _limits[device] = _context(device).limits["max-storage-buffer-binding-size"] & ~15
        _latest, _latest_limit = device, found
    return _latest_limit


class At:
    """A parameter of a step: where operand `operand` begins in its buffer, in units of `width` elements, plus `base`."""

    __slots__ = ("operand", "width", "base")

    def __init__(self, operand, width=1, base=0):
        self.operand, self.width, self.base = operand, width, base


cdef class Step:
    """One launch of a plan."""

    def __repr__(self):
        return f"<Step {self.pipeline.label}>"


cdef class Plan:
    """What a kernel does with operands of one geometry.

    In steps, buffers are numbers: the operands by position, then the outputs as `output` numbers them; `scratch` gives others.
    """

    def __init__(self, *operands, Device device=None, tail=None):
        """IN: device, where no operand is a tensor; tail, from the parameters to the values that end those of every step."""
        self.operands = len(operands)
        self.device = device
        for t in operands:
            if isinstance(t, TensorBase):
                self.device = (<TensorBase>t).storage.device
                break
        self.ctx = _context(self.device)
        self.alloc, self.launch = self.ctx.alloc, self.ctx.launch
        self.limit = limit_of(self.device)
        self.outputs, self.sizes, self.steps, self.named, self.tail = [], [], [], {}, tail

    def __call__(self, *operands, list numbers=None, **params):
        return self.run(operands, params, numbers)

    def output(self, shape, DType dtype not None, bint windowed=False, tuple strides=None):
        """A new dense tensor, of those that the kernel gives. IN: windowed, that steps bind it in parts; strides, where it is not
        row-major."""
        shape = plain(shape)
        cdef Py_ssize_t nbytes = ITEMSIZE[dtype.code]
        for n in shape:
            nbytes *= <Py_ssize_t>n
        if not windowed:
            self.largest = max(self.largest, nbytes)
        self.outputs.append((shape, contiguous_strides(shape) if strides is None else strides, dtype, nbytes))
        return self.last

    @property
    def last(self):
        """The number of the output made last."""
        return self.operands + len(self.outputs) - 1

    def scratch(self, Py_ssize_t nbytes, str name=None):
        """A buffer for the time of a call; what is asked for by one name shares one buffer."""
        self.largest = max(self.largest, nbytes)
        if name in self.named:
            self.sizes[-1 - self.named[name]] = max(<Py_ssize_t>self.sizes[-1 - self.named[name]], nbytes)
            return self.named[name]
        self.sizes.append(nbytes)
        if name is not None:
            self.named[name] = -len(self.sizes)
        return -len(self.sizes)

    def step(self, str file, tuple bound, tuple values, groups, **overrides):
        """Launch `shaders/<file>.wgsl`. IN: bound, by binding, None where this variant does not look at one, which then costs nothing;
        values, the fields of its Params, fewer where `tail` has the last."""
        pipeline, bound = self.compiled(file, bound, overrides)
        cdef Step step
        words = [v.base if type(v) is At else c_float(v).value if type(v) is float else v for v in values]    # infinite beyond float32
        kinds = pipeline.params_format.lstrip("<")
        try:
            packed = struct.pack("<" + (kinds if self.tail is None else kinds[:len(words)]), *words)
        except struct.error:
            raise DeviceError(f"{file}: a GPU kernel counts up to 2**32 - 1, got {max([w for w in words if type(w) is int])}; take fewer "
                              f"elements, or compute it on the CPU with .cpu()") from None
        step = self.add(pipeline, bound, packed, groups, tuple([(i, v) for i, v in enumerate(values) if type(v) is At]))
        if self.tail is not None:
            step.pack = struct.Struct("<" + kinds[len(words):]).pack

    def compiled(self, str file, bound, dict overrides):
        """(pipeline, buffers): a shader without the bindings for which `bound` has None, and the buffers of the others."""
        absent = tuple([i for i, at in enumerate(bound) if at is None])
        return self.ctx.pipeline(file, absent=absent, **overrides), tuple([at for at in bound if at is not None])

    def add(self, pipeline, tuple bound, bytes params, groups, tuple offsets=()):
        """Launch a compiled pipeline with packed parameters. IN: offsets, the words of them that are (word, At)."""
        cdef Step step = Step.__new__(Step)
        step.pipeline, step.bound, step.params, step.groups, step.offsets = pipeline, bound, params, groups, offsets
        step.whole = bound == tuple(range(self.operands + len(self.outputs)))
        self.steps.append(step)
        return step

    cdef object run(self, tuple operands, dict params, list numbers):
        cdef list buffers = [], results = [], scratch = None, bound
        cdef TensorBase t
        cdef Storage storage
        cdef Step step
        cdef tuple made, whole, varying = None if self.tail is None else self.tail(**params)
        cdef bytes words, end = None if self.words is None else self.words(numbers)
        cdef bint moved = False
        for x in operands:
            if isinstance(x, TensorBase):
                t = <TensorBase>x
                buffers.append(t.storage.buffer)
                moved |= t.offset != 0
            else:
                buffers.append(None)
        for made in self.outputs:
            storage = Storage.__new__(Storage)
            storage.nbytes = made[3]
            storage.buffer = self.alloc(storage.nbytes or 4)
            storage.device = self.device
            buffers.append(storage.buffer)
            results.append(make_tensor(storage, <tuple>made[0], <tuple>made[1], 0, <DType>made[2]))
        if self.sizes:
            scratch = [self.alloc(n) for n in self.sizes]
        for step in self.steps:
            if step.whole and len(step.bound) == len(buffers):
                whole = tuple(buffers)
            else:
                bound = []
                for at in step.bound:
                    bound.append(_buffer(at, buffers, scratch))
                whole = tuple(bound)
            words = _moved(step, operands) if moved and step.offsets else step.params
            if varying is not None:
                words = words + step.pack(*varying)
            elif end is not None:
                words = words + end
            self.launch(step.pipeline, whole, words, step.groups)
        return results[0] if len(results) == 1 else tuple(results) if results else None


cdef object _buffer(object at, list buffers, list scratch):
    cdef Py_ssize_t i
    if type(at) is int:
        i = <Py_ssize_t>at
        return buffers[i] if i >= 0 else scratch[-1 - i]
    if type(at) is tuple:
        return (_buffer(at[0], buffers, scratch), at[1], at[2])
    return at


cdef bytes _moved(Step step, tuple operands):
    """The parameters for operands that do not all begin their buffers."""
    cdef bytes params = PyBytes_FromStringAndSize(PyBytes_AS_STRING(step.params), PyBytes_GET_SIZE(step.params))
    cdef uint32_t* words = <uint32_t*>PyBytes_AS_STRING(params)
    for word, at in step.offsets:
        words[<Py_ssize_t>word] = <uint32_t>((<TensorBase>operands[at.operand]).offset // <Py_ssize_t>at.width + <Py_ssize_t>at.base)
    return params
