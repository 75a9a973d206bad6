# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The backward pass: walking recorded nodes from the outputs to the leaves.

Nodes are taken in falling order of their sequence numbers, from a heap: every consumer of a value has a larger number than the
value's node, so its gradient is complete when its turn comes, and nothing recurses. A leaf's gradient is delivered as soon as the
last of its consumers has been taken, while the walk goes on; for that, a first walk counts the consumers. Knows no op: a node's primitive
says how to turn the gradient of its output into those of its inputs. Public names and documentation are in `volta/autograd.py`.
"""
import threading

cimport cython
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE

from volta.errors import AutogradError
from volta._kernels import core as _core
from volta._kernels.core import leaves
from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.call cimport call_kernel, switch_adapting, watching
from volta._kernels.core.grad_mode cimport switch_grad_mode
from volta._kernels.core.graph cimport Node, as_input, unpacked
from volta._kernels.core.heap cimport pop, push
from volta._kernels.core.hooks cimport anomalies, before_hooks, recorded_at
from volta._kernels.core.leaves cimport accumulate, after_hooks, is_alone, is_sample, set_gradient, sum_of
from volta._kernels.core.order cimport pixelwise
from volta._kernels.core.overriding cimport switch_as_tensors
from volta._kernels.core.record cimport (
    ARRIVED, GRADIENT, KEPT, NEEDS, OUTPUT, PARAM, SHAPE, Primitive)

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)             # not of an object: Cython would take a reference of its own to an attribute

cdef unsigned long long _walks = 0
cdef Primitive _add = None
cdef Primitive _slice = None
cdef object _joined = None
cdef object _sum_to = None
cdef object _tie = None
cdef object _laid = None                        # (gradient, pixels) -> the same pixel by pixel, or row-major
cdef object _fused = None                       # (derivative, gradient, arguments) -> what it gives, on a GPU in one dispatch
cdef object _running = threading.local()        # `engine`: that of the backward pass of this thread


def configure(add, slice, joined, sum_to, contiguous, in_order, tie, laid):
    """Give the engine the pieces of higher layers that it calls."""
    global _add, _slice, _joined, _sum_to, _tie, _laid
    _add, _slice, _joined, _sum_to, _tie, _laid = add, slice, joined, sum_to, tie, laid
    leaves.configure(add, contiguous, in_order)


def fuse_by(function):
    """Let this call the derivatives of elementwise records on a GPU."""
    global _fused
    _fused = function


# ---------------------------------------------------------------- the walk

@cython.final
@cython.freelist(256)
@cython.no_gc                               # `_leave` breaks the cycle with its owner
cdef class _Slot:
    """What has arrived at a node or leaf."""
    cdef unsigned long long walk            # of which engine it is
    cdef object owner
    cdef object gradient                    # of a node with several outputs: a list of them; None where nothing has arrived
    cdef list parts                         # (node, gradient) of slices that came before anything else; None or not empty
    cdef bint owned                         # whether it is a buffer that only the engine refers to, so that more can be added into it
    cdef Py_ssize_t consumers               # of a leaf: how many have not been taken yet


cdef inline object _slot_of(object owner):
    """The slot in the field of a node or leaf, which may be that of another engine."""
    return (<Node>owner).slot if isinstance(owner, Node) else (<TensorBase>owner)._slot


cdef inline _put_slot(object owner, object slot):
    if isinstance(owner, Node):
        (<Node>owner).slot = slot
    else:
        (<TensorBase>owner)._slot = slot


cdef class _Engine:
    """One backward pass. Every node and leaf that it can reach has a slot, which is found through a field of its own; where the engine of
    another thread has taken that field, through `index`."""
    cdef unsigned long long walk
    cdef list slots
    cdef dict index                         # id of node or leaf -> _Slot, made when it is first needed
    cdef list heap
    cdef list complete                      # leaves whose gradient is complete
    cdef bint create_graph, retain_graph
    cdef Py_ssize_t given                   # the input whose gradient so far the node's derivative has been given to add to, or -1
    cdef object wanted                      # None, or the set of nodes and leaves on a path to the asked inputs
    cdef dict captures                      # (node, output index) -> gradient, for asked inputs that are not leaves
    cdef dict collected                     # leaf -> gradient where they are asked for; None where they go to .grad

    cdef inline _Slot _at(self, object owner):
        """The slot of a node or leaf that the first walk has reached."""
        cdef object found = _slot_of(owner)
        if found is not None and (<_Slot>found).walk == self.walk:
            return <_Slot>found
        if self.index is None:
            self.index = {id((<_Slot>s).owner): s for s in self.slots}
        return <_Slot>self.index[id(owner)]

    cdef inline _reach(self, object owner):
        """The first walk comes to a node, or to a leaf once more."""
        cdef _Slot slot
        cdef object found = _slot_of(owner)
        if found is not None and (<_Slot>found).walk == self.walk:
            (<_Slot>found).consumers += 1
            return
        slot = _Slot.__new__(_Slot)
        slot.walk, slot.owner, slot.consumers = self.walk, owner, 1
        self.slots.append(slot)
        _put_slot(owner, slot)

    cdef _count_consumers(self, list roots):
        """Give slots to everything that can be reached, and count how many gradients each leaf is going to get: at most that many."""
        cdef Node node
        cdef object parent
        cdef Py_ssize_t i, k = 0
        for root in roots:
            parent = (<TensorBase>root)._node
            self._reach(root if parent is None else parent)
        while k < len(self.slots):              # which is the queue of the walk too
            parent = (<_Slot>self.slots[k]).owner
            k += 1
            if not isinstance(parent, Node):
                continue
            node = <Node>parent
            for i in range(PyTuple_GET_SIZE(node.parents)):
                parent = <object>node.parents[i]
                if parent is not None and (self.wanted is None or parent in self.wanted):
                    self._reach(parent)

    cdef _leave(self):
        """Free the fields."""
        for slot in self.slots:
            if _slot_of((<_Slot>slot).owner) is slot:
                _put_slot((<_Slot>slot).owner, None)

    cdef _send(self, Node node, int output, object gradient):
        """Add a contribution to what a node has."""
        cdef _Slot slot = self._at(node)
        if slot.gradient is None and slot.parts is None:
            push(self.heap, node)
            if node.n_outputs > 1:
                slot.gradient = [None] * node.n_outputs
        if node.n_outputs == 1:
            self._add_to(slot, gradient)
        elif (<list>slot.gradient)[output] is None:
            (<list>slot.gradient)[output] = gradient
        else:
            (<list>slot.gradient)[output] = _add((<list>slot.gradient)[output], gradient)

    cdef inline _add_to(self, _Slot slot, object gradient):
        if slot.parts is not None:
            self._join(slot)
        if slot.gradient is None:
            slot.gradient = gradient
        elif slot.owned and not self.create_graph and not is_sample(gradient):
            accumulate(<TensorBase>slot.gradient, gradient)
        else:
            slot.gradient = sum_of(slot.gradient, gradient)
            slot.owned = not self.create_graph and isinstance(slot.gradient, TensorBase) and not is_sample(slot.gradient)

    cdef bint _add_part(self, Node node, object parent, object g) except -1:
        """Add the gradient of a slice into that part of what has arrived, instead of placing it among zeros first, or keep it until all
        slices have come, which may make up the whole; false where what has arrived is no buffer to add to, or of another shape."""
        cdef _Slot slot = self._at(parent)
        if slot.gradient is None and ((<Node>parent).n_outputs == 1 if isinstance(parent, Node) else parent._shape == node.shapes[0]):
            if slot.parts is None:
                slot.parts = []
                if isinstance(parent, Node):
                    push(self.heap, <Node>parent)
            slot.parts.append((node, g))
        elif slot.owned and isinstance(slot.gradient, TensorBase) and (<TensorBase>slot.gradient).shape == node.shapes[0] and not (
                is_sample(g)):
            _add_slice(slot.gradient, node, g)
        else:
            return False
        if not isinstance(parent, Node):
            self._arrive(parent, None)
        return True

    cdef _join(self, _Slot slot):
        """Make a gradient of those of slices."""
        cdef list parts = slot.parts
        cdef Node node = <Node>parts[0][0]
        slot.parts = None
        slot.gradient = _joined(node.shapes[0], [(part.params, g) for part, g in parts])
        slot.owned = slot.gradient is not None
        if slot.owned:
            return
        for node, g in parts:
            if slot.owned and not is_sample(g):
                _add_slice(slot.gradient, node, g)
            elif slot.gradient is not None:
                self._add_to(slot, self._call(_slice.vjp[0], node, (), <tuple>node.plan.sources[0], g))
            else:
                slot.gradient = self._call(_slice.vjp[0], node, (), <tuple>node.plan.sources[0], g)
                slot.owned = not is_sample(g) and (<TensorBase>slot.gradient).storage is not (<TensorBase>g).storage        # made for this

    cdef _arrive(self, object leaf, object gradient):
        """One consumer of a leaf has been taken; its contribution may be None. After the last one the gradient is complete."""
        cdef _Slot slot = self._at(leaf)
        if gradient is not None:
            self._add_to(slot, gradient)
        slot.consumers -= 1
        if slot.consumers == 0:
            self.complete.append(slot)

    cdef _deliver(self, _Slot slot):
        """Hand a leaf its gradient. IN: nothing but the engine refers to it any more, where nothing else does."""
        cdef object gradient
        if slot.parts is not None:
            self._join(slot)
        gradient = slot.gradient
        if gradient is None:
            return
        slot.gradient = None
        if self.collected is not None:
            self.collected[slot.owner] = after_hooks(<TensorBase>slot.owner, gradient, False)
        else:
            set_gradient(<TensorBase>slot.owner, gradient, slot.owned, self.create_graph)

    cdef object _take(self, Node node):
        """The gradient (a tuple of them for several outputs) that has arrived at a node; hooks and .grad of it done."""
        cdef _Slot slot = self._at(node)
        cdef object g
        if slot.parts is not None:
            self._join(slot)
        g, slot.gradient = slot.gradient, None
        if node.hooks is None and node.retained is None and self.captures is None:
            return g if node.n_outputs == 1 else tuple(g)
        if node.n_outputs == 1:
            return self._observe(node, 0, g)
        return tuple([None if x is None else self._observe(node, i, x) for i, x in enumerate(g)])

    cdef object _observe(self, Node node, int slot, object g):
        """The gradient of a node's output after its hooks. One that is asked for is what arrived where the node runs, as in PyTorch."""
        cdef object arrived = g if self.captures is not None and (node, slot) in self.captures and self._leads_on(node) else None
        for index, hook in list(node.hooks.values()) if node.hooks is not None else ():
            if index == slot:
                changed = hook(g)
                g = g if changed is None else changed
        for index, reference in node.retained if node.retained is not None else ():
            tensor = reference()
            if index == slot and tensor is not None:
                if tensor.grad is None:             # an expanded one could not be written to
                    tensor.grad = g if 0 not in (<TensorBase>g)._strides else g.clone()
                else:
                    tensor.grad = _add(tensor.grad, g)
        if self.captures is not None and (node, slot) in self.captures:
            self.captures[node, slot] = g if arrived is None else arrived
        return g

    cdef object _after_hooks(self, Node node, object grads, tuple saved, object g):
        """The gradients of all inputs of a node, after the functions that its user wants to be called with them."""
        cdef Primitive op = node.primitive
        cdef Py_ssize_t i, k, n = PyTuple_GET_SIZE(node.parents)
        cdef list found = [None] * n if grads is None else list(grads)
        for i in range(n):
            if node.parents[i] is None:
                found[i] = None
            elif grads is None:
                k = i if i < op.count else op.count - 1
                found[i] = self._call(op.vjp[k], node, saved, <tuple>node.plan.sources[k], g)
            if isinstance(found[i], TensorBase) and (<TensorBase>found[i]).shape != node.shapes[i]:
                found[i] = _sum_to(found[i], node.shapes[i])
        for hook in list(node.after.values()):
            changed = hook(tuple(found), g if isinstance(g, tuple) else (g,))
            if changed is not None:
                found = list(changed) if isinstance(changed, tuple) else [changed]
                if len(found) != n:
                    raise AutogradError(f"{node.op}: a hook gave {len(found)} gradients for {n} inputs")
        return found

    cdef bint _leads_on(self, Node node) except -1:
        """Whether anything beyond a node is asked for; its derivative may be a function of a user's, with passes of its own."""
        cdef Py_ssize_t i
        cdef object parent
        for i in range(PyTuple_GET_SIZE(node.parents)):
            parent = <object>node.parents[i]
            if parent is not None and parent in self.wanted:
                return True
        return False

    cdef run(self, list roots, list gradients):
        cdef Node node
        cdef object gradient
        cdef TensorBase t
        self._count_consumers(roots)
        roots.reverse()
        gradients.reverse()
        while roots:
            t = <TensorBase>roots.pop()
            if t._node is None:
                self._arrive(t, gradients.pop())
            else:
                self._send(<Node>t._node, t._index, gradients.pop())
        while self.heap:
            node = pop(self.heap)
            gradient = self._take(node)
            if self.wanted is None or self._leads_on(node):
                self._step(node, gradient)
            gradient = None                     # of which what a leaf gets may be a view
            while self.complete:
                self._deliver(<_Slot>self.complete.pop())
        # Leaves that are roots, or of which a consumer was never reached, since a derivative further up gave no gradient.
        for slot in self.slots:
            if not isinstance((<_Slot>slot).owner, Node):
                self._deliver(<_Slot>slot)

    cdef _step(self, Node node, object g):
        """Send the gradients of one node to its parents."""
        cdef Primitive op = node.primitive
        cdef Py_ssize_t i, k
        cdef object gradient, parent, grads = None
        cdef _Slot slot
        cdef bint part = op is _slice and not self.create_graph and not anomalies and isinstance(g, TensorBase)
        cdef tuple saved = node.saved              # another thread may free the node's
        self.given = -1
        if node.before is not None:
            g = before_hooks(list(node.before.values()), g, node.n_outputs, node.op)
        if saved is None:
            raise AutogradError(f"backward: the graph of {node.op} has already been freed by an earlier backward; pass "
                                f"retain_graph=True to the first one to go through it again")
        if op is None:
            grads = node.function.gradients(g)
        else:
            if PyTuple_GET_SIZE(saved):
                self._check_versions(node)
                if node.unpack is not None:
                    saved = unpacked(node, saved)
            if op.pixels:
                g = _as_result(node, g)
            if op.joint:
                grads = self._call(op.vjp, node, saved, <tuple>node.plan.sources[0], g)
        if node.after is not None:
            grads, part = self._after_hooks(node, grads, saved, g), False
        for i in range(PyTuple_GET_SIZE(node.parents)):
            parent = <object>node.parents[i]
            if parent is None or (self.wanted is not None and parent not in self.wanted):
                continue
            if part and self._add_part(node, parent, g):
                continue
            if grads is not None:
                gradient = grads[i]
            else:
                k = i if i < op.count else op.count - 1
                gradient = self._call(op.vjp[k], node, saved, <tuple>node.plan.sources[k], g)
            if anomalies > 1 and gradient is not None:
                _check_anomaly(node, i, gradient)
            if gradient is not None and not isinstance(gradient, TensorBase):       # sparse, which only leaves take
                gradient = gradient.to_dense() if isinstance(parent, Node) else gradient
            elif gradient is not None and (<TensorBase>gradient).shape is not node.shapes[i] and (
                    (<TensorBase>gradient).shape != node.shapes[i]):
                gradient = _sum_to(gradient, node.shapes[i])
            if i == self.given and gradient is not None:
                slot = self._at(parent)
                slot.gradient, slot.owned, gradient = gradient, False, None
            if self.create_graph and op is not None and op.details is not None and op.details.tied:
                gradient = _tie(gradient, as_input(node, i, gradient) if isinstance(parent, Node) else parent)
            if not isinstance(parent, Node):
                self._arrive(parent, gradient)
            elif gradient is not None:
                self._send(<Node>parent, node.slots[i] if node.slots is not None else 0, gradient)
        if not self.retain_graph and (node.plan.keeps if op is not None else node.function.release()):
            node.saved = None                       # without anything to free, a node can be taken once more
            node.versions = None

    cdef object _arrived(self, Node node, Py_ssize_t i):
        """The gradient that an input has got so far, for the derivative to add to; None where anything else may see it or the addition."""
        cdef object parent = node.parents[i]
        cdef _Slot slot
        if parent is None or self.create_graph or anomalies or watching or self.wanted is not None and parent not in self.wanted:
            return None
        slot = self._at(parent)
        if slot.parts is None and isinstance(slot.gradient, TensorBase) and Py_REFCNT(<PyObject*>slot.gradient) == 1 and (
                is_alone(<TensorBase>slot.gradient)):
            self.given = i
            return slot.gradient
        return None

    cdef object _call(self, object function, Node node, tuple saved, tuple sources, object g):
        """A derivative function on what it asks for."""
        if node.primitive.several:
            return function(*self._arguments(node, saved, sources, g))
        if PyTuple_GET_SIZE(sources) == 0:
            return function(g)
        if node.primitive.pointwise and not node.primitive.joint and (<TensorBase>g).storage.device.is_gpu:
            return _fused(function, g, self._arguments(node, saved, sources, g))
        return function(g, *self._arguments(node, saved, sources, g))

    cdef _check_versions(self, Node node):
        cdef Py_ssize_t i
        cdef TensorBase t
        for i in range(PyTuple_GET_SIZE(node.saved)):
            if isinstance(node.saved[i], TensorBase):
                t = <TensorBase>node.saved[i]
                if t.storage.version != <long long>node.versions[i]:
                    raise AutogradError(
                        f"{node.op}: a tensor of shape {t.shape} that is needed for its gradient was changed in place "
                        f"(version {t.storage.version}, saved at version {node.versions[i]}); use an out-of-place op, or clone() "
                        f"it first")

    cdef object _relinked(self, Node node, Py_ssize_t place, object x):
        """A saved output as an output of its node again, for higher orders."""
        cdef TensorBase t
        cdef Py_ssize_t output = node.plan.places[place]
        if node.plan.kinds[place] != OUTPUT or output not in node.primitive.differentiable:
            return x
        t = <TensorBase>_core.alias(x)
        t._node, t._requires_grad, t._node_version = node, True, t.storage.version
        t._index = <int>output if node.primitive.several else 0
        return t

    cdef list _arguments(self, Node node, tuple saved, tuple sources, object g):
        cdef list out = []
        cdef int kind
        for kind, value in sources:
            if kind == KEPT:
                out.append(self._relinked(node, value, saved[value]) if self.create_graph else saved[value])
            elif kind == SHAPE:
                out.append(node.shapes[value])
            elif kind == PARAM:
                out.append(node.params.get(value) if node.params is not None else None)
            elif kind == NEEDS:
                out.append(tuple([p is not None and (self.wanted is None or p in self.wanted) for p in node.parents]))
            elif kind == GRADIENT:
                out.append(g[value])
            elif kind == ARRIVED:
                out.append(self._arrived(node, value))
            else:
                out.append(node.shapes)
        return out


