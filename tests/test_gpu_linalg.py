"""The GPU's matmul kernels: every tile, layout, word size, split and element type, and the layouts of tensors they take.

Each against NumPy in float64, on outputs that held NaN before.
"""
from __future__ import annotations

import numpy as np
import pytest
from gpu_arrays import DEVICE, FLOAT32, K

from volta import gpu
from volta._kernels import core
from volta.devices.gpu import matmul as plans

pytestmark = pytest.mark.gpu
matmul, linear = K["matmul"], K["linear"]
TILES = {"large": plans.LARGE, "wide": plans.WIDE, "medium": plans.MEDIUM, "small": plans.SMALL, "tiny": plans.TINY, "chosen": None}
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
KINDS = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u8": np.uint32}


@pytest.fixture
def rng(request):
    return np.random.default_rng(len(request.node.nodeid))


def put(ctx, array):
    """A buffer of the array's elements, of whole words."""
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = np.append(flat, np.zeros(-flat.size % 4 or 4, flat.dtype))
    buffer = ctx.alloc(flat.nbytes)
    ctx.upload(buffer, flat)
    return buffer


def values(rng, kind, *shape):
    if kind.startswith("f"):
        return rng.standard_normal(shape).astype(KINDS[kind])
    return rng.integers(-9 if kind == "i32" else 0, 256, shape).astype(KINDS[kind])


