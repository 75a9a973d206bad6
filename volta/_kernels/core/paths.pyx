# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Which part of a graph lies between results and the inputs whose gradients are asked for. Asked by `volta/autograd.py`, before
`engine.pyx` walks there."""
from cpython.tuple cimport PyTuple_GET_SIZE

from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.graph cimport Node
from volta._kernels.core.heap cimport pop, push


def paths(list roots not None, set targets not None):
    """Add to `targets`, nodes and leaves, every node on a path from `roots` to one of them."""
    cdef set seen = set()
    cdef list heap = [], nodes = []
    cdef Node node
    cdef object root, parent
    cdef Py_ssize_t i
    for root in roots:
        parent = (<TensorBase>root)._node
        if parent is not None and parent not in seen:
            seen.add(parent)
            push(heap, <Node>parent)
    while heap:                             # consumers first, as their numbers are larger
        node = pop(heap)
        nodes.append(node)
        for i in range(PyTuple_GET_SIZE(node.parents)):
            parent = <object>node.parents[i]
            if isinstance(parent, Node) and parent not in seen:
                seen.add(parent)
                push(heap, <Node>parent)
    for node in reversed(nodes):
        for i in range(PyTuple_GET_SIZE(node.parents)):
            parent = <object>node.parents[i]
            if parent is not None and parent in targets:
                targets.add(node)
                break