cdef object _as_result(Node node, object g):
    """What has arrived at a node of images as its result lay: pixel by pixel or not. As that, the gradients that it gives lie."""
    if isinstance(g, tuple):
        return tuple([_as_result(node, x) for x in <tuple>g])
    return _laid(g, node.pixels) if isinstance(g, TensorBase) and pixelwise(<TensorBase>g) != node.pixels else g


cdef _check_anomaly(Node node, Py_ssize_t i, object gradient):
    """Raise where a node's derivative gave NaN, with the lines that recorded it."""
    values = gradient if isinstance(gradient, TensorBase) else gradient._values()
    if not (values != values).any().item():
        return
    raise AutogradError(f"{node.op}: its derivative gave NaN for input {i}, of shape {node.shapes[i]}; the call was recorded "
                        f"{recorded_at(node.trace)}")


cdef _add_slice(object whole, Node node, object gradient):
    """Add the gradient of a slice of `whole` to that part of it."""
    accumulate(<TensorBase>call_kernel(_slice, (<TensorBase>gradient).storage.device, (whole,), node.params, None), gradient)


def run_backward(list roots, list gradients, bint retain_graph, bint create_graph, wanted=None, captures=None, collected=None):
    """Propagate `gradients` from `roots` (both lists are emptied) to the `.grad` of leaves, or, where `collected` is a dict, into that.

    `wanted` restricts the walk to these nodes and leaves; `captures` is a dict (node, output index) -> None to be filled.
    """
    cdef _Engine engine = _Engine.__new__(_Engine)
    cdef object outer = getattr(_running, "engine", None)
    cdef int previous = switch_grad_mode(create_graph), adapting = switch_adapting(False)     # dtypes are those of forward
    cdef int plain = switch_as_tensors(True)                        # gradients are of no class of a program's
    global _walks
    _walks += 1
    _running.engine = engine
    try:
        engine.walk, engine.slots, engine.heap, engine.complete = _walks, [], [], []
        engine.create_graph, engine.retain_graph = create_graph, retain_graph
        engine.wanted, engine.captures, engine.collected = wanted, captures or None, collected
        engine.run(roots, gradients)
    finally:
        _running.engine = outer
        switch_grad_mode(previous)
        switch_adapting(adapting)
        switch_as_tensors(plain)
        engine._leave()


def current():
    """A number of this thread's backward pass, for hooks."""
    return (<_Engine>_running.engine).walk


def reaches(object owner not None):
    """Whether this thread's backward pass comes to a node or leaf, for hooks."""
    cdef _Engine engine = <_Engine>_running.engine
    cdef object found = _slot_of(owner)
    if found is not None and (<_Slot>found).walk == engine.walk:
        return True
    return found is not None and any([(<_Slot>s).owner is owner for s in engine.slots])     # the field is another thread's
