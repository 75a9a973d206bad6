"""The GPU kernels of updates.

Each against NumPy in float64, or PyTorch where it is installed; geometry, views, sizes of 0 and 1, special values.
"""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from gpu_arrays import FLOAT16, FLOAT32, close, fetch, numbers, send

from volta import gpu
from volta._kernels import core
from volta.devices.gpu import many
from volta.devices.gpu import update as gpu_update
from volta.errors import DTypeError
from volta.ops.records.update import UPDATES

pytestmark = pytest.mark.gpu


def apply(name, *lists, **settings):
    """One update of lists of tensors, or of one parameter's tensors."""
    lists = [[x] if isinstance(x, core.TensorBase) else x for x in lists]
    update = UPDATES[name]
    flags = {key: settings.pop(key) for key in update.flags if key in settings}
    gpu_update.KERNELS[name](*lists, *[None] * (len(update.tensors) - len(lists)), **update.factors(**settings), **flags)


def apply_sgd(params, grads, buffers, *args):
    apply("sgd", params, grads, buffers, **dict(zip(("lr", "momentum", "dampening", "weight_decay", "nesterov", "first"), args)))


def apply_adam(params, grads, exp_avgs, exp_avg_sqs, *args):
    apply("adam", params, grads, exp_avgs, exp_avg_sqs,
          **dict(zip(("lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "step"), args)))


def sgd_reference(p, g, buffer, lr, momentum, dampening, weight_decay, nesterov, first):
    g = g + weight_decay * p
    if buffer is not None:
        buffer = g.copy() if first else momentum * buffer + (1 - dampening) * g
        g = g + momentum * buffer if nesterov else buffer
    return p - lr * g, buffer


def adam_reference(p, g, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step):
    correction1, correction2 = 1 - beta1 ** step, 1 - beta2 ** step
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    return p - lr / correction1 * m / (np.sqrt(v / correction2) + eps), m, v


SIZES = [(8,), (3, 5), (1,), (1000,), (64, 36)]
LEADS = [(0, 0), (4, 8), (1, 2)]
SGD = [(0.1, 0.9, 0.0, 0.0, False, True), (0.1, 0.9, 0.3, 0.01, False, False), (0.05, 0.8, 0.0, 0.1, True, False),
       (0.05, 0.8, 0.0, 0.1, True, True)]
ADAM = [(1e-2, 0.9, 0.999, 1e-8, 0.0, False), (1e-2, 0.8, 0.99, 1e-6, 0.1, False), (3e-2, 0.9, 0.95, 1e-8, 0.1, True)]


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("leads", LEADS)
def test_sgd(shape, leads):
    p, g, buffer = (numbers(*shape, seed=s) for s in range(3))
    for args in SGD:
        wide = [a.astype(np.float64) for a in (p, g, buffer)]
        want, want_buffer = sgd_reference(*wide, *args)
        ps, bs = send(p, leads[0]), send(buffer, leads[1])
        apply_sgd(ps, send(g, leads[1]), bs, *args)
        close(ps, want)
        close(bs, want_buffer)
        ps = send(p, leads[0])
        apply_sgd(ps, send(g, leads[0]), None, *args)
        close(ps, sgd_reference(wide[0], wide[1], None, *args)[0])


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("leads", LEADS)
def test_adam(shape, leads):
    p, g, m = (numbers(*shape, seed=s) for s in range(3))
    v = np.abs(numbers(*shape, seed=3))
    for lr, beta1, beta2, eps, weight_decay, decoupled in ADAM:
        state = [a.astype(np.float64) for a in (p, m, v)]
        held = [send(p, leads[0]), send(m, leads[1]), send(v, leads[0])]
        for step in range(1, 4):
            args = (lr, beta1, beta2, eps, weight_decay, decoupled, step)
            state = list(adam_reference(state[0], g.astype(np.float64), *state[1:], *args))
            apply_adam(held[0], send(g, leads[1]), *held[1:], *args)
        for got, want in zip(held, state):
            close(got, want, rtol=2e-5, atol=2e-6)


def test_updates_leave_neighbours_alone():
    base = np.arange(32, dtype=np.float32)
    for size, lead in itertools.product((1, 5, 8), (0, 3, 4)):
        whole = send(base)
        part = core.view(whole, (size,), (1,), lead)
        apply_sgd(part, send(np.ones(size, np.float32)), None, 1.0, 0.0, 0.0, 0.0, False, False)
        want = base.copy()
        want[lead:lead + size] -= 1
        np.testing.assert_array_equal(fetch(whole), want)


def test_updates_of_strided_parameters():
    p, g, buffer = numbers(6, 5), numbers(6, 5, seed=1), numbers(6, 5, seed=2)
    ps, bs = send(p, 2, (1, 0)), send(buffer)
    apply_sgd(ps, send(g, 1, (1, 0)), bs, *SGD[1])
    want = sgd_reference(*[a.astype(np.float64) for a in (p, g, buffer)], *SGD[1])
    close(ps, want[0])
    close(bs, want[1])


@pytest.mark.parametrize("tail", [0, 8])
@pytest.mark.parametrize("count", [1, 2, 7, 10, 25])
def test_updates_of_many(count, tail):
    sizes = [(1 + 37 * i % 50 * (4 if i % 3 else 1),) for i in range(count)]
    leads = [3 if i == 5 else 0 for i in range(count)]
    p, g, m = ([numbers(*s, seed=10 * i + k) for i, s in enumerate(sizes)] for k in range(3))
    v = [np.abs(a) for a in m]
    ps, gs, ms, vs = ([send(a, lead, None, tail) for a, lead in zip(arrays, leads)] for arrays in (p, g, m, v))
    args = (*ADAM[2], 3)
    before = gpu.stats().dispatches
    apply_adam(ps, gs, ms, vs, *args)
    assert gpu.stats().dispatches - before <= (2 if tail == 0 else 3) + count / 7
    for i in range(count):
        want = adam_reference(*[a[i].astype(np.float64) for a in (p, g, m, v)], *args)
        for got, w in zip((ps[i], ms[i], vs[i]), want):
            close(got, w)
    ps, ms = ([send(a, lead, None, tail) for a, lead in zip(arrays, leads)] for arrays in (p, m))
    apply_sgd(ps, gs, ms, *SGD[1])
    for i in range(count):
        want = sgd_reference(*[a[i].astype(np.float64) for a in (p, g, m)], *SGD[1])
        close(ps[i], want[0])
        close(ms[i], want[1])


def test_plain_descent_of_many_is_one_dispatch():
    ps, gs = ([send(numbers(5 + i, seed=i + 20 * k), tail=0) for i in range(12)] for k in range(2))
    want = [fetch(p) - np.float32(0.1) * fetch(g) for p, g in zip(ps, gs)]
    before = gpu.stats().dispatches
    apply_sgd(ps, gs, None, 0.1, 0.0, 0.0, 0.0)
    assert gpu.stats().dispatches - before == 1
    for p, w in zip(ps, want):
        close(p, w)


@pytest.mark.parametrize("limit", [4, 8, 16, 1000])
def test_fewer_or_more_buffers_a_dispatch(limit):
    """A kernel takes as many parameters as the device has bindings for, and never more than its parameters have words for."""
    for variant in gpu_update.VARIANTS.values():
        count = variant.places(limit)
        assert count == 1 or count * len(variant.tensors) + len(variant.scalars) <= min(limit, many.MOST_BUFFERS)
        assert count == 1 or 2 * count - 1 + len(variant.factors) <= 32


def test_every_combination_of_every_update_compiles():
    ctx = gpu.context(0)
    for variant in gpu_update.VARIANTS.values():
        for count in {1, 2, variant.places(32)}:
            for lanes, dtype in itertools.product((1, 4), (FLOAT32, FLOAT16) if ctx.has_f16 else (FLOAT32,)):
                variant.pipeline(ctx, count, lanes, dtype)


@pytest.mark.parametrize("name", UPDATES)
def test_changing_scalars_compiles_and_uploads_nothing(name):
    """What a declaration lists as changing from step to step reaches the kernel as a parameter."""
    update = UPDATES[name]
    settings = {key: value for key, value in update.samples[-1][0].items() if key not in update.flags}
    lists = [[send(np.abs(numbers(16, seed=i)))] for i in range(len(update.tensors))] + [send(np.full((), 2.0, np.float32))] * len(
        update.scalars)
    gpu_update.KERNELS[name](*lists, **update.factors(**settings))
    before = gpu.stats()
    for key in update.changing:
        changed = {"step": 7, "first": False}.get(key, 0.5)
        gpu_update.KERNELS[name](*lists, **update.factors(**{**settings, key: changed}))
    made = gpu.stats() - before
    assert made.dispatches == len(update.changing)
    assert (made.uploads, made.pipelines_created, made.buffers_created, made.bind_groups_created) == (0, 0, 0, 0)


def test_lists_of_several_dtypes_are_refused():
    wide, narrow = send(np.ones(8, np.float32)), send(np.ones(8, np.int32))
    for lists in (([wide, narrow], [wide, wide]), ([wide], [narrow])):
        with pytest.raises(DTypeError, match="sgd: a list must have one dtype, got float32 and int32"):
            apply_sgd(*lists, None, 0.1, 0.0, 0.0, 0.0)
