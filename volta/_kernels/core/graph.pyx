# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Recording the autograd graph: calling an op, and `Node`, one recorded call.

Knows no op and no device. `record.pyx` says what an op is, `call.pyx` runs it, `histories.pyx` knows what views show, `inplace.pyx` changes
tensors, `engine.pyx` walks the graph; public names and documentation are in `volta/autograd.py`. A node refers to its parents, never to
its outputs, so that a graph is freed by reference counts as soon as its last output is.
"""
from cpython.tuple cimport PyTuple_GET_SIZE

from volta.errors import AutogradError, DTypeError, GradientTypeError
from volta._kernels import core as _core
from volta._kernels.core.base cimport BFLOAT16, PLAIN_MASK, TensorBase
from volta._kernels.core.call cimport (
    adapted, broadcast, call_kernel, check_dtypes, promoted, refuse_bool, refuse_dtype, replaced, watching)
from volta._kernels.core.grad_mode cimport grad_mode, switch_grad_mode
from volta._kernels.core.histories cimport Shown, renew, track, wants
from volta._kernels.core.hooks import refuse_inferred
from volta._kernels.core.hooks cimport Packed, anomalies, callers, hooked, name_of, pack, shown
from volta._kernels.core cimport hooks
from volta._kernels.core.order cimport pixelwise
from volta._kernels.core.overriding cimport taken
from volta._kernels.core.record cimport DTYPE, FLOATING, INPUT, OUTPUT, Plan, Primitive, set_apply

cdef unsigned long long _sequence = 0
cdef long long INFERRED = _core.INFERRED
cdef object _mixed_devices = None, _as_operand = None      # set by volta.ops: what recording needs of the layers above


def configure(mixed_devices, as_operand):
    """Give the graph the pieces of higher layers that it calls."""
    global _mixed_devices, _as_operand
    _mixed_devices, _as_operand = mixed_devices, as_operand


def is_grad_enabled():
    """Whether operations are recorded in this thread."""
    return grad_mode() != 0


# ---------------------------------------------------------------- applying an op

cdef object apply(Primitive op, tuple inputs, dict params):
    """Call an op and record it where a gradient is wanted."""
    cdef Py_ssize_t i, n
    cdef TensorBase t, first = None
    cdef int code
    cdef bint uniform = True, alike = True, recorded = False        # alike: of one shape
    cdef object x, result
    if watching:
        result = replaced(op, inputs, params)
        if result is not NotImplemented:
            return result
        inputs = adapted(op, inputs)
    n = PyTuple_GET_SIZE(inputs)
    for i in range(n):
        x = <object>inputs[i]
        if isinstance(x, TensorBase):
            t = <TensorBase>x
            if first is None:
                first = t
            elif t.storage.device is not first.storage.device:
                return _mixed_devices(op, inputs, params)
            else:
                uniform = uniform and t.dtype is first.dtype
                alike = alike and (t.shape is first.shape or t.shape == first.shape)
            if t._requires_grad or (t._base is not None and renew(t)):
                recorded = True
        elif op.promotion and (i >= op.tensors or not isinstance(x, (float, int))):
            if type(x) is not float and type(x) is not int:
                if type(x) is not bool:
                    result = taken(op, inputs, params)
                    if result is not NotImplemented:
                        return result
                    x = _as_operand(op, x, inputs)
                    return apply(op, inputs[:i] + (x,) + inputs[i + 1:], params)
                if op.no_bool:
                    refuse_bool(op, inputs)
        elif x is not None:
            result = taken(op, inputs, params)
            if result is not NotImplemented:
                return result
            raise DTypeError(f"{op.name}: {op.names[i if i < op.count else op.count - 1]} must be a tensor, got {type(x).__name__}; "
                            f"make it one by volta.tensor()")
    if first is None:
        if op.of_numbers and n == 2:
            return apply(op, (_as_operand(op, inputs[0], inputs), inputs[1]), params)
        raise DTypeError(f"{op.name}: needs a tensor, got {', '.join([type(x).__name__ for x in inputs]) or 'nothing'}")
    code = first.dtype.code
    if op.promotion:
        if not uniform or not op.promoted[0] or (not PLAIN_MASK >> code & 1 and (op.promotion == FLOATING or n > 1)) or (code == BFLOAT16
                and (n > 2 and op.rounds or not (isinstance(inputs[0], TensorBase) and isinstance(inputs[n - 1], TensorBase)))):
            inputs = promoted(op, inputs)
        elif not op.common >> code & 1:
            refuse_dtype(op, code)
        if not alike:
            broadcast(op, inputs)
    elif op.accepts != NULL:
        if not (n == 1 and op.alike and op.common >> code & 1):        # the quick answer for an op of one tensor
            check_dtypes(op, inputs)
    elif not uniform:
        _check_floats(op, inputs)
    recorded = recorded and grad_mode()
    if recorded and op.vjp is None and op.reference is not None:
        return op.reference(*inputs, **params)
    result = call_kernel(op, first.storage.device, inputs, params, None)
    if op.is_view:
        track(op, <TensorBase>inputs[0], params, <TensorBase>result)
    if recorded and op.vjp is not None:
        _record(op, inputs, params, result)
    return result


set_apply(apply)


def call(Primitive op not None, tuple inputs not None, dict params not None):
    """op(*inputs, **params) for callers that have a dict at hand, which is kept."""
    return apply(op, inputs, params)


cdef object apply2(Primitive op, object a, object b):
    """`apply` for the commonest call: two float tensors of one device and dtype, or one and a number."""
    cdef TensorBase x, y
    cdef object result
    cdef tuple inputs = (a, b)
    cdef bint recorded
    if not isinstance(a, TensorBase) or watching:
        return apply(op, inputs, {})
    x = <TensorBase>a
    if not PLAIN_MASK >> x.dtype.code & 1:
        return apply(op, inputs, {})
    if isinstance(b, TensorBase):
        y = <TensorBase>b
        if x.dtype is not y.dtype or x.storage.device is not y.storage.device:
            return apply(op, inputs, {})
        if x.shape is not y.shape and x.shape != y.shape:
            broadcast(op, inputs)
        recorded = (x._requires_grad or y._requires_grad or (x._base is not None and renew(x))
                    or (y._base is not None and renew(y)))
    elif (type(b) is float or type(b) is int) and x.dtype.code != BFLOAT16:         # to which most numbers are rounded
        recorded = x._requires_grad or (x._base is not None and renew(x))
    else:
        return apply(op, inputs, {})
    result = call_kernel(op, x.storage.device, inputs, None, None)
    if recorded and grad_mode() and op.vjp is not None:
        _record(op, inputs, None, result)
    return result


cdef _check_floats(Primitive op, tuple inputs):
    """Floating inputs of an op that declares nothing must agree."""
    found = {x.dtype for x in inputs if isinstance(x, TensorBase) and x.dtype.is_floating_point}
    if len(found) > 1:
        given = ", ".join([f"{n} {x.dtype}" for n, x in zip(op.inputs, inputs) if isinstance(x, TensorBase)])
        raise DTypeError(f"{op.name}: the inputs must have one dtype, got {given}; convert with .to(dtype)")


cdef _record(Primitive op, tuple inputs, dict params, object result):
    """Give the differentiable ones among the results (a tensor, or a tuple of tensors) their node."""
    global _sequence
    cdef Py_ssize_t i, k, n = PyTuple_GET_SIZE(inputs)
    cdef TensorBase t, out = <TensorBase>(result[<Py_ssize_t>op.differentiable[0]] if isinstance(result, tuple) else result)
    if not out.dtype.is_floating_point and not op.several:             # a cast to integers
        return
    cdef unsigned long long mask = 0
    cdef list parents = [None] * n, shapes = [None] * n
    cdef object slots = None, x
    cdef Node node = Node.__new__(Node)
    for i in range(n):
        x = <object>inputs[i]
        if not isinstance(x, TensorBase):
            continue
        t = <TensorBase>x
        k = i if i < op.count else op.count - 1
        shapes[i] = t.shape
        if t._base is not None:
            renew(t)
        if not t._requires_grad or not t.dtype.is_floating_point or (not op.joint and op.vjp[k] is None):
            continue
        mask |= <unsigned long long>1 << k
        if t._node is None:
            parents[i] = t
            continue
        parents[i] = t._node
        if t._index:
            if slots is None:
                slots = [0] * n
            slots[i] = t._index
    if mask == 0:
        return
    node.plan = op.plan(mask)
    _save(node, node.plan, inputs, result)
    node.primitive = op
    node.parents, node.shapes = tuple(parents), tuple(shapes)
    node.slots, node.params = slots, params
    node.pixels = op.pixels and pixelwise(out)
    _sequence += 1
    node.sequence = _sequence
    if anomalies:
        node.trace = callers()
    if not op.several:
        node.n_outputs = 1
        _attach(out, node, 0)
        return
    node.n_outputs = len(op.outputs)
    for i in op.differentiable:
        t = <TensorBase>result[i]
        if t is not None and t.dtype.is_floating_point:
            _attach(t, node, i)


cdef inline void _attach(TensorBase out, Node node, int index) noexcept:
    """Make `out` the output of a node with this index."""
    out._node = node
    out._index = index
    out._requires_grad = True
    out._node_version = out.storage.version


cdef _save(Node node, Plan plan, tuple inputs, object result):
    """Keep what the plan names: inputs, their dtypes and devices, and graph-free aliases of outputs."""
    cdef Py_ssize_t i, place
    cdef int kind, previous
    cdef list saved = []
    cdef object x
    if plan.count == 0:
        node.saved = ()
        return
    for i in range(plan.count):
        kind, place = plan.kinds[i], plan.places[i]
        if kind == OUTPUT:
            saved.append(_core.alias(result[place] if isinstance(result, tuple) else result))
        elif kind == INPUT:
            saved.append(inputs[place])
        elif kind == DTYPE:
            saved.append((<TensorBase>inputs[place]).dtype)
        else:
            saved.append((<TensorBase>inputs[place]).storage.device)
    if hooked:
        previous = switch_grad_mode(0)
        try:
            node.unpack = pack(saved)
        finally:
            switch_grad_mode(previous)
    node.saved = tuple(saved)
    node.versions = tuple([_version(x) for x in saved])


cdef object _version(object x):
    """The version of what is saved. Raises: AutogradError for what was made in `inference_mode`."""
    if not isinstance(x, TensorBase):
        return 0
    if (<TensorBase>x).storage.version >= INFERRED:
        refuse_inferred()
    return (<TensorBase>x).storage.version


cdef tuple unpacked(Node node, tuple saved):
    """What a node keeps, as tensors again. An input has its place in the graph again, for higher orders."""
    cdef Py_ssize_t i
    cdef list out = list(saved)
    for i in range(len(out)):
        if not isinstance(out[i], Packed):
            continue
        value, storage, version, shape, dtype = (<Packed>out[i]).value
        if storage is not None and storage.version != version:
            raise AutogradError(f"{node.op}: a tensor of shape {value.shape} that is needed for its gradient was changed in place "
                                f"(version {storage.version}, saved at version {version}); use an out-of-place op, or clone() it first")
        x = node.unpack(value)
        if not isinstance(x, TensorBase):
            raise GradientTypeError(f"{node.op}: unpack_hook must give a tensor, got {type(x).__name__}")
        if (<TensorBase>x).shape != shape or (<TensorBase>x).dtype is not dtype:        # kernels rely on what was saved
            raise AutogradError(f"{node.op}: unpack_hook must give what was saved, {dtype} of shape {shape}, got {x.dtype} of {x.shape}")
        out[i] = as_input(node, node.plan.places[i], x) if node.plan.kinds[i] == INPUT else _core.alias(x)
    return tuple(out)


cdef object as_input(Node node, Py_ssize_t i, object x):
    """x as input i of a node, with the place of that in the graph where a node has given it."""
    cdef TensorBase t
    if grad_mode() and isinstance(node.parents[i], TensorBase):
        return node.parents[i]                  # a leaf, which higher orders look for by itself
    t = <TensorBase>_core.alias(x)
    if isinstance(node.parents[i], Node):
        t._node, t._requires_grad, t._node_version = node.parents[i], True, t.storage.version
        t._index = 0 if node.slots is None else node.slots[i]
    return t


# ---------------------------------------------------------------- nodes

cdef class Node:
    """One recorded call: what its derivative needs, and the nodes that gave its inputs."""

    @property
    def op(self):
        """Name of the op."""
        return self.primitive.name if self.primitive is not None else getattr(self.function, "cls", type(self.function)).__name__

    def name(self):
        """The name as PyTorch forms it, "ExpBackward0", or has it for the same step."""
        return name_of(self, self.label)

    def _sequence_nr(self):
        return self.sequence

    @property
    def next_functions(self):
        """Per input: (the node that gave it, or what adds to its `.grad` where it is a leaf, which output of that it is); (None, 0) for
        one without a gradient, nothing for an argument of a custom function that is no tensor."""
        cdef list found = []
        for i, p in enumerate(self.parents):
            if p is not None:
                found.append((shown(p, Node), self.slots[i] if self.slots else 0) if isinstance(p, Node) else (hooks.accumulation(p), 0))
            elif self.primitive is not None or self.shapes[i] is not None:
                found.append((None, 0))
        return tuple(found)

    @property
    def metadata(self):
        """A dict for what a program wants to keep with the node."""
        self.notes = {} if self.notes is None else self.notes
        return self.notes

    @property
    def saved_tensors(self):
        """What was saved for the derivative, None once freed."""
        if self.function is not None:
            return getattr(self.function, "saved_tensors", None)
        return self.saved if self.unpack is None or self.saved is None else unpacked(self, self.saved)

    def __getattr__(self, str name):
        """What was saved, by PyTorch's names: `_saved_self` is the first input, `_saved_other` another, `_saved_result`, `_saved_dim`."""
        cdef Py_ssize_t i
        if name.startswith("_saved_") and self.primitive is not None:
            if self.params is not None and name[7:] in self.params:
                return self.params[name[7:]]
            for i in range(self.plan.count):
                place, kind = self.plan.places[i], self.plan.kinds[i]
                own = "result" if kind == OUTPUT else None if kind != INPUT else "self" if place == 0 else self.primitive.names[place]
                if name == f"_saved_{own}":
                    if self.saved is None:
                        raise AutogradError(f"{self.op}: what was saved has been freed by backward; pass it retain_graph=True")
                    return self.saved_tensors[i]
        if self.function is not None and not name.startswith("_"):
            return getattr(self.function, name)                     # what a custom function's forward left in ctx
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def register_prehook(self, fn):
        """Call `fn(gradients of the outputs)` before the derivative; the tuple that it gives, if not None, replaces them."""
        self.before = {} if self.before is None else self.before
        return hooks.handle(self.before, fn)

    def register_hook(self, fn):
        """Call `fn(gradients of the inputs, those of the outputs)` after the derivative; a tuple that it gives replaces the former."""
        self.after = {} if self.after is None else self.after
        return hooks.handle(self.after, fn)

    def __repr__(self):
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"


