"""Pooling on the GPU: one dispatch each way, a thread for each output, or for each element of the gradient."""
from __future__ import annotations

from math import prod

from volta.devices.gpu.common import FLOAT32, INT64, THREADS, ceil_div
from volta.devices.gpu.limits import images as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32

PLANES = 4                  # that share the search for a window, where there are
MANY = 1 << 18              # elements or more
WIDE = 64                   # elements of a window that several threads share, where there are few windows
SHARE = 8                   # of them for each thread, at least
MOST_LANES = 64


def lanes_of(count: int, size: tuple, out: tuple, kernel) -> int:
    """Threads that share a window: as many as make the GPU busy."""
    elements = prod(kernel or [ceil_div(n, m) for n, m in zip(size, out)])
    if elements < WIDE:
        return 1
    most = min(MOST_LANES, elements // SHARE, ceil_div(MANY, max(count, 1)))
    return 1 << most.bit_length() - 1


def _three(values, missing: int = 1) -> tuple:
    """Values of up to three dimensions as (depth, height, width)."""
    return (missing,) * (3 - len(values or ())) + tuple(values or ())


def _words(size: tuple, out: tuple, *vectors) -> tuple:
    """The vectors that the parameters begin with."""
    return sum([(*v, 0) for v in vectors], (*_three(size), prod(size), *_three(out), prod(out)))


def shared_planes(lead: tuple, plane: int) -> tuple:
    """(threads, planes, planes of a thread)."""
    planes = prod(lead)
    together = PLANES if planes * plane >= MANY else 1
    return ceil_div(planes, together) * plane, planes, together


def _fixed(size: tuple, out: tuple, kernel, *others):
    """(kernel, stride, padding, dilation), also of adaptive windows that are all alike."""
    if kernel is not None or any(n % m for n, m in zip(size, out)):
        return kernel, *others
    each = tuple([n // m for n, m in zip(size, out)])
    return each, each, None, None


def _forward(name: str, x, size: tuple, kernel, stride, padding, dilation, divisor, **more):
    need_float32(name, x)
    largest, placed, sizes = name.startswith("max"), name == "max_pool", x.shape[2:]
    kernel, stride, padding, dilation = _fixed(sizes, size, kernel, stride, padding, dilation)
    plan = Plan(x)
    out = plan.output(x.shape[:2] + size, FLOAT32)
    index = plan.output(x.shape[:2] + size, INT64) if placed else None
    count, planes, together = shared_planes(x.shape[:2], prod(size))
    lanes = lanes_of(count, sizes, size, kernel) if together == 1 else 1
    vectors = _words(sizes, size, _three(stride), _three(padding, 0), _three(dilation))
    plan.step("pool/pool", (0, out, index), (*vectors, count, planes, At(0), float(divisor or 0)), ceil_div(count * lanes, THREADS),
              **_variant(sizes, size, kernel, "KERNEL", kernel, MAX=largest, PLACED=placed, PLANES=together, LANES=lanes, **more))
    return plan


def _backward(name: str, g, index, size: tuple, kernel, stride, padding, dilation, divisor, **more):
    need_float32(name, g)
    kernel, stride, padding, dilation = _fixed(size, g.shape[2:], kernel, stride, padding, dilation)
    plan = Plan(g) if index is None else Plan(g, index)
    out = plan.output(g.shape[:2] + size, FLOAT32)
    reach = [d * (k - 1) for d, k in zip(_three(dilation), _three(kernel))]
    last, outs = 0 if index is None else 1, g.shape[2:]
    count, planes, together = shared_planes(g.shape[:2], prod(size))
    vectors = _words(size, outs, _three(padding, 0), reach)
    plan.step("pool/grad", (0, None if index is None else 1, out), (*vectors, count, planes, At(0), At(last), float(divisor or 0)),
              ceil_div(count, THREADS), **_variant(size, outs, kernel, "STRIDE", stride, MAX=index is not None, PLANES=together, **more))
    return plan


def _variant(size: tuple, out: tuple, kernel, name: str, values, **more) -> dict:
    """What the text is specialised for; `values` are constants of this name for each dimension."""
    return {"ADAPTIVE": kernel is None, "VOLUME": _three(size)[0] > 1 or _three(out)[0] > 1,
            **{f"{name}_{axis}": v for axis, v in zip("ZYX", _three(values))}, **more}


def _max_pool(x, *, size, kernel=None, stride=None, padding=None, dilation=None):
    """(out, index): the largest of each window and its place in the plane."""
    return _forward("max_pool", x, size, kernel, stride, padding, dilation, None)


def _max_pool_values(x, *, size, kernel=None, stride=None, padding=None, dilation=None):
    """The largest of each window."""
    return _forward("max_pool_values", x, size, kernel, stride, padding, dilation, None)


def _max_pool_grad(g, index, *, size, kernel=None, stride=None, padding=None, dilation=None):
    """The gradient of max_pool's input, of spatial `size`."""
    return _backward("max_pool_grad", g, index, size, kernel, stride, padding, dilation, None)


def _avg_pool(x, *, size, kernel=None, stride=None, padding=None, count_padding=True, divisor=None):
    """The average of each window."""
    return _forward("avg_pool", x, size, kernel, stride, padding, None, divisor, COUNT_PADDING=count_padding)


def _avg_pool_grad(g, *, size, kernel=None, stride=None, padding=None, count_padding=True, divisor=None):
    """The gradient of avg_pool's input, of spatial `size`."""
    return _backward("avg_pool_grad", g, None, size, kernel, stride, padding, None, divisor, COUNT_PADDING=count_padding)


def _fractional(x, samples, *, size, kernel):
    """(out, index): the largest of each window that begins at a random step, and its place in the plane."""
    need_float32("fractional_max_pool", x, samples)
    plan, shape = Plan(x, samples), (x.shape[0], *size)
    out, index = plan.output(shape, FLOAT32), plan.output(shape, INT64)
    steps = [(n - k) / (m - 1) if m > 1 else 0.0 for n, m, k in zip(x.shape[1:], size, kernel)]
    if count := prod(shape):
        vectors = (*_words(x.shape[1:], size, _three(kernel)), *_three(steps), 0.0)
        plan.step("pool/fractional", (0, 1, out, index), (*vectors, count, At(0), At(1)), ceil_div(count, THREADS), RANK=len(size))
    return plan


KERNELS = {name: Kernel(name, make, cut=cut) for name, make, cut in (
    ("max_pool", _max_pool, cuts.placed_pool), ("max_pool_values", _max_pool_values, cuts.pool),
    ("fractional_max_pool", _fractional, cuts.fractional_pool),
    ("max_pool_grad", _max_pool_grad, cuts.max_pool_grad), ("avg_pool", _avg_pool, cuts.pool),
    ("avg_pool_grad", _avg_pool_grad, cuts.avg_pool_grad))}
