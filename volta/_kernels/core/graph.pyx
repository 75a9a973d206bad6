# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Recording the autograd graph: `Primitive` (an op), `Node` (one recorded call), and the operators of tensors.

Knows no op and no device beyond "each primitive has a kernel for the CPU and one for GPUs". `engine.pyx` walks the graph;
public names and documentation are in `volta/autograd.py`. A node refers to its parents, never to its outputs, so that a graph is freed
by reference counts as soon as its last output is.
"""
import inspect

from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE

from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta._kernels import core as _core
from volta._kernels.core.base cimport BOOL, FLOAT32, INT64, Device, DType, Storage, TensorBase, dtype_of

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int volta_grad_mode = 1;
    #else
    static __thread int volta_grad_mode = 1;
    #endif
    """
    int volta_grad_mode

cdef enum:
    DEVICE = 1000                           # marks "the device of input i" among the saved inputs of a plan

cdef unsigned long long _sequence = 0
# Set by volta.ops: what recording needs of the layers above.
cdef Primitive _cast = None
cdef object _mixed_devices = None
cdef object _as_operand = None
cdef object _copy_into = None
cdef Primitive _contiguous = None
cdef object _overwrite = None


def configure(cast, contiguous, mixed_devices, as_operand, copy_into, overwrite):
    """Give the core the pieces of higher layers that it calls."""
    global _cast, _contiguous, _mixed_devices, _as_operand, _copy_into, _overwrite
    _cast, _contiguous, _mixed_devices, _as_operand = cast, contiguous, mixed_devices, as_operand
    _copy_into, _overwrite = copy_into, overwrite


def is_grad_enabled():
    """Whether operations are recorded in this thread."""
    return volta_grad_mode != 0


def set_grad_mode(bint enabled):
    """Switch recording in this thread; gives the previous setting."""
    global volta_grad_mode
    previous = volta_grad_mode != 0
    volta_grad_mode = enabled
    return previous


# ---------------------------------------------------------------- records

cdef class Primitive:
    """One operation: a kernel for each device and its derivative.

    `vjp` holds a function per input (None where there is no gradient), or a single function that gives all of them as a
    tuple. After the gradient `g`, the parameters of such a function are named after what they receive: an input, an output
    ("out"), a keyword parameter of the op, `<input>_shape`, `<input>_dtype`, `<input>_device`, `needs` (which inputs want a
    gradient) or `shapes` (of all inputs). Only what is named is saved. Without `vjp`, `reference` is recorded in the op's
    place. An op of any number of inputs has inputs ("*",) and a single vjp.
    """

    def __init__(self, str name, tuple inputs, *, vjp=None, str family="", tuple outputs=("out",), reference=None,
                 str promote="none", details=None):
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.family = family
        self.reference = reference
        self.promotion = ("none", "common", "float").index(promote)
        self.details = details
        self.vjp = vjp
        self.joint = callable(vjp)
        self.variadic = inputs == ("*",)
        self.is_view = family == "view"
        functions = (vjp,) if self.joint else (vjp or ())
        if functions and not self.joint and len(functions) != len(inputs):
            raise ArgumentError(f"{name}: {len(functions)} vjp functions for {len(inputs)} inputs")
        self.arguments = tuple([None if f is None else self._sources(f) for f in functions])
        self.plans = [None] * (1 << len(inputs))

    def _sources(self, function):
        """Where each argument after g comes from: (kind, index or name)."""
        sources = []
        for name in list(inspect.signature(function).parameters)[1:]:
            if name in self.inputs:
                sources.append(("input", self.inputs.index(name)))
            elif name in self.outputs:
                sources.append(("output", self.outputs.index(name)))
            elif name.removesuffix("_shape") in self.inputs:
                sources.append(("shape", self.inputs.index(name.removesuffix("_shape"))))
            elif name.removesuffix("_dtype") in self.inputs:
                sources.append(("input", -1 - self.inputs.index(name.removesuffix("_dtype"))))
            elif name.removesuffix("_device") in self.inputs:
                sources.append(("input", -DEVICE - self.inputs.index(name.removesuffix("_device"))))
            elif name in ("needs", "shapes"):
                sources.append((name, 0))
            else:
                sources.append(("param", name))
        return tuple(sources)

    def _plan(self, int mask):
        """(inputs to save, outputs to save, per function its (kind code, value) list) for these wanted gradients."""
        wanted = [self.arguments[0]] if self.joint else [
            self.arguments[i] if mask >> i & 1 and i < len(self.arguments) else None for i in range(len(self.inputs))]
        ins = sorted({i for s in wanted if s for kind, i in s if kind == "input"})
        outs = sorted({i for s in wanted if s for kind, i in s if kind == "output"})

        def place(source):
            kind, value = source
            if kind == "input":
                return (0, ins.index(value))
            if kind == "output":
                return (0, len(ins) + outs.index(value))
            if kind == "shape":
                return (1, value)
            return ({"param": 2, "needs": 3, "shapes": 4}[kind], value)

        plan = (tuple(ins), tuple(outs), tuple([None if s is None else tuple([place(x) for x in s]) for s in wanted]))
        self.plans[mask] = plan
        return plan

    def __repr__(self):
        return f"<Primitive {self.name}>"

    def __reduce__(self):
        return (_primitive, (self.name,))

    def __call__(self, *inputs, **params):
        if not inputs:
            raise ArgumentError(f"{self.name}: needs {'tensors' if self.variadic else ', '.join(self.inputs)} by position, got none")
        return apply(self, inputs, params)

    def into(self, TensorBase target not None, *others):
        """Elementwise in place: target = op(target, *others), recorded where gradients are wanted."""
        return apply_into(self, target, others)


