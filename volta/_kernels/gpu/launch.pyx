# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""GPU kernels by plans: `Kernel` is what the op table binds, `Pointwise` those of elementwise families.

A family writes a function from operands to a Plan (plan.pyx). It is called once per geometry; the kernel keeps the plan and every
further call looks it up, allocates and launches.

Knows tensors. Must not know any operation. Threads: as those of the context.
"""
import inspect

from volta._kernels.core.base cimport TensorBase, same_bytes
from volta._kernels.core.values cimport word_of
from volta._kernels.gpu.plan cimport Plan, bytes_of, limit_of

from volta._kernels.gpu.plan import set_context
from volta.errors import BindingLimitError

cdef enum:
    CACHE_LIMIT = 4096          # plans of one kernel; beyond, it starts anew

cdef object _contiguous = None
cdef object _copy_into = None


def configure(contiguous, copy_into, context):
    """Give this module the copies of `volta/devices/gpu/copy.py`, and plan.pyx the function from a device to its context, whose limits
    are read anew then."""
    global _contiguous, _copy_into
    _contiguous, _copy_into = contiguous, copy_into
    set_context(context)


cdef object _exceeding(tuple operands):
    """Operands with copies in place of small views of storages larger than a binding; None where that is none of them."""
    cdef list copies = None
    cdef Py_ssize_t i
    cdef TensorBase t
    for i in range(len(operands)):
        x = operands[i]
        if isinstance(x, TensorBase):
            t = <TensorBase>x
            if t.storage.nbytes > limit_of(t.storage.device) >= bytes_of(t):
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
            if isinstance(x, TensorBase) and bytes_of(<TensorBase>x) > limit_of((<TensorBase>x).storage.device):
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
        return self.compute(None, operands)

    def into(self, TensorBase out not None, *operands):
        """Write the result into `out`, which may have any strides and be one of the operands."""
        self.compute(out, operands)

    cdef object compute(self, TensorBase out, tuple operands):
        cdef list key = [], tensors = [], numbers = []
        cdef Py_ssize_t i
        cdef TensorBase t = out
        cdef list own = None if out is None else []
        cdef tuple found, large = ()
        if out is not None:
            _enter(key, out)
        for i in range(len(operands)):
            x = operands[i]
            if not isinstance(x, TensorBase):
                if type(x) is int:
                    word_of(self.name, x)
                key.append(type(x))
                numbers.append(x)
                continue
            t = <TensorBase>x
            if out is not None and same_bytes(t.storage, out.storage):
                if _same_view(t, out):
                    own.append(i)
                    key.append(None)
                    continue
                t = <TensorBase>_contiguous(t)
                operands = operands[:i] + (t,) + operands[i + 1:]
            if t.storage.nbytes > limit_of(t.storage.device):
                large += (len(tensors),)
            _enter(key, t)
            tensors.append(t)
        if out is not None and out.storage.nbytes > limit_of(out.storage.device):
            large += (len(tensors),)
        key.append(t.storage.device)
        if large:
            key.append(large)
        found = tuple(key)
        plan = self.plans.get(found)
        if plan is None:
            plan = self.make(operands, out, own or (), large)
            if plan is None:
                _copy_into(out, self(*operands))
                return None
            remember(self.plans, found, plan)
        if out is not None:
            tensors.append(out)
        return (<Plan>plan).run(tuple(tensors), None, numbers)


cdef inline int _enter(list key, TensorBase t) except -1:
    key.append(t.shape)
    key.append(t._strides)
    key.append(t.offset)
    key.append(t.dtype)
    return 0


cdef bint _same_view(TensorBase a, TensorBase b):
    if a.offset != b.offset or a.dtype is not b.dtype or a.shape != b.shape:
        return False
    for n, s, t in zip(a.shape, a._strides, b._strides):
        if n != 1 and s != t:
            return False
    return True
