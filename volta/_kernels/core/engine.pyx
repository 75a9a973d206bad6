# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The backward pass: walking recorded nodes from the outputs to the leaves.

Nodes are taken in falling order of their sequence numbers, from a heap: every consumer of a value has a larger number than the
value's node, so its gradient is complete when its turn comes, and nothing recurses. Knows no op: a node's primitive says how to
turn the gradient of its output into those of its inputs. Public names and documentation are in `volta/autograd.py`.
"""
import threading

from cpython.tuple cimport PyTuple_GET_SIZE

from volta.errors import AutogradError
from volta._kernels import core as _core
from volta._kernels.core import graph as _graph
from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.graph cimport Node, Primitive

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

cdef object _accumulating = threading.RLock()
cdef Primitive _add = None
cdef object _sum_to = None
cdef object _clone = None


def configure(add, sum_to, clone):
    """Give the engine the pieces of higher layers that it calls."""
    global _add, _sum_to, _clone
    _add, _sum_to, _clone = add, sum_to, clone


cdef inline void _push(list heap, Node node):
    """Max-heap by sequence number."""
    cdef Py_ssize_t i = len(heap), parent
    heap.append(node)
    while i > 0:
        parent = (i - 1) >> 1
        if (<Node>heap[parent]).sequence >= node.sequence:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = node


cdef inline Node _pop(list heap):
    cdef Node top = <Node>heap[0], last = <Node>heap.pop()
    cdef Py_ssize_t n = len(heap), i = 0, child
    if n == 0:
        return top
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and (<Node>heap[child + 1]).sequence > (<Node>heap[child]).sequence:
            child += 1
        if (<Node>heap[child]).sequence <= last.sequence:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return top


cdef class _Engine:
    """One backward pass. `pending` maps a node or leaf to its gradient so far; `owned` holds those whose gradient is a
    buffer that only the engine refers to, which later contributions are added into."""
    cdef dict pending
    cdef set owned
    cdef list heap
    cdef bint create_graph, retain_graph
    cdef object wanted                      # None, or the set of nodes and leaves on a path to the asked inputs
    cdef dict captures                      # (node, slot) -> gradient, for asked inputs that are not leaves

    cdef _send(self, object parent, int slot, object gradient):
        """Add a contribution to what `parent` (node or leaf) has."""
        cdef object current, key = parent
        if isinstance(parent, Node) and (<Node>parent).n_outputs > 1:
            key = (parent, slot)
            if parent not in self.pending:
                self.pending[parent] = True
                _push(self.heap, <Node>parent)
        current = self.pending.get(key)
        if current is None:
            self.pending[key] = gradient
            if key is parent and isinstance(parent, Node):
                _push(self.heap, <Node>parent)
        elif self.create_graph:
            self.pending[key] = _add(current, gradient)
        elif key in self.owned:
            _accumulate(<TensorBase>current, gradient)
        else:
            self.pending[key] = _add(current, gradient)
            self.owned.add(key)

    cdef object _take(self, Node node):
        """The gradient (a tuple of them for several outputs) that has arrived at a node; hooks and .grad of it done."""
        cdef object g
        if node.n_outputs == 1:
            g = self.pending.pop(node)
            self.owned.discard(node)
            return self._observe(node, 0, g)
        del self.pending[node]
        grads = []
        for i in range(node.n_outputs):
            g = self.pending.pop((node, i), None)
            self.owned.discard((node, i))
            grads.append(None if g is None else self._observe(node, i, g))
        return tuple(grads)

    cdef object _observe(self, Node node, int slot, object g):
        if node.hooks is None and node.retained is None and self.captures is None:
            return g
        for index, hook in list(node.hooks.values()) if node.hooks is not None else ():
            if index == slot:
                changed = hook(g)
                g = g if changed is None else changed
        for index, reference in node.retained if node.retained is not None else ():
            tensor = reference()
            if index == slot and tensor is not None:
                tensor.grad = g if tensor.grad is None else _add(tensor.grad, g)
        if self.captures is not None and (node, slot) in self.captures:
            self.captures[node, slot] = g
        return g

    cdef run(self):
        cdef Node node
        while self.heap:
            node = _pop(self.heap)
            self._step(node, self._take(node))

    cdef _step(self, Node node, object g):
        """Send the gradients of one node to its parents."""
        cdef Primitive op = node.primitive
        cdef Py_ssize_t i
        cdef object gradient, parent, grads = None
        cdef tuple plan, sources, saved = node.saved        # another thread may free the node's
        if saved is None:
            raise AutogradError(f"backward: the graph of {node.name} has already been freed by an earlier backward; pass "
                                f"retain_graph=True to the first one to go through it again")
        if op is None:
            grads = node.function.gradients(g)
        else:
            plan = <tuple>op.plans[node.mask]
            if PyTuple_GET_SIZE(saved):
                self._check_versions(node)
            if op.joint:
                grads = op.vjp(g, *self._arguments(node, saved, plan[2][0]))
        for i in range(PyTuple_GET_SIZE(node.parents)):
            parent = <object>node.parents[i]
            if parent is None or (self.wanted is not None and parent not in self.wanted):
                continue
            if grads is not None:
                gradient = grads[i]
            else:
                sources = <tuple>(<tuple>plan[2])[i]
                if PyTuple_GET_SIZE(sources) == 0:
                    gradient = op.vjp[i](g)
                else:
                    gradient = op.vjp[i](g, *self._arguments(node, saved, sources))
            if gradient is None:
                continue
            if (<TensorBase>gradient).shape is not node.shapes[i] and (<TensorBase>gradient).shape != node.shapes[i]:
                gradient = _sum_to(gradient, node.shapes[i])
            self._send(parent, node.slots[i] if node.slots is not None else 0, gradient)
        if not self.retain_graph:
            node.saved = None
            node.versions = None
            if op is None:
                node.function.release()

    cdef _check_versions(self, Node node):
        cdef Py_ssize_t i
        cdef TensorBase t
        for i in range(PyTuple_GET_SIZE(node.saved)):
            if isinstance(node.saved[i], TensorBase):
                t = <TensorBase>node.saved[i]
                if t.storage.version != <long long>node.versions[i]:
                    raise AutogradError(
                        f"{node.name}: a tensor of shape {t.shape} that is needed for its gradient was changed in place "
                        f"(version {t.storage.version}, saved at version {node.versions[i]}); use an out-of-place op, or clone() "
                        f"it first")

    cdef bint _is_output(self, Node node, Py_ssize_t position):
        """Whether this saved value is the op's differentiable output."""
        cdef tuple plan = <tuple>node.primitive.plans[node.mask]
        cdef Py_ssize_t k = position - PyTuple_GET_SIZE(<tuple>plan[0])
        return k >= 0 and (<tuple>plan[1])[k] == 0

    cdef list _arguments(self, Node node, tuple saved, tuple sources):
        cdef list out = []
        cdef int kind
        cdef TensorBase t
        for kind, value in sources:
            if kind == 0:
                x = saved[value]
                if self.create_graph and self._is_output(node, value):
                    t = <TensorBase>_core.alias(x)      # an output: relink it to this node for higher orders
                    t._node, t._requires_grad, t._node_version = node, True, t.storage.version
                    x = t
                out.append(x)
            elif kind == 1:
                out.append(node.shapes[value])
            elif kind == 2:
                out.append(node.params.get(value) if node.params is not None else None)
            elif kind == 3:
                out.append(tuple([p is not None for p in node.parents]))
            else:
                out.append(node.shapes)
        return out


