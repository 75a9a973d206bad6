"""Optimizer steps on the GPU, in place, one dispatch per parameter or for several at once.

Beyond the contract of base.py, for front ends that have many parameters (a dispatch costs a fast GPU about 3 us, more than
most parameters' arithmetic):

    sgd_many(params, grads, momentum_buffers, lr, momentum, dampening, weight_decay, nesterov, first)
    adam_many(params, grads, exp_avgs, exp_avg_sqs, lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2)
    amsgrad_many(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, ... as adam_many)

take lists of equal length in place of the tensors (no None among them) and do what a loop over them would.
"""
from __future__ import annotations

from volta.devices.gpu.common import context
from volta.devices.gpu.copy import copy_into
from volta.devices.gpu.plans import THREADS, Plans, ceil_div, dense, need_float32, packer, spare, vector_type, vectors

ADAM_PLACES = 7         # parameters per dispatch: four buffers each, and the smallest limit in use is 31
AMSGRAD_PLACES = 6      # five buffers each
SGD_PLACES = 10         # three buffers each

_plans = Plans()


def _plan(file: str, key: tuple, tensors: tuple, **overrides):
    """(ctx, pipeline, pack, leading parameters, workgroups) of one parameter's step."""
    for t in tensors:
        need_float32(file.removeprefix("update/"), t)
    param = tensors[0]
    ctx = context(param.device)
    lanes = vectors(param._size, *(t.offset for t in tensors))
    pipeline = ctx.pipeline(file, V=vector_type(lanes), **overrides)
    offsets = [t.offset // lanes for t in (tensors[1], param, *tensors[2:])]
    count = param._size // lanes
    plan = _plans[key] = (ctx, pipeline, packer(pipeline), (count, *offsets), ceil_div(count, THREADS))
    return plan


def _through_copies(kernel, tensors: list, args: tuple) -> None:
    """The step on row-major copies, written back: for parameters or states with other strides."""
    copies = [dense(t) for t in tensors]
    kernel(*copies, *args)
    for t, copy in zip(tensors, copies):
        if copy is not t and t is not tensors[1]:
            copy_into(t, copy)


def sgd(param, grad, momentum_buffer, lr, momentum, dampening, weight_decay, nesterov, first):
    """One step of torch.optim.SGD; `momentum_buffer` None is plain descent."""
    if momentum_buffer is None:
        if not (param._contiguous and grad._contiguous):
            return _through_copies(lambda p, g, *rest: sgd(p, g, None, *rest), [param, grad],
                                   (lr, momentum, dampening, weight_decay, nesterov, first))
        storage = param.storage
        key = ("sgd", storage.device, param.dtype, param._size, param.offset, grad.offset)
        plan = _plans.get(key)
        if plan is None:
            plan = _plan("update/sgd", key, (param, grad), MOMENTUM=False)
        ctx, pipeline, pack, lead, groups = plan
        ctx.launch(pipeline, (grad.storage.buffer, storage.buffer, spare(ctx)),
                   pack(*lead, 0, 0, 0, lr, 0.0, 0.0, weight_decay), groups)
        return None
    if not (param._contiguous and grad._contiguous and momentum_buffer._contiguous):
        return _through_copies(sgd, [param, grad, momentum_buffer],
                               (lr, momentum, dampening, weight_decay, nesterov, first))
    storage = param.storage
    key = ("momentum", storage.device, param.dtype, param._size, param.offset, grad.offset, momentum_buffer.offset)
    plan = _plans.get(key)
    if plan is None:
        plan = _plan("update/sgd", key, (param, grad, momentum_buffer), MOMENTUM=True)
    ctx, pipeline, pack, lead, groups = plan
    ctx.launch(pipeline, (grad.storage.buffer, storage.buffer, momentum_buffer.storage.buffer),
               pack(*lead, first, nesterov, lr, momentum, 1.0 - dampening, weight_decay), groups)


def adam(param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2):
    """One step of torch.optim.Adam, or of AdamW where `decoupled`."""
    if not (param._contiguous and grad._contiguous and exp_avg._contiguous and exp_avg_sq._contiguous):
        return _through_copies(adam, [param, grad, exp_avg, exp_avg_sq],
                               (lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2))
    storage = param.storage
    key = (storage.device, param.dtype, param._size, param.offset, grad.offset, exp_avg.offset, exp_avg_sq.offset)
    plan = _plans.get(key)
    if plan is None:
        plan = _plan("update/adam", key, (param, grad, exp_avg, exp_avg_sq))
    ctx, pipeline, pack, lead, groups = plan
    ctx.launch(pipeline, (grad.storage.buffer, storage.buffer, exp_avg.storage.buffer, exp_avg_sq.storage.buffer),
               pack(*lead, *_factors(lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2)), groups)


def _factors(lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2):
    """The last parameters of Adam's shaders."""
    return (0.0 if decoupled else weight_decay, 1.0 - lr * weight_decay if decoupled else 1.0, 1.0 - beta1, beta2, 1.0 - beta2,
            correction2 ** -0.5, eps, lr / correction1)


def amsgrad(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, lr, beta1, beta2, eps, weight_decay, decoupled, correction1,
            correction2):
    """One step of torch.optim.Adam with amsgrad=True, or of AdamW where `decoupled`."""
    tensors = (param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq)
    args = (lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2)
    if not all(t._contiguous for t in tensors):
        return _through_copies(amsgrad, list(tensors), args)
    key = ("amsgrad", param.storage.device, param.dtype, param._size, *[t.offset for t in tensors])
    plan = _plans.get(key)
    if plan is None:
        plan = _plan("update/amsgrad", key, tensors)
    ctx, pipeline, pack, lead, groups = plan
    ctx.launch(pipeline, tuple([t.storage.buffer for t in (grad, param, exp_avg, exp_avg_sq, max_exp_avg_sq)]),
               pack(*lead, *_factors(*args)), groups)


def sgd_many(params, grads, momentum_buffers, lr, momentum, dampening, weight_decay, nesterov, first):
    """`sgd` with momentum for lists of tensors."""
    tail = (first, nesterov, lr, momentum, 1.0 - dampening, weight_decay)
    single = (lr, momentum, dampening, weight_decay, nesterov, first)
    _many("update/sgd_many", SGD_PLACES, (params, grads, momentum_buffers), tail, sgd, single)


def adam_many(params, grads, exp_avgs, exp_avg_sqs, lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2):
    """`adam` for lists of tensors."""
    single = (lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2)
    _many("update/adam_many", ADAM_PLACES, (params, grads, exp_avgs, exp_avg_sqs), _factors(*single), adam, single)


def amsgrad_many(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, lr, beta1, beta2, eps, weight_decay, decoupled, correction1,
                 correction2):
    """`amsgrad` for lists of tensors."""
    single = (lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2)
    _many("update/amsgrad_many", AMSGRAD_PLACES, (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs), _factors(*single), amsgrad,
          single)


def _many(file: str, places: int, lists: tuple, tail: tuple, kernel, single: tuple) -> None:
    by_lanes: dict = {4: [], 1: []}
    for row in zip(*lists):
        simple = True
        for t in row:
            if t.offset or not t._contiguous:
                simple = False
        if simple:
            by_lanes[4 if not row[0]._size & 3 or _owned(row) else 1].append(row)
        else:
            kernel(*row, *single)
    for lanes, rows in by_lanes.items():
        for start in range(0, len(rows), places):
            piece = rows[start:start + places]
            if len(piece) == 1:
                kernel(*piece[0], *single)
            else:
                _launch_many(file, places, lanes, piece, tail)


def _owned(row: tuple) -> bool:
    """Whether all that is written has its storage to itself, so that vec4 may run over the end, into the block's padding."""
    nbytes = 4 * row[0]._size
    for t in row:
        if t.storage.nbytes != nbytes and t is not row[1]:
            return False
    return True


def _launch_many(file: str, places: int, lanes: int, rows: list, tail: tuple) -> None:
    device = rows[0][0].storage.device
    key = (file, device, lanes, *[row[0]._size for row in rows])
    plan = _plans.get(key)
    if plan is None:
        plan = _plan_many(key, file, places, lanes, rows)
    ctx, pipeline, pack, lead, groups, spare_grads, spare_states = plan
    buffers = [row[1].storage.buffer for row in rows]
    buffers += spare_grads
    for row in rows:
        buffers.append(row[0].storage.buffer)
        for t in row[2:]:
            buffers.append(t.storage.buffer)
    buffers += spare_states
    ctx.launch(pipeline, tuple(buffers), pack(*lead, *tail), groups)


def _plan_many(key: tuple, file: str, places: int, lanes: int, rows: list):
    for row in rows:
        for t in row:
            need_float32(file.removeprefix("update/"), t)
    ctx = context(rows[0][0].device)
    pipeline = ctx.pipeline(file, V=vector_type(lanes))
    counts, starts, groups = [], [], 0
    for row in rows:
        counts.append(ceil_div(row[0]._size, lanes))
        starts.append(groups)
        groups += ceil_div(counts[-1], THREADS)
    missing = places - len(rows)
    counts += [0] * missing
    starts += [groups] * missing
    states = missing * (len(rows[0]) - 1)
    plan = _plans[key] = (ctx, pipeline, packer(pipeline), (*counts, *starts[1:]), groups,
                          [spare(ctx, -1 - i) for i in range(missing)], [spare(ctx, i) for i in range(states)])
    return plan


KERNELS = {"sgd": sgd, "adam": adam, "sgd_many": sgd_many, "adam_many": adam_many, "amsgrad": amsgrad,
           "amsgrad_many": amsgrad_many}
