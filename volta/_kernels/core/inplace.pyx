# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""In-place changes and what they mean to the graph: `x.mul_(y)`, and `InPlace`, the in-place form of any op.

A recorded change is computed out of place, copied in, and gives the tensor the history of the result. Where the tensor is a view,
its base gets a new history, in which the part that the view shows was overwritten; other views follow when they are used next
(`histories.renew`).
"""
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE

from volta.errors import ArgumentError, AutogradError, CallError, DTypeError, ShapeError, VoltaError
from volta._kernels import core as _core
from volta._kernels.core.base cimport BFLOAT16, BOOL, FLOAT32, FLOAT64, PLAIN_MASK, DType, TensorBase, dtype_of, is_half, same_bytes
from volta._kernels.core.call cimport broadcast, call_kernel, common_dtype, promoted, refuse_dtype
from volta._kernels.core.grad_mode cimport grad_mode
from volta._kernels.core.graph cimport apply
from volta._kernels.core.graph import custom_node
from volta._kernels.core.histories cimport Shown, check_alone, heard, wants
from volta._kernels.core.histories import of_recorded, replay
from volta._kernels.core.hooks cimport retain_after
from volta._kernels.core.order cimport dense
from volta._kernels.core.overriding cimport overridden, overriding
from volta._kernels.core.record cimport INPUT, Op, Plan, Primitive
from volta._kernels.core.shapes cimport fits

# Set by volta.ops.
cdef long long INFERRED = _core.INFERRED
cdef Primitive _cast = None, _contiguous = None, _copy = None
cdef object _mixed_devices = None, _as_operand = None, _overwrite = None, _expanded = None, _clone = None, _as_dtype = None


def configure(cast, contiguous, copy_into, mixed_devices, as_operand, overwrite, expanded, clone, as_dtype):
    """Give this module the pieces of higher layers that it calls."""
    global _cast, _contiguous, _copy, _mixed_devices, _as_operand, _overwrite, _expanded, _clone, _as_dtype
    _cast, _contiguous, _copy, _clone, _as_dtype = cast, contiguous, copy_into, clone, as_dtype
    _mixed_devices, _as_operand, _overwrite, _expanded = mixed_devices, as_operand, overwrite, expanded


cdef object _written = None, _put = None, _shown = None     # set by volta.batching_writes: changes of what stands in for a batch


def configure_batches(written, put, shown):
    """Give this module what changes a tensor that stands in for a batch."""
    global _written, _put, _shown
    _written, _put, _shown = written, put, shown


cdef dict _forms = {}           # (name, name of the op) -> InPlace, for unpickling


def _form_named(name, op):
    return _forms[name, op.name]


cdef extern from "Python.h":
    object PyObject_Call(object function, tuple args, PyObject* options)


cdef class InPlace(Op):
    """The in-place form of an op, `x.exp_()`: an elementwise record's kernel writes into the tensor, a function's result is copied in. A
    function with options may have a `record` for calls without them. With `geometry` (`x.squeeze_()`) the tensor shows its data in
    another way, with `grows` it gets the size of the result, as `addbmm_` has it in PyTorch. `one` gives, for a call on float32 or float64,
    the elementwise record that does all of it and its operands, the tensor, where it has done it, or None; with `one.halves` also on 16
    bits, of which that record rounds once, while nothing is recorded; with `one.every` on any dtype."""

    cdef readonly Op op
    cdef readonly Primitive record
    cdef readonly bint geometry, grows
    cdef object one
    cdef bint halves, every

    def __cinit__(self, str name, Op op not None, Primitive record=None, *, bint geometry=False, bint grows=False, object one=None):
        self.name = name
        self.op = op
        self.geometry, self.grows = geometry, grows
        self.one = one
        self.halves, self.every = getattr(one, "halves", False), getattr(one, "every", False)
        self.record = op if record is None and isinstance(op, Primitive) and (<Primitive>op).promotion else record
        self.details = op.details
        _forms[name, op.name] = self

    def __reduce__(self):
        return (_form_named, (self.name, self.op))

    def __call__(self, input, *args, **options):
        cdef str record = "-"
        cdef object found
        if overriding:
            found = overridden(self, (input,) + args, options)
            if found is not NotImplemented:
                return found
        if not isinstance(input, TensorBase):
            raise DTypeError(f"{self.name}: input must be a tensor, got {type(input).__name__}")
        if options and "out" in options:
            raise TypeError(f"{self.name}() got an unexpected keyword argument 'out'")
        try:
            if self.record is not None:
                if options and self.record is self.op:
                    args, options = self.record._bound((input,) + args, options)
                    args = args[1:]
                    if options:
                        raise TypeError(f"{self.name}() got an unexpected keyword argument {next(iter(options))!r}")
                if self.record is self.op or self.record.serves((input,) + args, options):
                    return apply_into(self.record, <TensorBase>input, args)
            if self.one is not None and (self.every or (<TensorBase>input).dtype.code in (FLOAT32, FLOAT64) or self.halves and is_half(
                    (<TensorBase>input).dtype.code) and not (grad_mode() and _any_wants(<TensorBase>input, args))):
                try:
                    found = self.one(input, *args, **options)
                except TypeError:                                       # other arguments, of which `_replace` knows more
                    found = None
                if found is input:
                    return input
                if found is not None and _alike(<TensorBase>input, <tuple>found[1], <Primitive>found[0]):
                    record = (<Primitive>found[0]).name
                    return run_into(<Primitive>found[0], <TensorBase>input, <tuple>found[1])
            return _replace(self, <TensorBase>input, args, options)
        except VoltaError as error:
            if type(error) is AutogradError and repeated(input) and _expanded(
                    self.op.name + "_", input, lambda whole: self(whole, *args, **options), (*args, *options.values())):
                return input
            for name in (self.op.name + ":", record + "_:"):        # of what knows nothing of this form
                if str(error).startswith(name):
                    error.args = (f"{self.op.name}_:{str(error)[len(name):]}",)
            raise

    @property
    def __doc__(self):
        return f"`{self.op.name}` in place.\n\n{self.op.__doc__ or ''}"

    @property
    def __signature__(self):
        return self.op.__signature__

    @property
    def __module__(self):
        return self.op.__module__


cdef object _replace(InPlace form, TensorBase input, tuple args, dict options):
    """An op in place by computing it and copying the result in; recorded where gradients are wanted."""
    cdef Op function = form.op
    cdef TensorBase source = input, result
    cdef object x
    cdef bint recorded
    if form.geometry:
        source = as_viewed(form.name, input)
        return show_as(input, PyObject_Call(function, (source,) + args, <PyObject*>options))
    if options and options.get("dtype") is not None and _as_dtype(options["dtype"]) is not input.dtype:
        raise DTypeError(f"{form.name}: dtype {options['dtype']} is not that of the tensor changed in place, {input.dtype}")
    recorded = input.requires_grad                              # of what stands in for a batch, that of the batch
    for x in args + tuple(options.values()) if options else args:
        if isinstance(x, TensorBase):
            recorded = recorded or x.requires_grad
            if (<TensorBase>x).shape:                           # one without dimensions is a number that is read first
                check_apart(form.name, input, <TensorBase>x, function.details.apart is not None)
    recorded = recorded and grad_mode()
    if recorded:
        check_inplace(function.name, input)
        source = _clone(input if input.storage.version < 0 else as_before(input))       # a copy: the function may save its input
    result = PyObject_Call(function, (source,) + args, <PyObject*>options)
    if result.shape != input.shape and form.grows and input._base is None:
        _core.assign(input, _core.view(result, result.shape, result._strides, result.offset))
        return take_history(input, result) if recorded else input
    if result.shape != input.shape:
        raise ShapeError(f"{form.name}: the result has shape {result.shape} but the tensor changed in place has {input.shape}; "
                         f"use the out-of-place {function.name}")
    check_stored(function.name, result.dtype, input)
    if recorded:
        return overwrite(input, result)
    if result is input:                                     # a dropout in evaluation, say: nothing is written
        _check_inferred(input)
        return input
    check_elements(function.name, input)
    if result.dtype is not input.dtype:
        result = _cast(result, dtype=input.dtype)
    if input.storage.version < 0:
        return in_batch(input, result)
    copy_into(input, result)
    return input


cdef bint _any_wants(TensorBase target, tuple others) except -1:
    """Whether one of these tensors is part of a graph."""
    cdef object x
    for x in others:
        if isinstance(x, TensorBase) and wants(<TensorBase>x):
            return True
    return wants(target)


cdef bint _alike(TensorBase target, tuple inputs, Primitive op):
    """Whether what is to be changed in place is met by numbers and tensors of its dtype alone (`where`: and by a mask) that broadcast to
    its shape, none of which shares its memory."""
    cdef object x
    cdef TensorBase t
    for x in inputs:
        if isinstance(x, TensorBase):
            t = <TensorBase>x
            if t is target:
                continue
            if t.storage.device is not target.storage.device or same_bytes(t.storage, target.storage):
                return False
            if t.dtype is not target.dtype and (t.dtype.code != BOOL or op.name != "where"):
                return False
            if t.shape is not target.shape and t.shape != target.shape and not fits(t.shape, target.shape):
                return False
        elif type(x) is not float and type(x) is not int:
            return False
    return True


cdef object apply_into(Primitive op, TensorBase target, tuple others):
    """target = op(target, *others) in place."""
    cdef object x
    if PyTuple_GET_SIZE(others) + 1 != op.count:
        raise CallError(f"{op.name}_: takes {op.count - 1} operands, got {len(others)}")
    if not all([isinstance(x, (TensorBase, float, int)) for x in others]):
        others = tuple([x if isinstance(x, (TensorBase, float, int)) else _as_operand(op, x, (target,) + others) for x in others])
    return run_into(op, target, (target,) + others)


cdef object run_into(Primitive op, TensorBase target, tuple inputs):
    """target = op(*inputs) in place, wherever it is among these tensors and numbers."""
    cdef object x, source
    cdef TensorBase t
    cdef DType dtype = target.dtype
    cdef bint recorded, plain = PLAIN_MASK >> dtype.code & 1, alike = True      # nothing to promote; of one shape
    if target.storage.version < 0:
        return _apply_in_batch(op, target, inputs)
    recorded = wants(target)
    for x in inputs:
        if x is target:
            continue
        if isinstance(x, TensorBase):
            t = <TensorBase>x
            recorded = recorded or wants(t)
            if same_bytes(t.storage, target.storage):
                check_apart(f"{op.name}_", target, t)
            if t.storage.device is not target.storage.device:
                inputs, plain, alike = _mixed_devices(op, inputs, None), False, False
                break
            plain = plain and (t.dtype is dtype or t.dtype.code == BOOL and t is inputs[0] and not op.promoted[0])
            alike = alike and (t.shape is target.shape or t.shape == target.shape)
        elif op.tensors > 1:
            raise DTypeError(f"{op.name}_: {op.names[1]} must be a tensor, got {type(x).__name__}; make it one by volta.tensor()")
        else:
            plain = plain and dtype.code != BFLOAT16 and (type(x) is float or type(x) is int)
    if not plain:
        dtype = common_dtype(op, inputs)
    if not op.common >> dtype.code & 1:
        refuse_dtype(op, dtype.code)
    if op.tests:
        dtype = dtype_of(BOOL)
    check_stored(op.name, dtype, target)
    if not alike and broadcast(op, inputs) != target.shape:
        refuse_shape(op, broadcast(op, inputs), target)
    if recorded and grad_mode() and not op.unrecorded:
        check_inplace(op.name, target)
        source = _copied(as_before(target)) if _keeps(op, inputs, target) else as_before(target)
        return overwrite(target, apply(op, tuple([source if x is target else x for x in inputs]), {}))
    check_elements(op.name, target)
    if dtype is target.dtype:
        call_kernel(op, target.storage.device, inputs if plain else promoted(op, inputs), None, target)
    else:
        copy_into(target, apply(op, inputs, {}))
    return target


cdef TensorBase _copied(TensorBase source):
    """A copy with the same history, which keeps its values."""
    cdef TensorBase copy = call_kernel(_contiguous, source.storage.device, (source,), None, None)
    copy._node, copy._index, copy._requires_grad = source._node, source._index, source._requires_grad
    return copy


cdef object _apply_in_batch(Primitive op, TensorBase target, tuple inputs):
    cdef object x, source
    cdef TensorBase result
    if grad_mode() and any([x.requires_grad for x in inputs if isinstance(x, TensorBase)]):
        source = apply(_contiguous, (target,), {})                  # which the node may keep
        inputs = tuple([source if x is target else x for x in inputs])
    result = apply(op, inputs, {})
    check_stored(op.name, result.dtype, target)
    if result.shape != target.shape:
        refuse_shape(op, result.shape, target)
    return overwrite(target, result)


cdef int refuse_shape(Primitive op, shape, TensorBase target) except -1:
    raise ShapeError(f"{op.name}_: the result has shape {shape} but the tensor changed in place has {target.shape}; "
                     f"use the out-of-place {op.name}")


def into(Primitive op not None, TensorBase target not None, *others):
    """An elementwise record in place: target = op(target, *others), recorded where gradients are wanted."""
    return apply_into(op, target, others)


def change(Primitive op not None, TensorBase target not None, tuple inputs not None):
    """target = op(*inputs) in place, wherever it is among these."""
    return run_into(op, target, inputs)


def write(Primitive op not None, TensorBase out not None, tuple inputs not None):
    """Let an elementwise record write its result straight into `out`, unrecorded. Gives False, with nothing done, unless the result
    has its shape and dtype and shares no memory with an input, but may be one."""
    cdef object x
    cdef DType dtype
    if PyTuple_GET_SIZE(inputs) != op.count:
        return False
    for x in inputs:
        if isinstance(x, TensorBase):
            if (<TensorBase>x).storage.device is not out.storage.device or (
                    x is not out and same_bytes((<TensorBase>x).storage, out.storage)):
                return False
        elif type(x) is not float and type(x) is not int:
            return False
    dtype = common_dtype(op, inputs)
    if not op.common >> dtype.code & 1 or (dtype_of(BOOL) if op.tests else dtype) is not out.dtype or broadcast(op, inputs) != out.shape:
        return False
    check_elements(op.name, out)
    call_kernel(op, out.storage.device, promoted(op, inputs), None, out)
    return True


cdef bint _keeps(Primitive op, tuple inputs, TensorBase target) except -1:
    """Whether op(*inputs), recorded, keeps `target` for its derivative. What is composed of other ops may."""
    cdef Py_ssize_t i
    cdef unsigned long long mask = 0
    cdef Plan plan
    if op.vjp is None:
        return op.reference is not None
    for i in range(PyTuple_GET_SIZE(inputs)):
        if (op.joint or op.vjp[i] is not None) and isinstance(<object>inputs[i], TensorBase) and wants(<TensorBase>inputs[i]):
            mask |= <unsigned long long>1 << i
    plan = op.plan(mask)
    return any([plan.kinds[i] == INPUT and inputs[plan.places[i]] is target for i in range(plan.count)])


cpdef int check_stored(str name, DType dtype, TensorBase target) except -1:
    """Raise where a result of this dtype cannot be written into `target`."""
    if dtype.category > target.dtype.category:
        raise DTypeError(f"{name}_: the result is {dtype} and cannot be stored in place in {target.dtype}")


def check_inplace(str name, TensorBase target not None):
    """Raise where a recorded in-place write is impossible."""
    cdef TensorBase base = target if target._base is None else target._base
    if target._base is not None:
        check_alone(target, "it is")
    if base._requires_grad and base._node is None and (target._view is None or base is not target):
        view = "" if base is target else "a view of "
        raise AutogradError(f"{name}_: {view}a leaf tensor that requires grad (shape {base.shape}) cannot be changed in place; "
                            f"do it under no_grad(), or use the out-of-place op")
    if target._view is not None and target._base is None:
        raise AutogradError(f"{name}_: the tensor of shape {target.shape} is a view made under no_grad(), or what volta.func "
                            f"differentiates for, so a recorded change of it would be missing from its history; clone() it first")
    check_elements(name, target)


def check_inferred(TensorBase target not None):
    """Raise for what was made in `inference_mode`, outside of it."""
    _check_inferred(target)


cdef inline int _check_inferred(TensorBase target) except -1:
    if target._view is not None and target._base is None and target._view is of_recorded and grad_mode():
        raise AutogradError(f"an operation in place: the tensor of shape {target.shape} is a view made under no_grad(), or part of what "
                            f"volta.func differentiates for, so a change of it would be missing from its history; clone() it first")
    if target.storage.version >= INFERRED and not _core.inferring():
        raise AutogradError("Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal "
                            "tensor before doing inplace update.")
    return 0


cpdef bint repeated(TensorBase target):
    """Whether places of a tensor are one element in memory, since it is expanded."""
    return not target.contiguous and any([s == 0 and n > 1 for n, s in zip(target.shape, target._strides)])


cpdef int check_elements(str name, TensorBase target) except -1:
    """Raise where places of the tensor written to are one element in memory, and outside of `inference_mode` for what was made there."""
    _check_inferred(target)
    if repeated(target):
        raise AutogradError(f"{name}_: unsupported operation: more than one element of the written-to tensor refers to a single memory "
                            f"location, since it is expanded; clone() it before writing")


def check_apart(str name, TensorBase target not None, TensorBase other not None, bint whole=False):
    """Raise where a tensor that is read shares part of the memory of the one written to, or (`whole`) all of it. As in PyTorch that is
    asked of tensors without gaps, and of one that is both."""
    cdef Py_ssize_t start = target.offset * target.dtype.itemsize, end = start + target.size * target.dtype.itemsize
    cdef Py_ssize_t low = other.offset * other.dtype.itemsize, high = low + other.size * other.dtype.itemsize
    if not same_bytes(target.storage, other.storage) or low >= end or start >= high or not (
            target is other or dense(target) and dense(other)):
        return
    if whole or target.shape != other.shape or low != start or high != end or not (
            target.contiguous and other.contiguous or target._strides == other._strides):
        raise ArgumentError(f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                            f"memory location; clone() the input tensor before writing")


def as_before(TensorBase target not None):
    """A tensor that stands for `target`, with its history, before an in-place change. As in PyTorch, hooks on a view hear nothing of what
    is made of it by a change of what it shows."""
    cdef TensorBase out
    if target._base is not None and heard(target):
        return replay(as_before(target._base), target._view)
    out = <TensorBase>_core.alias(target)
    out._node, out._index, out._requires_grad = target._node, target._index, target._requires_grad
    return out


cdef copy_into(TensorBase target, TensorBase source):
    """target[...] = source of the same shape, unrecorded."""
    call_kernel(_copy, target.storage.device, (target, source), None, None)


def in_batch(TensorBase target not None, value):
    """target[...] = a number, or a tensor of its shape and dtype, where `target` stands in for a batch."""
    return _written(target, value)


def put_in_batch(TensorBase target not None, TensorBase rows not None, int rank, value):
    """target[rows] = value, where `target` stands in for a batch and `rows` are positions in its first `rank` dimensions joined."""
    _put(target, rows, rank, value)


def overwrite(TensorBase target not None, TensorBase result not None):
    """Write `result` into `target` and give it the result's history: an in-place op whose value is already computed."""
    if result.dtype is not target.dtype:
        result = _cast(result, dtype=target.dtype)
    if target.storage.version < 0:
        return in_batch(target, result)
    copy_into(target, result)
    return take_history(target, result)