cdef _accumulate(TensorBase target, object gradient):
    """target += gradient, unrecorded."""
    (_add.gpu if target.storage.device.is_gpu else _add.cpu).into(target, target, gradient)
    target.storage.version += 1


def run_backward(list roots, list gradients, bint retain_graph, bint create_graph, wanted=None, captures=None):
    """Propagate `gradients` from `roots`; gives dict leaf -> gradient, and the set of those that only the engine refers to.

    `wanted` restricts the walk to these nodes and leaves; `captures` is a dict (node, output index) -> None to be filled.
    """
    cdef _Engine engine = _Engine.__new__(_Engine)
    cdef TensorBase t
    engine.pending, engine.owned, engine.heap = {}, set(), []
    engine.create_graph, engine.retain_graph = create_graph, retain_graph
    engine.wanted, engine.captures = wanted, captures
    previous = _graph.set_grad_mode(create_graph)
    try:
        for root, gradient in zip(roots, gradients):
            t = <TensorBase>root
            engine._send(t._node if t._node is not None else t, t._index if t._node is not None else 0, gradient)
        engine.run()
    finally:
        _graph.set_grad_mode(previous)
    return engine.pending, engine.owned


def accumulate_leaves(dict pending, set owned, bint create_graph):
    """Add what a backward pass gave to the `.grad` of each leaf, running the leaves' hooks."""
    cdef TensorBase leaf
    cdef object gradient, item
    previous = _graph.set_grad_mode(create_graph)
    try:
        while pending:
            item = pending.popitem()
            leaf = <TensorBase>(<tuple>item)[0]
            gradient = <object>(<tuple>item)[1]
            item = None
            _set_gradient(leaf, gradient, leaf in owned, create_graph)
    finally:
        _graph.set_grad_mode(previous)


cdef _set_gradient(TensorBase leaf, object gradient, bint owned, bint create_graph):
    """leaf.grad += gradient. The buffer is taken over where nothing else can see it, else copied."""
    cdef TensorBase current, g
    if leaf._hooks is not None:
        for hook in list(leaf._hooks.values()):
            changed = hook(gradient)
            if changed is not None:
                gradient, owned = changed, False
    g = <TensorBase>gradient
    with _accumulating:                     # other threads may add to the same leaf
        if leaf.grad is not None:
            if not isinstance(leaf.grad, TensorBase):
                raise AutogradError(f"backward: .grad of a leaf of shape {leaf.shape} must be a tensor or None, it is "
                                    f"{type(leaf.grad).__name__}")
            current = <TensorBase>leaf.grad
            if create_graph or current._requires_grad:
                leaf.grad = _add(current, g)
            else:
                _accumulate(current, g)
        elif create_graph or owned or (Py_REFCNT(g) <= 3 and Py_REFCNT(g.storage) == 1 and g.contiguous):
            leaf.grad = g
        else:
            leaf.grad = _clone(g)