def _primitive(name):
    from volta.ops.table import PRIMITIVES
    return PRIMITIVES[name]


# ---------------------------------------------------------------- applying an op

cdef object apply(Primitive self, tuple inputs, dict params):
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(inputs)
    cdef Device device = None
    cdef TensorBase t
    cdef int code = -1
    cdef bint uniform = True, wants = False
    cdef object x, result
    for i in range(n):
        x = <object>inputs[i]
        if isinstance(x, TensorBase):
            t = <TensorBase>x
            if device is None:
                device = t.storage.device
                code = t.dtype.code
            elif t.storage.device is not device:
                return _mixed_devices(self, inputs, params)
            elif t.dtype.code != code:
                uniform = False
            if t._requires_grad or (t._base is not None and _renew(t)):
                wants = True
        elif self.promotion:
            if type(x) is not float and (type(x) is not int and type(x) is not bool):
                x = _as_operand(self, x, inputs)
                return apply(self, inputs[:i] + (x,) + inputs[i + 1:], params)
        elif x is not None:
            raise DTypeError(f"{self.name}: {self.inputs[i]} must be a tensor, got {type(x).__name__}")
    if device is None:
        return apply(self, (_as_operand(self, inputs[0], None),) + inputs[1:], params)
    if self.promotion:
        if not uniform or (code < FLOAT32 and (self.promotion == 2 or n > 1)):
            inputs = _promote(self, inputs)
        if n > 1:
            check_broadcast(self, inputs)
    elif not uniform:
        _check_dtypes(self, inputs)
    if wants and volta_grad_mode and self.vjp is None and self.reference is not None:
        return self.reference(*inputs, **params)
    kernel = self.gpu if device.is_gpu else self.cpu
    result = kernel(*inputs, **params) if params else kernel(*inputs)
    if self.is_view:
        _track(self, <TensorBase>inputs[0], params, <TensorBase>result)
    if wants and volta_grad_mode and self.vjp is not None:
        _record(self, inputs, params, result)
    return result


cdef object apply2(Primitive self, object a, object b):
    """`apply` for the commonest call: two float tensors of one device and dtype, or one and a number."""
    cdef TensorBase x, y
    cdef object result
    cdef bint wants
    if isinstance(a, TensorBase):
        x = <TensorBase>a
        if x.dtype.code < FLOAT32:
            return apply(self, (a, b), {})
        if isinstance(b, TensorBase):
            y = <TensorBase>b
            if x.dtype is not y.dtype or x.storage.device is not y.storage.device:
                return apply(self, (a, b), {})
            if x.shape is not y.shape and x.shape != y.shape:
                check_broadcast(self, (a, b))
            wants = (x._requires_grad or y._requires_grad or (x._base is not None and _renew(x))
                     or (y._base is not None and _renew(y)))
        elif type(b) is float or type(b) is int:
            wants = x._requires_grad or (x._base is not None and _renew(x))
        else:
            return apply(self, (a, b), {})
        result = (self.gpu if x.storage.device.is_gpu else self.cpu)(a, b)
        if wants and volta_grad_mode and self.vjp is not None:
            _record(self, (a, b), None, result)
        return result
    return apply(self, (a, b), {})