def take_history(TensorBase target not None, TensorBase result not None):
    """Give `target`, whose data has just become those of `result`, the history of `result`. Where it is a view, its base gets one
    in which the part that the view shows was overwritten; other views follow when they are used next."""
    cdef TensorBase base = target if target._base is None else target._base
    cdef object before = base._node
    if base is target and result._requires_grad:
        target._node, target._index = result._node, result._index
        target._requires_grad = True
        target._node_version = target.storage.version
    else:
        needs = (base._requires_grad, result._requires_grad)
        custom_node(_overwrite(target._view, base._strides, needs), (as_before(base), result), (base,))
        if base is not target:
            target._node_version = -1                   # its history is a part of that of the base from now on
    retain_after(base, before)
    return target


def as_viewed(str name, TensorBase target not None):
    """What a change of the geometry of `target` (`x.squeeze_()`) is to be a view of: `target`, or, where that is no view itself, a
    tensor that stands for it as it was and takes its place as the base of its views.

    Raises: AutogradError for a leaf that wants a gradient and views of it, one of several views of one call, and under no_grad for what
    has a history.
    """
    cdef TensorBase base
    _check_inferred(target)
    if target.storage.version < 0:
        return target
    if wants(target):
        base = target if target._base is None else target._base
        if base is not target and grad_mode():
            check_alone(target, "it is")
        if base._node is None and base._requires_grad and grad_mode():
            raise AutogradError(f"{name}: {'' if base is target else 'a view of '}a leaf tensor that requires grad (shape {base.shape}) "
                                f"cannot change its shape in place; do it under no_grad(), or use the out-of-place op")
        if target._node is not None and not grad_mode():
            raise AutogradError(f"{name}: the tensor of shape {target.shape} has a history, which a change of its shape under "
                                f"no_grad() would contradict; detach() it first, or use the out-of-place op")
    return as_before(target) if target._view is None else target


def show_as(TensorBase target not None, TensorBase result not None):
    """Let `target` show what `result` does, which is a view of `as_viewed(target)`: shape, strides and history."""
    if result is target or target.storage.version < 0:
        return target if result is target else _shown(target, result)
    cdef TensorBase base = result._base
    cdef Shown view = result._view
    cdef object before = target._node
    if target._view is None or base is not None and (<Shown?>target._view).in_place:
        if base is None:
            view = None
        else:
            view.in_place = True
    _core.assign(target, result)
    target.storage.version += 1
    if target._requires_grad and target._node is None:              # a leaf, under no_grad
        return target
    target._node, target._index, target._requires_grad = result._node, result._index, result._requires_grad
    target._base, target._view, target._node_version = base, view, target.storage.version
    retain_after(target, before)
    return target
