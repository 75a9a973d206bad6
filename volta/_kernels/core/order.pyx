# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""In which order in memory the results of elementwise records lie: that of the inputs, as PyTorch's TensorIterator chooses it.

Kernels make row-major results. Where an input is not row-major, `call_kernel` gives them inputs with permuted dimensions, and its caller
sees what they make with the dimensions back in their places. What is dense in the same order becomes one row for the kernel then.

Also, which results of composed ops are views (`disown`): those that show the memory of an argument.
"""
from volta._kernels.core.base cimport MAX_RANK, TensorBase, contiguous_strides, empty_host, make_tensor, same_bytes

tensor_type = NULL


def set_tensor_type(type cls not None):
    """Name the class of nearly all tensors."""
    global tensor_type
    tensor_type = <void*>cls


cdef enum:
    TENSORS = 6                             # inputs of a record that are looked at; no elementwise record has more

cdef struct Walk:
    int rank
    int count                               # tensors with dimensions
    Py_ssize_t shape[MAX_RANK]              # common to all
    Py_ssize_t steps[TENSORS][MAX_RANK]     # 0 where a tensor is repeated
    int order[MAX_RANK]                     # dimensions, outermost in memory first


cdef bint _gather(Walk* w, tuple inputs):
    """Shape and strides of the tensors, broadcast. False where there is nothing to order."""
    cdef Py_ssize_t i, lead, size, step
    cdef int k
    cdef TensorBase t
    cdef object x
    w.rank = w.count = 0
    for x in inputs:
        if isinstance(x, TensorBase) and len((<TensorBase>x).shape) > w.rank:
            w.rank = <int>len((<TensorBase>x).shape)
    if w.rank < 2:
        return False
    for i in range(w.rank):
        w.shape[i] = 1
    for x in inputs:
        if not isinstance(x, TensorBase) or not len((<TensorBase>x).shape):
            continue
        if w.count == TENSORS:
            return False
        t = <TensorBase>x
        lead = w.rank - len(t.shape)
        for i in range(lead):
            w.steps[w.count][i] = 0
        for i in range(lead, w.rank):
            size = <Py_ssize_t>t.shape[i - lead]
            step = <Py_ssize_t>t._strides[i - lead]
            w.steps[w.count][i] = -step if step < 0 else step
            if size != 1:
                w.shape[i] = size
        w.count += 1
    k = 0
    for x in inputs:
        if not isinstance(x, TensorBase) or not len((<TensorBase>x).shape):
            continue
        t = <TensorBase>x
        lead = w.rank - len(t.shape)
        for i in range(w.rank):
            if w.shape[i] == 0:
                return False
            if w.shape[i] != 1 and i >= lead and <Py_ssize_t>t.shape[i - lead] == 1:
                w.steps[k][i] = 0
        k += 1
    return True


cdef int _compared(const Walk* w, int a, int b) noexcept:
    """1 where dimension a must lie outside dimension b, -1 where it must not, 0 where no tensor tells."""
    cdef int k
    cdef Py_ssize_t outer, inner
    for k in range(w.count):
        outer, inner = w.steps[k][a], w.steps[k][b]
        if outer == 0 or inner == 0:
            continue
        if outer != inner:
            return 1 if outer > inner else -1
        if w.shape[a] > w.shape[b]:
            return 1
    return 0


cdef bint _sort(Walk* w) noexcept:
    """Order the dimensions. PyTorch's insertion from the innermost dimension on, which where no tensor tells looks further outwards.
    False where they stay as they are."""
    cdef int i, j, at, found
    cdef bint changed = False
    cdef int* order = w.order + w.rank - 1                  # order[-j] is the j-th from inside
    for i in range(w.rank):
        order[-i] = w.rank - 1 - i
    for i in range(1, w.rank):
        at = i
        for j in range(i - 1, -1, -1):
            found = _compared(w, order[-j], order[-at])
            if found > 0:
                order[-j], order[-at] = order[-at], order[-j]
                at = j
                changed = True
            elif found < 0:
                break
    return changed


cdef TensorBase _permuted(const Walk* w, TensorBase t):
    """A view of t with the dimensions in order; as many as there are."""
    cdef Py_ssize_t lead = w.rank - len(t.shape), d
    cdef list shape = [], strides = []
    cdef int i
    for i in range(w.rank):
        d = w.order[i] - lead
        shape.append(t.shape[d] if d >= 0 else 1)
        strides.append(t._strides[d] if d >= 0 else 0)
    return make_tensor(t.storage, tuple(shape), tuple(strides), t.offset, t.dtype)


cdef bint _same(TensorBase first, tuple inputs):
    """Whether all inputs are tensors of its shape and strides."""
    cdef object x
    for x in inputs:
        if not isinstance(x, TensorBase) or (<TensorBase>x)._strides != first._strides or (<TensorBase>x).shape != first.shape:
            return False
    return True


cdef bint _lies_so(TensorBase t, tuple strides):
    """Whether these are its strides along all dimensions of several elements."""
    return all([a == b or n == 1 for a, b, n in zip(t._strides, strides, t.shape)])


cdef Order order_of(tuple inputs):
    """How the results of these inputs lie, None where they are row-major."""
    cdef Walk w
    cdef Order order
    cdef Py_ssize_t size = 1
    cdef int i
    cdef bint single = False
    cdef list views, strides
    cdef TensorBase first
    if not _gather(&w, inputs) or not _sort(&w):
        return None
    order = Order.__new__(Order)
    strides, order.places, views = [0] * w.rank, [0] * w.rank, []
    for i in range(w.rank - 1, -1, -1):
        strides[w.order[i]] = size
        order.places[w.order[i]] = i
        single = single or w.shape[w.order[i]] == 1
        size *= w.shape[w.order[i]]
    first = inputs[0] if single and isinstance(inputs[0], TensorBase) else None
    if first is None or not (_same(first, inputs) and dense(first)):
        order.strides = tuple(strides)
    else:                                           # as it lies, along dimensions of one element, too; as images do
        by_pixels = w.rank == 4 and _lies_so(first, pixel_strides(first.shape))
        order.strides = pixel_strides(first.shape) if by_pixels else _forward(first)._strides
    order.shape = tuple([w.shape[i] for i in range(w.rank)])
    for x in inputs:
        views.append(_permuted(&w, <TensorBase>x) if isinstance(x, TensorBase) and len((<TensorBase>x).shape) else x)
    order.inputs = tuple(views)
    return order


cdef object restored(Order order, object result):
    """The result, or results, of a kernel of `order.inputs` with the dimensions in their places."""
    cdef TensorBase t
    if isinstance(result, tuple):
        return tuple([restored(order, each) for each in result])
    t = <TensorBase>result
    return make_tensor(t.storage, order.shape, order.strides if t.contiguous else tuple([t._strides[i] for i in order.places]), t.offset,
                       t.dtype)


def dense_strides(TensorBase t not None):
    """Strides of a new tensor that lies as t does (PyTorch's `preserve_format`), None for the usual ones. They are t's where it has no
    gaps, those of dimensions of one element too."""
    if t.usual:
        return None
    if t.size == 0 or dense(t):
        return t._strides
    cdef Order order = order_of((t,))
    return None if order is None else order.strides


cdef object copied_as(TensorBase x, object result):
    """A new tensor of x's elements with the strides of x where it has no gaps: along dimensions of one element, too."""
    cdef TensorBase t = <TensorBase>result, forward = _forward(x)
    if (x.size == 0 or dense(forward)) and forward._strides != t._strides:
        return make_tensor(t.storage, t.shape, forward._strides, t.offset, t.dtype)
    return t


cdef TensorBase _forward(TensorBase x):
    """What lies as x does, with no dimension that runs backwards. Only its strides are looked at."""
    cdef object step
    for step in x._strides:
        if <Py_ssize_t>step < 0:
            return make_tensor(x.storage, x.shape, tuple([-n if n < 0 else n for n in x._strides]), x.offset, x.dtype)
    return x


cpdef tuple outermost_first(tuple strides):
    """The dimensions of these strides as they lie in memory."""
    return tuple(sorted(range(len(strides)), key=strides.__getitem__, reverse=True))


cdef bint dense(TensorBase t) noexcept:
    """Whether the elements lie side by side, in any order of the dimensions."""
    cdef Py_ssize_t rank = PyTuple_GET_SIZE(t.shape), expected = 1, i
    cdef unsigned int done = 0
    cdef bint found = True
    if t.contiguous:
        return t.size > 0
    while found:                            # the dimension whose elements lie where those found so far end
        found = False
        for i in range(rank):
            if not done >> i & 1 and <Py_ssize_t>t.shape[i] != 1 and <Py_ssize_t>t._strides[i] == expected:
                expected *= <Py_ssize_t>t.shape[i]
                done |= 1 << i
                found = True
    return expected == t.size


cdef bint _lie_alike(tuple lists, Py_ssize_t i):
    """Whether the i-th tensors of these lists, but for None and what is row-major, are dense in one order."""
    cdef TensorBase first = lists[0][i]
    cdef object each
    if first.contiguous or not dense(first):
        return False
    for each in lists:
        if each is not None and ((<TensorBase>each[i])._strides != first._strides or (<TensorBase>each[i]).shape != first.shape):
            return False
    return True


def as_rows(tuple lists not None):
    """Lists of tensors that belong together, the i-th of each (parameters, gradients, states): where these lie densely in one order that is
    not row-major, row-major views of the same elements. Elementwise kernels work on them where they lie."""
    cdef TensorBase t
    cdef tuple shape, order
    cdef object each
    cdef Py_ssize_t i
    cdef list out = None
    for i in range(len(lists[0])):
        if (<TensorBase>lists[0][i]).contiguous or not _lie_alike(lists, i):
            continue
        if out is None:
            out = [None if each is None else list(each) for each in lists]
        t = lists[0][i]
        order = outermost_first(t._strides)
        shape = tuple([t.shape[d] for d in order])
        for each in out:
            if each is not None:
                t = each[i]
                each[i] = make_tensor(t.storage, shape, contiguous_strides(shape), t.offset, t.dtype)
    return lists if out is None else tuple(out)


def order_as(tuple tensors not None):
    """The dimensions of an elementwise result of these tensors, outermost in memory first; None where it is row-major."""
    cdef Order order = order_of(tensors)
    return None if order is None else tuple(sorted(range(len(order.places)), key=order.places.__getitem__))


# ---------------------------------------------------------------- pixel by pixel
# PyTorch's channels_last: the rule for what is made of images, in one place. A record names the inputs that it goes by (`pixels`); what its
# kernels make row-major is copied then (`call.pyx`), and its derivative gets gradients that lie as its result did (`engine.pyx`).

def by_pixels(TensorBase t not None):
    """Whether images or volumes lie with the channels of each pixel together, as PyTorch tells by the strides."""
    return pixelwise(t)


cdef tuple pixel_strides(tuple shape):
    """The strides of images or volumes of this shape that lie so."""
    cdef Py_ssize_t last = len(shape) - 1
    cdef tuple strides = contiguous_strides(shape[:1] + shape[2:] + shape[1:2])
    return strides[:1] + strides[last:] + strides[1:last]


cdef bint suggest_pixels(int mask, tuple inputs) noexcept:
    """Whether one of these inputs lies so."""
    cdef Py_ssize_t i
    cdef PyObject* x
    for i in range(PyTuple_GET_SIZE(inputs)):
        x = PyTuple_GET_ITEM(inputs, i)
        if mask >> i & 1 and isinstance(<object>x, TensorBase) and pixelwise(<TensorBase>x):
            return True
    return False


cdef bint pixelwise(TensorBase t) noexcept:
    cdef Py_ssize_t step, least = 0, channels, rank = PyTuple_GET_SIZE(t.shape)
    cdef Py_ssize_t i, d
    if rank != 4 and rank != 5:
        return False
    channels = <Py_ssize_t>t._strides[1]
    if channels == 0:
        return False
    for i in range(rank):                       # the channels, then the others from the innermost on
        d = 1 if i == 0 else rank - i if i < rank - 1 else 0
        step = <Py_ssize_t>t._strides[d]
        if step < least or t.shape[d] == 0 or d == 0 and least == channels:
            return False
        least = step * <Py_ssize_t>t.shape[d]
    return True


def owned(TensorBase t not None):
    """A view of what nobody else sees, as a tensor of its own."""
    if t.storage.version >= 0:                  # what stands in for a batch is left as it is
        t._base = t._view = None
    return t


cdef int disown(tuple outs, tuple args, dict options) except -1:
    """Let results that are views of what nobody else sees be tensors of their own, which may be changed in place and detached as such."""
    cdef object x, other
    cdef TensorBase t
    cdef list read = None
    for x in outs:
        if not isinstance(x, TensorBase) or (<TensorBase>x)._view is None:
            continue
        t = <TensorBase>x
        if read is None:
            read = []
            if not (_gather_read(args, read) and _gather_read(tuple(options.values()), read)):      # a function may give what it holds
                return 0
        if not any([same_bytes((<TensorBase>other).storage, t.storage) for other in read]) and not any(
                [other is not t and same_bytes((<TensorBase>other).storage, t.storage) for other in outs if isinstance(other, TensorBase)]):
            owned(t)
    return 0


cdef bint _gather_read(object values, list into) except -1:
    """Add tensors among values, and in lists of them, to a list. Gives False where one of them is a function or a module."""
    cdef object x
    for x in values:
        if isinstance(x, TensorBase):
            into.append(x)
        elif isinstance(x, (tuple, list)):
            if not _gather_read(x, into):
                return False
        elif isinstance(x, dict) or callable(x):
            return False
    return True


cdef dict _given = {}                       # (class, function) -> the class of its results


cdef int given_by(object out, str name) except -1:
    """Let a `Result` go by the name of the function that gave it."""
    cdef object kind = _given.get((type(out), name))
    if kind is not None:
        out.__class__ = kind
    elif hasattr(out, "given_by"):
        kind = type(out)
        out.given_by = name
        _given[(kind, name)] = type(out)
    return 0


cdef int relabel(object out, tuple args, dict options, object label) except -1:
    """Call the node that gave a result, if it is none of the arguments', as PyTorch does."""
    cdef object x, node
    cdef Py_ssize_t i, n
    if isinstance(out, tuple):
        for x in <tuple>out:
            relabel(x, args, options, label[0] if type(label) is tuple else label)
        return 0
    if not isinstance(out, TensorBase):
        return 0
    node = (<TensorBase>out)._node
    if node is None:
        return 0
    for x in args:
        if isinstance(x, TensorBase) and (<TensorBase>x)._node is node:
            return 0
    if type(label) is list:
        i, n = label[0], PyTuple_GET_SIZE(args)
        label = label[1 + (n + len(options) > 1 if i < 0 else isinstance(args[i], TensorBase) if i < n else any(
            [isinstance(x, TensorBase) for x in options.values()]))]
    elif type(label) is tuple:
        label = label[1] if PyTuple_GET_SIZE(args) + len(options) == 1 else None
    elif type(label) is not str:
        label = label(args, options)
    if label is not None:
        node.label = label
    return 0


def alike(tuple tensors not None):
    """Whether these tensors have one dtype and one shape, which is neither () nor (0,)."""
    cdef TensorBase first = tensors[0], x
    cdef Py_ssize_t i, rank = PyTuple_GET_SIZE(first.shape)
    for i in range(1, PyTuple_GET_SIZE(tensors)):
        x = tensors[i]
        if x.dtype is not first.dtype or x.shape is not first.shape and x.shape != first.shape:
            return False
    return rank > 1 or rank == 1 and first.shape[0] != 0


def alike_but(tuple tensors not None, Py_ssize_t d):
    """Whether these tensors have one dtype, and shapes that differ along d alone, a dimension of the first."""
    cdef TensorBase first = tensors[0], x
    cdef Py_ssize_t i, k, rank = PyTuple_GET_SIZE(first.shape)
    for i in range(1, PyTuple_GET_SIZE(tensors)):
        x = tensors[i]
        if x.dtype is not first.dtype or PyTuple_GET_SIZE(x.shape) != rank:
            return False
        for k in range(rank):
            if k != d and <Py_ssize_t>x.shape[k] != <Py_ssize_t>first.shape[k]:
                return False
    return True


cdef TensorBase by_columns(tuple lead, Py_ssize_t m, Py_ssize_t n, TensorBase like):
    """An empty tensor of matrices that lie column by column, as LAPACK gives them."""
    cdef TensorBase out = empty_host(lead + (m, n), like.dtype)
    if out.size == 0:
        strides = empty_host(lead + (n, m), like.dtype)._strides[:len(lead)] + (1, max(m, 1))
        return make_tensor(out.storage, out.shape, strides, 0, out.dtype)
    return make_tensor(out.storage, out.shape, out._strides[:len(lead)] + (1, m), 0, out.dtype)