def check_broadcast(Primitive op, tuple inputs):
    """Raise ShapeError unless the shapes of the tensors among `inputs` broadcast together; gives the common shape."""
    cdef tuple shape = None, other
    cdef object x
    for x in inputs:
        if isinstance(x, TensorBase):
            other = (<TensorBase>x).shape
            if shape is None:
                shape = other
            elif shape is not other and shape != other:
                shape = _broadcast(op, inputs, shape, other)
    return shape


cdef tuple _broadcast(Primitive op, tuple inputs, tuple a, tuple b):
    cdef Py_ssize_t n, i, la, lb, m
    if len(a) < len(b):
        a, b = b, a
    n, m = len(a), len(a) - len(b)
    cdef list out = list(a)
    for i in range(m, n):
        la, lb = a[i], b[i - m]
        if la != lb:
            if la == 1:
                out[i] = lb
            elif lb != 1:
                shapes = " and ".join([str(x.shape) for x in inputs if isinstance(x, TensorBase)])
                raise ShapeError(f"{op.name}: shapes {shapes} do not broadcast: sizes {la} and {lb} at dimension {i - n} "
                                 f"differ and neither is 1")
    return tuple(out)


def result_type(*values):
    """PyTorch's promoted dtype of tensors and numbers: a dimensioned tensor outranks a 0-d one, which outranks a number,
    within the same category; a higher category (bool < integer < floating) always wins."""
    cdef int best[3]
    cdef int code, rank, k
    if not values:
        raise ArgumentError("result_type: needs tensors or numbers, got none")
    best[0] = best[1] = best[2] = -1
    for x in values:
        if isinstance(x, TensorBase):
            code = (<TensorBase>x).dtype.code
            rank = 0 if len((<TensorBase>x).shape) else 1
        else:
            rank = 2
            code = BOOL if isinstance(x, bool) else INT64 if isinstance(x, int) else FLOAT32
        best[rank] = max(best[rank], code)
    code = best[0]
    for k in range(1, 3):
        if best[k] >= 0 and (code < 0 or dtype_of(best[k]).category > dtype_of(code).category):
            code = best[k]
    return dtype_of(code)


cdef tuple _promote(Primitive op, tuple inputs):
    """Inputs with every tensor cast to the common dtype. The condition of `where` is left alone."""
    cdef bint skip = op.inputs[0] == "condition"
    cdef DType dtype = result_type(*(inputs[1:] if skip else inputs))
    if op.promotion == 2 and not dtype.is_floating_point:
        dtype = dtype_of(FLOAT32)
    cdef list out = []
    for i, x in enumerate(inputs):
        if isinstance(x, TensorBase) and not (skip and i == 0) and (<TensorBase>x).dtype is not dtype:
            x = _cast(x, dtype=dtype)
        out.append(x)
    return tuple(out)


cdef _check_dtypes(Primitive op, tuple inputs):
    """Floating inputs of an op that does not promote must agree."""
    found = {x.dtype for x in inputs if isinstance(x, TensorBase) and x.dtype.is_floating_point}
    if len(found) > 1:
        given = ", ".join([f"{n} {x.dtype}" for n, x in zip(op.inputs, inputs) if isinstance(x, TensorBase)])
        raise DTypeError(f"{op.name}: the inputs must have one dtype, got {given}; convert with .to(dtype)")


cdef _record(Primitive op, tuple inputs, dict params, object result):
    """Give `result` (a tensor, or a tuple whose first tensor counts) its node."""
    global _sequence
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(inputs)
    cdef TensorBase t, out = <TensorBase>(result[0] if isinstance(result, tuple) else result)
    if not out.dtype.is_floating_point:             # a cast to integers
        return
    cdef int mask = 0
    cdef list parents = [None] * n, shapes = [None] * n
    cdef object slots = None, x
    cdef Node node = Node.__new__(Node)
    for i in range(n):
        x = <object>inputs[i]
        if not isinstance(x, TensorBase):
            continue
        t = <TensorBase>x
        shapes[i] = t.shape
        if t._base is not None:
            _renew(t)
        if not t._requires_grad or not t.dtype.is_floating_point or (not op.joint and op.vjp[i] is None):
            continue
        mask |= 1 if op.variadic else 1 << i
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
    plan = op.plans[mask]
    if plan is None:
        plan = op._plan(mask)
    _save(node, plan, inputs, result)
    node.primitive = op
    node.parents = tuple(parents)
    node.shapes = tuple(shapes)
    node.slots = slots
    node.params = params
    node.mask = mask
    node.n_outputs = 1
    _sequence += 1
    node.sequence = _sequence
    out._node = node
    out._requires_grad = True
    out._node_version = out.storage.version


