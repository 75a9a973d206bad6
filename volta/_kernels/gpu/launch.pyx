# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""GPU kernels by plans: `Kernel` is what the op table binds, `Plan` what one geometry of operands needs done.

A family writes a function from operands to a Plan: outputs, scratch memory and steps (pipeline, buffers, parameters, grid). It is
called once per geometry; the kernel keeps the plan and every further call looks it up, allocates and launches. A plan knows no
address: where an operand lies in its storage is written into the parameters at the call, for which the family puts `At` among them.

Knows tensors and that a context allocates and launches. Must not know any operation. Threads: as those of the context.
"""
import inspect
import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t

from volta._kernels.core.base cimport Device, DType, Storage, TensorBase, contiguous_strides, make_tensor

from volta.errors import BindingLimitError

cdef enum:
    CACHE_LIMIT = 4096          # plans of one kernel; beyond, it starts anew

cdef int[7] ITEMSIZE = [4, 4, 4, 4, 2, 4, 8]        # bytes of an element on a GPU, by DType.code

cdef object _contiguous = None
cdef object _copy_into = None
cdef object _context = None
cdef dict _limits = {}          # Device: bytes of a binding
cdef Device _latest = None      # and of one, the latest that was asked for
cdef Py_ssize_t _latest_limit = 0


def configure(contiguous, copy_into, context):
    """Give this module the copies of `volta/devices/gpu/copy.py`, and the function from a device to its context, whose limits are read
    anew then."""
    global _contiguous, _copy_into, _context, _latest
    _contiguous, _copy_into, _context = contiguous, copy_into, context
    _limits.clear()
    _latest = None


cdef inline Py_ssize_t bytes_of(TensorBase t) noexcept:
    return t.size * ITEMSIZE[t.dtype.code]


cdef Py_ssize_t _limit(Device device) except -1:
    global _latest, _latest_limit
    if device is not _latest:
        found = _limits.get(device)
        if found is None:
            found = _limits[device] = _context(device).limits["max-storage-buffer-binding-size"] & ~15
        _latest, _latest_limit = device, found
    return _latest_limit


cdef object _exceeding(tuple operands):
    """Operands with copies in place of small views of storages larger than a binding; None where that is none of them."""
    cdef list copies = None
    cdef Py_ssize_t i
    cdef TensorBase t
    for i in range(len(operands)):
        x = operands[i]
        if isinstance(x, TensorBase):
            t = <TensorBase>x
            if t.storage.nbytes > _limit(t.storage.device) >= bytes_of(t):
                copies = list(operands) if copies is None else copies
                copies[i] = _contiguous(t)
    return None if copies is None else tuple(copies)


cdef int _write_back(tuple positions, tuple operands, tuple copies) except -1:
    for i in positions:
        if copies[i] is not operands[i]:
            _copy_into(operands[i], copies[i])
    return 0


cpdef remember(dict plans, key, plan):
    """Enter a plan in a cache, which starts anew where ever new geometries have filled it."""
    if len(plans) >= CACHE_LIMIT:
        plans.clear()
    plans[key] = plan


class At:
    """A parameter of a step: where operand `operand` begins in its buffer, in units of `width` elements, plus `base`."""

    __slots__ = ("operand", "width", "base")

    def __init__(self, operand, width=1, base=0):
        self.operand, self.width, self.base = operand, width, base


cdef class Step:
    """One launch of a plan."""

    cdef readonly object pipeline
    cdef object groups, pack
    cdef bint whole             # binds operands and outputs, in their order
    cdef tuple bound            # per binding: an index (see Plan), (index, first byte, bytes), or a buffer
    cdef bytes params           # of operands that begin their buffers, without the plan's tail
    cdef tuple offsets          # (word of params, At)

    def __repr__(self):
        return f"<Step {self.pipeline.label}>"


cdef class Plan:
    """What a kernel does with operands of one geometry.

    In steps, buffers are numbers: the operands by position, then the outputs as `output` numbers them; `scratch` gives others.
    """

    cdef readonly object ctx
    cdef object alloc, launch, tail
    cdef public object words            # from numbers to the bytes that end the parameters of every step; None without numbers
    cdef Device device
    cdef Py_ssize_t operands
    cdef readonly Py_ssize_t limit      # bytes of a binding
    cdef readonly Py_ssize_t largest    # bytes of the largest buffer, operands apart
    cdef readonly list steps
    cdef list outputs, sizes
    cdef dict named

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
        self.limit = _limit(self.device)
        self.outputs, self.sizes, self.steps, self.named, self.tail = [], [], [], {}, tail

    def __call__(self, *operands, list numbers=None, **params):
        return self.run(operands, params, numbers)

    def output(self, tuple shape, DType dtype not None, bint windowed=False):
        """A new contiguous tensor, of those that the kernel gives. IN: windowed, that steps bind it in parts."""
        cdef Py_ssize_t nbytes = ITEMSIZE[dtype.code]
        for n in shape:
            nbytes *= <Py_ssize_t>n
        if not windowed:
            self.largest = max(self.largest, nbytes)
        self.outputs.append((shape, contiguous_strides(shape), dtype, nbytes))
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
        """Launch `shaders/<file>.wgsl`. IN: values, the fields of its Params, fewer where `tail` has the last."""
        pipeline = self.ctx.pipeline(file, **overrides)
        cdef Step step
        words = [v.base if type(v) is At else v for v in values]
        kinds = pipeline.params_format.lstrip("<")
        step = self.add(pipeline, bound, struct.pack("<" + (kinds if self.tail is None else kinds[:len(words)]), *words), groups,
                        tuple([(i, v) for i, v in enumerate(values) if type(v) is At]))
        if self.tail is not None:
            step.pack = struct.Struct("<" + kinds[len(words):]).pack

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


cdef class Kernel:
    """A kernel of the op table: `kernel(*operands, **params)` as the record says.

    `make(*operands, *, **params)` gives the Plan, or where there is another way (nothing to compute, composed of other kernels) a
    function that takes the same. It sees operands that are row-major, but for those in `strided`; it may look at shapes, dtypes,
    strides and at offsets modulo 4. `writes` are the operands that the kernel changes. Of the parameters in `varying`, which only the
    plan's `tail` sees, there is no plan each.

    What exceeds one binding is told from the operands and the plan, before anything is recorded. `windows(*operands, **params)` may
    give a plan for that call alone, which binds parts of them; else `cut(kernel, *operands, **params)` does the work in parts.
    """

    cdef readonly str name
    cdef readonly dict plans
    cdef object make, windows, cut
    cdef tuple writes
    cdef frozenset varying
    cdef unsigned int strided
    cdef readonly Py_ssize_t arity      # operands; what follows them by position is a parameter
    cdef readonly list names    # of the parameters

    def __init__(self, str name, make, *, tuple strided=(), tuple writes=(), tuple varying=(), windows=None, cut=None):
        self.name, self.make, self.windows, self.cut = name, make, windows, cut
        self.writes, self.varying = writes, frozenset(varying)
        parameters = inspect.signature(make).parameters.values()
        self.names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        self.arity = len(parameters) - len(self.names)
        self.plans = {}
        for i in strided:
            self.strided |= 1 << <int>i

    def __repr__(self):
        return f"<GPU kernel {self.name}>"

    def __call__(self, *operands, **params):
        cdef list key = []
        cdef tuple inputs, shape
        cdef Py_ssize_t i
        if len(operands) > self.arity:
            if len(operands) > self.arity + len(self.names):
                raise TypeError(f"{self.name}: takes {self.arity} operands and {', '.join(self.names)}, got {len(operands)} values")
            for i in range(self.arity, len(operands)):
                params[self.names[i - self.arity]] = operands[i]
            operands = operands[:self.arity]
        inputs = operands
        cdef TensorBase t
        cdef Plan plan
        cdef object result
        for i in range(len(operands)):
            x = operands[i]
            if not isinstance(x, TensorBase):
                key.append(x)
                continue
            t = <TensorBase>x
            if not t.contiguous and not self.strided >> i & 1:
                t = <TensorBase>_contiguous(t)
                inputs = inputs[:i] + (t,) + inputs[i + 1:]
            key.append(t.shape)
            if self.strided >> i & 1:
                key.append(t._strides)
            key.append(t.offset & 3)
            key.append(t.dtype)
            key.append(t.storage.device)
        for name, value in params.items():
            if name not in self.varying:
                key.append(name)
                key.append(value)
        shape = tuple(key)
        found = self.plans.get(shape)
        if found is None:
            found = self._new(shape, inputs, params)
        if type(found) is not Plan:
            return found(*inputs, **params)
        plan = <Plan>found
        for x in inputs:
            if isinstance(x, TensorBase) and (<TensorBase>x).storage.nbytes > plan.limit:
                return self._beyond(*inputs, **params)
        result = plan.run(inputs, params, None)
        if self.writes and inputs is not operands:
            _write_back(self.writes, operands, inputs)
        return result

    def _new(self, tuple key, tuple operands, dict params):
        """The plan for these operands, made and remembered; where they exceed a binding, the way around."""
        for x in operands:
            if isinstance(x, TensorBase) and bytes_of(<TensorBase>x) > _limit((<TensorBase>x).storage.device):
                return self._beyond
        found = self.make(*operands, **params)
        if type(found) is Plan and (<Plan>found).largest > (<Plan>found).limit:
            found = self._beyond
        remember(self.plans, key, found)
        return found

    def _beyond(self, *operands, **params):
        """Work that one binding does not hold: by windows, on copies of small views of large storages, or in parts."""
        cdef object plan = None if self.windows is None else self.windows(*operands, **params)
        if plan is not None and (type(plan) is not Plan or (<Plan>plan).largest <= (<Plan>plan).limit):
            return plan(*operands, **params)
        copies = _exceeding(operands)
        if copies is not None:
            result = self(*copies, **params)
            _write_back(self.writes, operands, copies)
            return result
        if self.cut is None:
            raise BindingLimitError(f"{self.name}: a tensor is larger than one binding of this GPU, and cannot be worked on in parts; "
                                    "use smaller tensors")
        return self.cut(self, *operands, **params)


cdef class Pointwise(Kernel):
    """A kernel that makes every element of its result from those of its operands at the same place: they may have any strides, and may be
    Python numbers, of which there is no plan each. `kernel(*operands)` gives a new tensor, `into` writes to one that there is.

    `make(operands, out, own, large)` gives the Plan of the tensors, then of `out` where it is not None; None where that has another dtype
    than the result. `own` are the positions of operands that are read through `out`; `large` those among the plan's tensors whose buffers
    exceed a binding, and may be bound by windows only.
    """

    def __init__(self, str name, make):
        self.name, self.make, self.plans, self.writes = name, make, {}, ()

    def __call__(self, *operands):
        cdef list key = [], tensors = [], numbers = [], large = None
        cdef TensorBase t = None
        cdef tuple found
        for x in operands:
            if isinstance(x, TensorBase):
                t = <TensorBase>x
                if t.storage.nbytes > _limit(t.storage.device):
                    large = _with(large, len(tensors))
                _enter(key, t)
                tensors.append(t)
            else:
                key.append(type(x))
                numbers.append(x)
        key.append(t.storage.device)
        if large is not None:
            key.append(tuple(large))
        found = tuple(key)
        plan = self.plans.get(found)
        if plan is None:
            plan = self.make(operands, None, (), large or ())
            remember(self.plans, found, plan)
        return (<Plan>plan).run(tuple(tensors), None, numbers)

    def into(self, TensorBase out not None, *operands):
        """Write the result into `out`, which may have any strides and be one of the operands."""
        cdef list key = [], tensors = [], numbers = [], own = [], large = None
        cdef Py_ssize_t i, limit = _limit(out.storage.device)
        cdef TensorBase t
        cdef tuple found
        _enter(key, out)
        for i in range(len(operands)):
            x = operands[i]
            if not isinstance(x, TensorBase):
                key.append(type(x))
                numbers.append(x)
                continue
            t = <TensorBase>x
            if t.storage is out.storage:
                if _same_view(t, out):
                    own.append(i)
                    key.append(None)
                    continue
                t = <TensorBase>_contiguous(t)
                operands = operands[:i] + (t,) + operands[i + 1:]
            if t.storage.nbytes > limit:
                large = _with(large, len(tensors))
            _enter(key, t)
            tensors.append(t)
        if out.storage.nbytes > limit:
            large = _with(large, len(tensors))
        key.append(out.storage.device)
        if large is not None:
            key.append(tuple(large))
        found = tuple(key)
        plan = self.plans.get(found)
        if plan is None:
            plan = self.make(operands, out, own, large or ())
            if plan is None:
                _copy_into(out, self(*operands))
                return
            remember(self.plans, found, plan)
        tensors.append(out)
        (<Plan>plan).run(tuple(tensors), None, numbers)


cdef inline int _enter(list key, TensorBase t) except -1:
    key.append(t.shape)
    key.append(t._strides)
    key.append(t.offset)
    key.append(t.dtype)
    return 0


cdef list _with(list found, Py_ssize_t i):
    return [i] if found is None else found + [i]


cdef bint _same_view(TensorBase a, TensorBase b):
    if a.offset != b.offset or a.dtype is not b.dtype or a.shape != b.shape:
        return False
    for n, s, t in zip(a.shape, a._strides, b._strides):
        if n != 1 and s != t:
            return False
    return True