def node_of(TensorBase t not None):
    """The node that made a tensor, as users see it; None for a leaf."""
    wants(t)
    return None if t._node is None else shown(t._node, Node)


def custom_node(object function, tuple inputs, tuple outputs):
    """Record a call of a custom `Function`: `function.gradients(grads)` gives one per input; None stands for an output without one."""
    global _sequence
    cdef Node node = Node.__new__(Node)
    cdef TensorBase t
    parents, shapes, slots = [], [], []
    for x in inputs:
        t = x if isinstance(x, TensorBase) else None
        if t is not None and t.storage.version < 0:                 # it stands in for the samples of `vmap`, which no ops were called with
            raise AutogradError(f"vmap: {type(function).__name__} has a derivative of its own, which is for whole tensors; use operations")
        parents.append(None if t is None or not wants(t) else t if t._node is None else t._node)
        slots.append(0 if t is None else t._index)
        shapes.append(None if t is None else t.shape)
    node.parents, node.shapes, node.slots = tuple(parents), tuple(shapes), slots
    node.function, node.saved, node.n_outputs = function, (), len(outputs)
    _sequence += 1
    node.sequence = _sequence
    if anomalies:
        node.trace = callers()
    for i, x in enumerate(outputs):
        if isinstance(x, TensorBase) and (<TensorBase>x).dtype.is_floating_point:
            _attach(<TensorBase>x, node, i)
    return node


# ---------------------------------------------------------------- what is recorded of a tensor

def wants_derivative(TensorBase t not None):
    """Whether what is made of `t` has a derivative: a gradient, where that is recorded, or a tangent."""
    return wants_derivative((<object>t).physical) if t.storage.version < 0 else (
        grad_mode() and wants(t) or t.storage.tangent is not None)


def wants_grad(TensorBase t not None):
    """Whether a gradient is to flow to `t`; a view's history is brought up to date, but of one of `several`, for which that is refused."""
    return t._requires_grad or t._base._requires_grad if t._base is not None and (<Shown?>t._view).call is not None else wants(t)