cdef _save(Node node, tuple plan, tuple inputs, object result):
    """Keep the inputs, and graph-free aliases of the outputs, that the plan names."""
    cdef tuple ins = <tuple>plan[0], outs = <tuple>plan[1]
    if PyTuple_GET_SIZE(ins) == 0 and PyTuple_GET_SIZE(outs) == 0:
        node.saved = ()
        return
    cdef Py_ssize_t i
    cdef list saved = []
    for i in ins:
        if i >= 0:
            saved.append(inputs[i])
        elif i > -DEVICE:
            saved.append((<TensorBase>inputs[-1 - i]).dtype)
        else:
            saved.append((<TensorBase>inputs[-DEVICE - i]).storage.device)
    for i in outs:
        saved.append(_core.alias(result[i] if isinstance(result, tuple) else result))
    node.saved = tuple(saved)
    node.versions = tuple([(<TensorBase>x).storage.version if isinstance(x, TensorBase) else 0 for x in saved])


include "graph_inplace.pxi"


# ---------------------------------------------------------------- nodes

cdef class Node:
    """One recorded call: what its derivative needs, and the nodes that gave its inputs."""

    @property
    def name(self):
        """Name of the op."""
        return self.primitive.name if self.primitive is not None else type(self.function).__name__

    @property
    def next_functions(self):
        """Per input: the parent node, or None."""
        return tuple([p if isinstance(p, Node) else None for p in self.parents])

    @property
    def saved_tensors(self):
        """What was saved for the derivative, None once freed."""
        return self.saved

    def __repr__(self):
        return f"<{self.name} backward>"


def custom_node(object function, tuple inputs, tuple outputs):
    """Record a call of a custom `Function`: `function.gradients(grads)` gives a gradient per input."""
    global _sequence
    cdef Node node = Node.__new__(Node)
    cdef TensorBase t
    parents, shapes, slots = [], [], []
    cdef int mask = 0
    for i, x in enumerate(inputs):
        parent = None
        if isinstance(x, TensorBase):
            t = <TensorBase>x
            if wants_grad(t):
                parent = t._node if t._node is not None else t
                mask |= 1 << i
        parents.append(parent)
        slots.append((<TensorBase>x)._index if isinstance(x, TensorBase) else 0)
        shapes.append((<TensorBase>x).shape if isinstance(x, TensorBase) else None)
    node.parents, node.shapes, node.slots = tuple(parents), tuple(shapes), slots
    node.function = function
    node.saved = ()
    node.mask = mask
    node.n_outputs = len(outputs)
    _sequence += 1
    node.sequence = _sequence
    for i, x in enumerate(outputs):
        t = <TensorBase>x
        if t.dtype.is_floating_point:
            t._node, t._index, t._requires_grad, t._node_version = node, i, True, t.storage.version
    return node


# ---------------------------------------------------------------- operators

cdef Primitive _op_add = None, _op_sub = None, _op_mul = None, _op_div = None


def set_operators(Primitive add, Primitive sub, Primitive mul, Primitive div):
    """Bind the arithmetic operators of tensors."""
    global _op_add, _op_sub, _op_mul, _op_div
    _op_add, _op_sub, _op_mul, _op_div = add, sub, mul, div


cdef class Operators(TensorBase):
    """A tensor with the arithmetic operators, in C so that `a + b` costs no Python frame."""

    def __add__(self, other):
        return apply2(_op_add, self, other)

    def __radd__(self, other):
        return apply2(_op_add, self, other)

    def __sub__(self, other):
        return apply2(_op_sub, self, other)

    def __rsub__(self, other):
        return apply(_op_sub, (other, self), {})

    def __mul__(self, other):
        return apply2(_op_mul, self, other)

    def __rmul__(self, other):
        return apply2(_op_mul, self, other)

    def __truediv__(self, other):
        return apply2(_op_div, self, other)

    def __rtruediv__(self, other):
        return apply(_op_div, (other, self), {})