def product(rng, m, n, k, turned, *, batch=1, repeat=False, lead=(0, 0), pad=0, bias=False, kind="f32", special=False, **choice):
    """(what the kernels give, what NumPy gives) of random operands in the given layouts."""
    ctx = gpu.context(0)
    a = values(rng, kind, batch, *((k, m + pad) if turned[0] else (m, k + pad)))
    b = values(rng, kind, 1 if repeat else batch, *((n, k + pad) if turned[1] else (k, n + pad)))
    if special:
        a[0, 0, 0], b[0, -1, 0] = np.nan, np.inf
    vector = values(rng, kind, n + 3)
    left = plans.Operand(not turned[0], a.shape[2], a[0].size if batch > 1 else 0, lead[0])
    right = plans.Operand(turned[1], b.shape[2], b[0].size if batch > 1 and not repeat else 0, lead[1])
    plan = plans.plan(m, n, k, batch, left, right, 3 if bias else None, kind, **choice)
    bad = np.nan if kind.startswith("f") else 77
    buffers = [put(ctx, np.append(np.full(at, bad, t.dtype), t)) for at, t in zip(lead, (a, b))]
    out = put(ctx, np.full(batch * m * n, bad, a.dtype))
    buffers += [put(ctx, vector), out, put(ctx, np.full(plan.scratch // 4, np.nan, np.float32))]
    for step in plan.steps:
        absent = tuple(place for place, i in enumerate(step.buffers) if i is None)
        ctx.launch(ctx.pipeline(step.file, absent=absent, **step.overrides), tuple(buffers[i] for i in step.buffers if i is not None),
                   step.params, step.groups)
    got = np.empty(batch * m * n + (-batch * m * n) % 4, a.dtype)
    ctx.download(out, got)
    x = a[..., :m].swapaxes(1, 2) if turned[0] else a[..., :k]
    y = b[..., :k].swapaxes(1, 2) if turned[1] else b[..., :n]
    with np.errstate(invalid="ignore"):
        want = x.astype(float) @ y.astype(float) + (vector[3:] if bias else 0)
    return got[:batch * m * n].reshape(batch, m, n), want % 256 if kind == "u8" else want


def agree(got, want, kind="f32", k=1):
    # float32 sums of k products of unit size err by about eps * sqrt(k) * sqrt(log k); float16 by its own rounding of the result.
    tolerance = {"f32": 2e-6, "f16": 2e-3}.get(kind, 0) * max(1, k) ** 0.5
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("turned", LAYOUTS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("m, n, k", [(128, 128, 64), (36, 68, 20), (37, 65, 19), (1, 1, 1), (3, 130, 7), (5, 3, 0), (140, 4, 33)])
def test_sizes(rng, m, n, k, tile, turned):
    agree(*product(rng, m, n, k, turned, tile=TILES[tile]), k=k)


@pytest.mark.parametrize("turned", LAYOUTS)
@pytest.mark.parametrize("tile", TILES)
def test_batches_offsets_bias_and_splits(rng, tile, turned):
    tile = TILES[tile]
    for size, options in [
            ((70, 52, 200), {"batch": 3}), ((70, 51, 201), {"batch": 2, "repeat": True, "bias": True}),
            ((33, 20, 100), {"lead": (3, 5)}), ((32, 20, 100), {"lead": (4, 8), "pad": 4}), ((33, 21, 101), {"pad": 3}),
            ((40, 36, 700), {"splits": 4, "bias": True}),
            ((41, 35, 701), {"splits": 3, "batch": 2, "bias": True}), ((41, 35, 701), {"splits": 2, "batch": 3})]:
        agree(*product(rng, *size, turned, tile=tile, **options), k=size[2])


@pytest.mark.parametrize("turned", LAYOUTS)
@pytest.mark.parametrize("m, n, k", [(1, 300, 257), (1, 256, 512), (300, 1, 257), (256, 1, 512), (1, 1, 1000), (1, 7, 2),
                                     (9, 1, 4096)])
def test_one_row_or_column(rng, m, n, k, turned):
    for options in [{}, {"bias": True}, {"batch": 3}, {"batch": 2, "repeat": True, "bias": True}, {"splits": 4, "bias": True},
                    {"lead": (3, 2)}, {"pad": 4}, {"pad": 1}]:
        agree(*product(rng, m, n, k, turned, **options), k=k)


@pytest.mark.parametrize("kind", ["f16", "i32", "u8"])
@pytest.mark.parametrize("tile", TILES)
def test_elements(rng, tile, kind):
    if kind == "f16" and not gpu.context(0).has_f16:
        pytest.skip("the adapter has no shader-f16")
    for size, options in [((30, 28, 50), {"bias": True}), ((30, 27, 500), {"splits": 3}), ((1, 27, 300), {}),
                          ((27, 1, 300), {"splits": 2})]:
        options = options if TILES[tile] is None else {**options, "tile": TILES[tile]}
        agree(*product(rng, *size, (False, True), kind=kind, **options), kind, size[2])


@pytest.mark.parametrize("tile", TILES)
def test_nan_and_infinity(rng, tile):
    for turned in LAYOUTS:
        for size, splits in (((20, 20, 40), 1), ((21, 19, 41), 2), ((1, 19, 41), None)):
            choice = {} if splits is None else {"tile": TILES[tile], "splits": splits}
            agree(*product(rng, *size, turned, special=True, **choice), k=size[2])


def test_more_workgroups_than_one_dimension_has(rng):
    got, want = product(rng, 16, 16 * 70000, 4, (False, False), tile=plans.TINY)
    agree(got, want, k=4)


def test_a_second_run_gives_the_same_bits():
    first, second = (product(np.random.default_rng(5), 40, 40, 3000, (False, True), tile=plans.SMALL, splits=8)[0]
                     for _ in range(2))
    assert np.array_equal(first, second)


# ---------------------------------------------------------------- tensors

def tensor_of(view):
    """A GPU tensor with the layout of `view`, a NumPy view of one array."""
    base = view
    while base.base is not None:
        base = base.base
    item = base.itemsize
    at = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // item
    storage = core.gpu_storage(put(gpu.context(0), base), base.nbytes, DEVICE)
    return core.tensor(storage, view.shape, tuple(s // item for s in view.strides), at, FLOAT32)


def fetch(t):
    got = np.empty(t.storage.nbytes // 4, np.float32)
    if got.size:
        gpu.context(0).download(t.storage.buffer, got)
    return got.reshape(t.shape)


def check_matmul(a, b):
    agree(fetch(matmul(tensor_of(a), tensor_of(b))), a.astype(float) @ b.astype(float), k=a.shape[-1])


@pytest.mark.parametrize("m, k, n", [(3, 4, 5), (1, 1, 1), (33, 65, 17), (1, 70, 5), (64, 64, 1), (0, 3, 2), (2, 0, 3), (7, 1, 9)])
def test_views(rng, m, k, n):
    def r(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    b = r(k, n)
    one = r(1, 1)
    for a in (r(m, k), r(k, m).T, r(m, k + 3)[:, 1:k + 1], r(2 * m + 1, k)[1::2], r(m, 2 * k + 1)[:, 1::2],
              np.broadcast_to(one, (m, k))):
        check_matmul(a, b)
        check_matmul(b.T, a.T)


@pytest.mark.parametrize("lead", [((2,), (2,)), ((2, 3), (2, 3)), ((2, 1), (5,)), ((4,), ()), ((), (4,)), ((2, 3), (3,)),
                                  ((3,), (2, 3)), ((2, 3, 4), (3, 1)), ((1,), (4,)), ((0,), (1,))])
def test_batches(rng, lead):
    for m, k, n in ((3, 4, 5), (8, 12, 16), (1, 6, 7)):
        b = rng.standard_normal((*lead[1], k, n)).astype(np.float32)
        check_matmul(rng.standard_normal((*lead[0], m, k)).astype(np.float32), b)
        check_matmul(rng.standard_normal((*lead[0], k, m)).astype(np.float32).swapaxes(-1, -2), b)


@pytest.mark.parametrize("lead", [((), ()), ((3,), ()), ((3,), (3,)), ((2, 1), (3,))])
@pytest.mark.parametrize("turned", LAYOUTS)
def test_padded_copies(rng, lead, turned, monkeypatch):
    """Operands whose rows vector loads cannot walk are copied with room after each row, where the plan says so; the room is not read."""
    m, k, n = 37, 29, 43
    shapes = [(*lead[0], k, m) if turned[0] else (*lead[0], m, k), (*lead[1], n, k) if turned[1] else (*lead[1], k, n)]
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    poison = gpu.context(0).alloc(1 << 16)                              # what the pool gives next holds NaN
    gpu.context(0).upload(poison, np.full(1 << 14, np.nan, np.float32))
    del poison
    monkeypatch.setattr(plans, "COPY_START", -1e6)                      # a copy is always worth it
    matmul.plans.clear()
    check_matmul(a.swapaxes(-1, -2) if turned[0] else a, b.swapaxes(-1, -2) if turned[1] else b)
    plan = list(matmul.plans.values())[-1]
    pads = [step for step in plan.steps if "matmul/pad" in repr(step)]
    assert len(pads) == turned[0] + (not turned[1]) or lead == ((2, 1), (3,))
    matmul.plans.clear()


def dispatches(a, b):
    a, b = tensor_of(a), tensor_of(b)
    matmul(a, b)
    before = gpu.stats().dispatches
    matmul(a, b)
    return gpu.stats().dispatches - before


@pytest.mark.parametrize("m, k, n", [(9, 8, 9), (36, 32, 68), (37, 29, 43), (1, 40, 7), (9, 40, 1), (5, 0, 3)])
def test_batches_of_two_dimensions_are_not_copied(rng, m, k, n):
    """As heads lie in what projections made, with other elements before and between them; of one matrix along either dimension too."""
    def r(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    heads, keys = r(2, m, 3, 5, k)[:, :, 1].transpose(0, 2, 1, 3), r(2, n, 3, 5, k)[:, :, 2].transpose(0, 2, 3, 1)
    turned, values = r(5, 2, k, m + 2).transpose(1, 0, 3, 2)[..., 2:, :], r(5, k, 2, n + 1)[..., :n].transpose(2, 0, 1, 3)
    for a in (heads, turned, r(2, 1, m, k), r(5, m, k), r(2, 5, m, k)):
        for b in (keys, values, r(2, 1, k, n), r(5, k, n), r(2, 5, k, n)):
            check_matmul(a, b)
            assert dispatches(a, b) == 1


def test_rows_that_lie_behind_one_another_are_one_product_with_one_matrix(rng):
    x, b = rng.standard_normal((3, 8, 5, 6)).astype(np.float32).transpose(0, 2, 3, 1), rng.standard_normal((8, 7)).astype(np.float32)
    check_matmul(x, b)
    assert dispatches(x, b) == 1                                        # a batch of images, whose places are the rows
    for m in (1, 3, 70):                                                # heads: copied where that makes larger tiles of many
        check_matmul(rng.standard_normal((4, m, 6, 8)).astype(np.float32).transpose(0, 2, 1, 3), b)


@pytest.mark.parametrize("rows, k, n", [(3, 4, 5), (40, 33, 18), (0, 4, 2), (1, 64, 8), (256, 512, 10), (64, 1, 3)])
def test_linear(rng, rows, k, n):
    x, weight, numbers = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, k), (n, k), 2 * n + 1))
    for bias in (None, numbers[:n], numbers[1:n + 1], numbers[1::2][:n]):
        got = fetch(linear(tensor_of(x), tensor_of(weight), None if bias is None else tensor_of(bias)))
        agree(got, x.astype(float) @ weight.T + (0 if bias is None else bias), k=k)
    other = rng.standard_normal((k, n)).astype(np.float32)
    agree(fetch(linear(tensor_of(x), tensor_of(other.T), None)), x.astype(float) @ other, k=k)


@pytest.mark.parametrize("a, b", [((2, 3, 0, 4), (3, 4, 0)), ((2, 3, 4, 0), (3, 0, 5)), ((0, 2, 3, 4), (2, 4, 5)),
                                  ((2, 3, 0, 0), (3, 0, 1))])
def test_products_without_elements(a, b):
    check_matmul(np.zeros(a, np.float32), np.zeros(b, np.float32))
