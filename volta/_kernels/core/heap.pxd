# A heap of nodes, that with the largest sequence number first: the order of the backward pass.
from volta._kernels.core.graph cimport Node


cdef inline void push(list heap, Node node):
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


cdef inline Node pop(list heap):
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
