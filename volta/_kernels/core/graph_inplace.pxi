# In-place changes, and the views that see them: part of graph.pyx.
#
# A view (`_base`, `_view`) knows the tensor that it shows a part of, which is no view itself, and how it was made. A recorded change of
# a view gives the base a new history, in which that part was overwritten; a view whose base has changed since replays how it
# was made when it is used next (`_renew`).

# ---------------------------------------------------------------- in place

cdef object apply_into(Primitive op, TensorBase target, tuple others):
    """target = op(target, *others) in place."""
    if len(others) + 1 != len(op.inputs):
        raise ArgumentError(f"{op.name}_: takes {len(op.inputs) - 1} operands, got {len(others)}")
    others = tuple([x if isinstance(x, (TensorBase, float, int)) else _as_operand(op, x, (target,)) for x in others])
    cdef tuple inputs = (target,) + others
    cdef object x
    cdef bint wants = wants_grad(target)
    for x in others:
        if isinstance(x, TensorBase):
            wants = wants or wants_grad(<TensorBase>x)
            if (<TensorBase>x).storage.device is not target.storage.device:
                inputs = _mixed_devices(op, inputs, None)
                break
    shape = check_broadcast(op, inputs)
    if shape != target.shape:
        raise ShapeError(f"{op.name}_: the result has shape {shape} but the tensor changed in place has {target.shape}; "
                         f"use the out-of-place {op.name}")
    dtype = result_type(*inputs)
    if op.promotion == 2 and not dtype.is_floating_point:
        dtype = dtype_of(FLOAT32)
    if dtype.category > target.dtype.category:
        raise DTypeError(f"{op.name}_: the result is {dtype} and cannot be stored in place in {target.dtype}")
    if wants and volta_grad_mode:
        check_inplace(op.name, target)
        source = as_before(target)
        result = apply(op, tuple([source if x is target else x for x in inputs]), {})
        _keep(<TensorBase>result, <TensorBase>source)
        return adopt(target, result)
    check_elements(op.name, target)
    kernel = op.gpu if target.storage.device.is_gpu else op.cpu
    if dtype is target.dtype:
        kernel.into(target, *_promote(op, inputs))
    else:
        _copy_into(target, apply(op, inputs, {}))
    target.storage.version += 1
    return target


def check_inplace(str name, TensorBase target not None):
    """Raise where a recorded in-place write is impossible."""
    cdef TensorBase base = target if target._base is None else target._base
    if base._requires_grad and base._node is None:
        view = "" if base is target else "a view of "
        raise AutogradError(f"{name}_: {view}a leaf tensor that requires grad (shape {base.shape}) cannot be changed in place; "
                            f"do it under no_grad(), or use the out-of-place op")
    if target._view is not None and target._base is None:
        raise AutogradError(f"{name}_: the tensor of shape {target.shape} is a view made under no_grad(), so a recorded change of it "
                            f"would be missing from the history of what it shows; make the view outside, or change it inside")
    check_elements(name, target)


def check_elements(str name, TensorBase target not None):
    """Raise where places of the tensor written to are one element in memory."""
    if not target.contiguous and any([s == 0 and n > 1 for n, s in zip(target.shape, target._strides)]):
        raise AutogradError(f"{name}_: an expanded tensor holds one element many times; clone() it before writing")


def as_before(TensorBase target not None):
    """A tensor that stands for `target`, with its history, before an in-place change."""
    cdef TensorBase out = <TensorBase>_core.alias(target)
    out._node, out._index, out._requires_grad = target._node, target._index, target._requires_grad
    return out


cdef _keep(TensorBase result, TensorBase source):
    """Where the op that made `result` saved `source`, whose data is about to change, give it a copy instead."""
    cdef Node node = result._node
    cdef TensorBase copy
    cdef Py_ssize_t i
    if node is None or node.saved is None:
        return
    for i in range(PyTuple_GET_SIZE(node.saved)):
        if <object>node.saved[i] is source:
            copy = (_contiguous.gpu if source.storage.device.is_gpu else _contiguous.cpu)(source)
            copy._node, copy._index, copy._requires_grad = source._node, source._index, source._requires_grad
            node.saved = node.saved[:i] + (copy,) + node.saved[i + 1:]
            node.versions = node.versions[:i] + (copy.storage.version,) + node.versions[i + 1:]


def adopt(TensorBase target not None, TensorBase result not None):
    """Write `result` into `target` and make its history the target's: an in-place op whose value is already computed."""
    if result.dtype is not target.dtype:
        result = _cast(result, dtype=target.dtype)
    _copy_into(target, result)
    return settle(target, result)


def settle(TensorBase target not None, TensorBase result not None):
    """Give `target`, whose data has just become those of `result`, the history of `result`. Where it is a view, its base gets one
    in which the part that the view shows was overwritten; other views follow when they are used next."""
    cdef TensorBase base = target if target._base is None else target._base
    target.storage.version += 1
    if base is target and result._requires_grad:
        target._node = result._node
        target._index = result._index
        target._requires_grad = True
        target._node_version = target.storage.version
    else:
        needs = (base._requires_grad, result._requires_grad)
        custom_node(_overwrite(target._view, base._strides, needs), (as_before(base), result), (base,))
    return target


# ---------------------------------------------------------------- views

cdef _track(Primitive op, TensorBase x, dict params, TensorBase out):
    """Note what a view shows, so that in-place changes of it reach its base's history, and the other way round."""
    if out.storage is not x.storage or not x.dtype.is_floating_point:
        return
    if not volta_grad_mode or (x._view is not None and x._base is None):
        out._view = ()
        return
    out._base = x if x._base is None else x._base
    out._view = (x._view, op, params)
    out._node_version = out.storage.version


def replay(TensorBase x not None, view):
    """The view of `x` that is made as `view` (a tensor's `_view`) says."""
    steps = []
    while view is not None:
        view, op, params = view
        steps.append((op, params))
    for op, params in reversed(steps):
        x = apply(op, (x,), params)
    return x


cdef bint _renew(TensorBase t) except -1:
    """Whether a gradient is to flow to this view. If its base was changed in place since, it first gets the history of what it
    shows now."""
    global volta_grad_mode
    cdef TensorBase fresh
    if t._node_version != t.storage.version and t._base._requires_grad:
        previous = volta_grad_mode
        volta_grad_mode = True
        try:
            fresh = replay(t._base, t._view)
        finally:
            volta_grad_mode = previous
        t._node, t._index, t._requires_grad, t._node_version = fresh._node, fresh._index, True, t.storage.version
    return t._requires_grad


def wants_grad(TensorBase t not None):
    """Whether a gradient is to flow to `t`; a view's history is brought up to date."""
    return _renew(t) if t._base is not None else t._requires_grad
