"""The GPU kernels of indexing and sorting.

Each against NumPy in float64, or PyTorch where it is installed; geometry, views, sizes of 0 and 1, special values.
"""
from __future__ import annotations

import time

import numpy as np
import pytest
from gpu_arrays import INT32, fetch, numbers, send

import volta
from volta import gpu
from volta.devices.gpu import collect as gpu_collect
from volta.devices.gpu import exact as gpu_exact
from volta.devices.gpu import index as gpu_index
from volta.devices.gpu import map as gpu_map
from volta.devices.gpu import plans as gpu_plans
from volta.devices.gpu import scatter as gpu_scatter
from volta.devices.gpu import sort as gpu_sort
from volta.devices.gpu.generate import Expression
from volta.errors import ArgumentError, DeviceError, IndexRangeError
from volta.ops.records.sort import order as sorted_places

pytestmark = pytest.mark.gpu


def forget_plans():
    """Those of additions and sorting, where what they are made by has changed."""
    for kernel in (gpu_index.KERNELS["index_add"], gpu_index.KERNELS["scatter_add"], gpu_sort.KERNELS["sort"]):
        kernel.plans.clear()


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("lead", [0, 1, 4])
def test_index(kind, lead):
    if kind == "float16" and not gpu.context(0).has_f16:
        pytest.skip("this adapter has no float16")
    generator = np.random.default_rng(5)
    x = (generator.integers(0, 2 if kind == "bool" else 100, (5, 6, 8))).astype(kind)
    for dim in range(3):
        size = x.shape[dim]
        index = generator.integers(0, size, 11)
        picked = np.take(x, index, dim)
        order = (2, 0, 1) if lead == 1 else None
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_select"](send(x, lead, order), send(index, lead), dim)), picked)
        full = generator.integers(0, size, tuple(7 if d == dim else n - 1 for d, n in enumerate(x.shape)))
        narrow = x[tuple(slice(None) if d == dim else slice(n - 1) for d, n in enumerate(x.shape))]
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["gather"](send(x, lead, order), send(full, lead), dim)),
                                      np.take_along_axis(narrow, full, dim))
        want = np.zeros(tuple(9 if d == dim else n for d, n in enumerate(x.shape)), x.dtype)
        rows = generator.integers(0, 9, size)
        at = [slice(None)] * 3
        at[dim] = rows
        np.add.at(want, tuple(at), x)
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_add"](send(x, lead, order), send(rows, lead), dim, 9)), want)
        each = generator.integers(0, 9, x.shape)
        want = np.zeros_like(want)
        places = list(np.indices(x.shape))
        places[dim] = each
        np.add.at(want, tuple(places), x)
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["scatter_add"](send(x, lead, order), send(each, lead), dim, 9)), want)


MANY = [((600, 8), 50, 0), ((1000, 3), 2000, 0), ((2, 300, 4), 7, 1), ((700, 1), 1, 0), ((3, 66_000), 70_000, 1),
        ((70_000,), 17_000_000, 0)]


@pytest.mark.parametrize("shape, size, dim", MANY[:-1])
def test_index_add_of_many_entries(shape, size, dim, monkeypatch):
    """The sorting form, also where only it differs from the plain one; both add in the order of the entries. That of workgroups which list
    their entries adds parts of many, the same ones each time."""
    generator = np.random.default_rng(6)
    g = numbers(*shape)
    index = generator.integers(0, size, shape[dim])
    want = np.zeros(tuple(size if d == dim else n for d, n in enumerate(shape)), np.float32)
    np.add.at(want, (slice(None),) * dim + (index,), g)
    monkeypatch.setattr(gpu_index, "FEW_ENTRIES", 1000)
    forget_plans()
    plain = fetch(gpu_index.KERNELS["index_add"](send(g), send(index), dim, size))
    monkeypatch.setattr(gpu_index, "FEW_ENTRIES", 0)
    forget_plans()
    listing = [fetch(gpu_index.KERNELS["index_add"](send(g), send(index), dim, size)) for _ in range(2)]
    np.testing.assert_array_equal(*listing)
    np.testing.assert_allclose(listing[0], want, rtol=1e-6, atol=1e-6)
    monkeypatch.setattr(gpu_collect, "MOST_READS", 0)
    forget_plans()
    for _ in range(2):
        sorting = fetch(gpu_index.KERNELS["index_add"](send(g), send(index), dim, size))
        np.testing.assert_array_equal(sorting, want)
        np.testing.assert_array_equal(sorting, plain)


@pytest.mark.parametrize("shape, size, dim", MANY)
def test_scatter_add_of_many_entries(shape, size, dim, monkeypatch):
    generator = np.random.default_rng(7)
    g = numbers(*shape)
    index = generator.integers(0, size, shape)
    want = np.zeros(tuple(size if d == dim else n for d, n in enumerate(shape)))
    places = list(np.indices(shape))
    places[dim] = index
    np.add.at(want, tuple(places), g)
    monkeypatch.setattr(gpu_index, "FEW_ENTRIES", 0)
    forget_plans()
    found = [fetch(gpu_index.KERNELS["scatter_add"](send(g), send(index), dim, size)) for _ in range(2)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], want, rtol=1e-6, atol=1e-6)        # exact sums are rounded once


@pytest.mark.parametrize("shape, size, dim", [((3000, 64), 9000, 0), ((4000, 17), 9000, 0), ((2, 3000, 5), 9000, 1), ((2, 9000), 9001, 1)])
def test_scatter_add_by_buckets_of_some_columns(shape, size, dim, monkeypatch):
    """The same bits as by buckets of all of them, also where infinities meet."""
    generator = np.random.default_rng(10)
    g, index = numbers(*shape), generator.integers(0, size, shape)
    g.reshape(-1)[::1000], g.reshape(-1)[::1500] = np.inf, -np.inf
    found = []
    for fewest in (1 << 40, 1):
        monkeypatch.setattr(gpu_exact, "FEWEST_OF_STRIP", fewest)
        forget_plans()
        found.append(fetch(gpu_index.KERNELS["scatter_add"](send(g), send(index), dim, size)))
    np.testing.assert_array_equal(*found)
    forget_plans()


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape, size", [((6000, 9), 9000), ((40_000,), 30_000)])
def test_scatter_add_by_buckets_of_uneven_entries(shape, size, kind, monkeypatch):
    """Half of the entries name one place, which some blocks are full of; the others are of all places, and buckets are of any number."""
    generator = np.random.default_rng(11)
    index = np.where(generator.random(shape) < 0.5, 77, generator.integers(0, size, shape))
    index[:2000] = 77
    g = generator.integers(0, 2, shape).astype(kind)
    want = np.zeros((size, *shape[1:]), kind if kind in ("bool", "uint8") else float)
    (np.logical_or if kind == "bool" else np.add).at(want, (index, *np.indices(shape)[1:]), g)
    monkeypatch.setattr(gpu_exact, "FEWEST_OF_STRIP", 1)
    for most in (512, 64):
        monkeypatch.setattr(gpu_exact, "MOVERS", most)
        forget_plans()
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["scatter_add"](send(g), send(index), 0, size)), want.astype(kind))
    forget_plans()


@pytest.mark.parametrize("shape, size, dim", [((2000, 33), 1500, 0), ((4, 300), 2, 1), ((3, 500, 6), 700, 1), ((9000,), 50, 0),
                                              ((3, 9000), 3000, 1)])
def test_products_of_many_entries(shape, size, dim):
    """In the order of the entries, of long lists and short ones."""
    generator = np.random.default_rng(11)
    src, index = 1 + numbers(*shape) / 50, generator.integers(0, size, shape)
    want = numbers(*[size if d == dim else n for d, n in enumerate(shape)])
    places = list(np.indices(shape))
    places[dim] = index
    x = want.copy()
    np.multiply.at(want, tuple(places), src)
    np.testing.assert_array_equal(fetch(gpu_scatter.KERNELS["scatter_reduce"](send(x), send(src), send(index), dim, "prod")), want)


@pytest.mark.parametrize("shape, size, dim", [((700, 140), 3000, 0), ((2, 300, 5, 14), 1500, 1)])
def test_scatter_add_of_many_places_as_lines_of_copies(shape, size, dim, monkeypatch):
    generator = np.random.default_rng(9)
    g, index = numbers(*shape), generator.integers(0, size, shape)
    plain = fetch(gpu_index.KERNELS["scatter_add"](send(g), send(index), dim, size))
    monkeypatch.setattr(gpu_exact, "ACROSS", 1)
    forget_plans()
    before = gpu.stats()
    np.testing.assert_array_equal(fetch(gpu_index.KERNELS["scatter_add"](send(g), send(index), dim, size)), plain)       # both are exact
    assert (gpu.stats() - before).dispatches == 4
    forget_plans()


@pytest.mark.parametrize("kind", ["int64", "int16", "uint8", "float32", "float16"])
def test_additions_of_every_dtype_by_buckets(kind):
    """Of entries that are no whole vectors: each is read in the type that it is stored in."""
    rng = np.random.default_rng(0)
    index, values, base = rng.integers(0, 30_001, 40_003), rng.integers(0, 3, 40_003).astype(kind), rng.integers(0, 3, 30_001).astype(kind)
    expected = base.copy()
    np.add.at(expected, index, values)
    found = volta.tensor(base, device="gpu").index_add(0, volta.tensor(index, device="gpu"), volta.tensor(values, device="gpu"))
    np.testing.assert_array_equal(found.numpy(), expected)
    if kind == "int64":
        np.testing.assert_array_equal(volta.bincount(volta.tensor(index, device="gpu")).numpy(), np.bincount(index))


@pytest.mark.parametrize("kind", ["float32", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape, size", [((9000, 4), 3), ((9000, 3), 3), ((2, 5000, 1), 2), ((4096, 1), 1)])
def test_rows_of_very_many_entries(shape, size, kind):
    """Parts of a row are summed on their own: the same bits each time, and as exact as other sums."""
    if kind == "float16" and not gpu.context(0).has_f16:
        pytest.skip("this adapter has no float16")
    generator = np.random.default_rng(8)
    g = (numbers(*shape) * 50).astype(kind)
    dim = len(shape) - 2
    index = np.minimum(generator.integers(0, 2 * size, shape[dim]), size - 1)
    full = np.broadcast_to(index[:, None], shape).copy()
    for op, at, places in (("index_add", index, (slice(None),) * dim + (index,)),
                           ("scatter_add", full, tuple(full if d == dim else p for d, p in enumerate(np.indices(shape))))):
        want = np.zeros(tuple(size if d == dim else n for d, n in enumerate(shape)), kind if kind in ("int32", "uint8", "bool") else "f8")
        np.add.at(want, places, g)
        runs = [fetch(gpu_index.KERNELS[op](send(g), send(at), dim, size)) for _ in range(2)]
        np.testing.assert_array_equal(*runs)
        np.testing.assert_allclose(runs[0], want, rtol=1e-3 if kind == "float16" else 1e-5, atol=0 if want.dtype.kind != "f" else 1e-3)


@pytest.mark.parametrize("count, below", [(1, 1), (255, 3), (256, 256), (257, 257), (600, 1 << 31), (5000, 65_536),
                                          (70_000, 1 << 20), (3000, 1 << 31)])
def test_sort(count, below):
    """Sorted, and stable."""
    keys = np.random.default_rng(count).integers(0, below, count).astype(np.int32)

    def make(t):
        plan = gpu_plans.Plan(t)
        for buffer in gpu_sort.add_sort(plan, 0, count, below):
            geometry = gpu_map.Geometry((count,), ((1,), (1,)), (0, 0))
            pipeline, params, groups = gpu_map.elementwise_step(plan.ctx, Expression(("x0",)), geometry, (INT32, INT32))
            plan.add(pipeline, (buffer, plan.output((count,), INT32)), params, groups)
        return plan
    found = [fetch(t) for t in gpu_plans.Kernel("sort", make)(send(keys, tail=0))]
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(found[0], keys[order])
    np.testing.assert_array_equal(found[1], order)


@pytest.mark.parametrize("roomy", (True, False))
@pytest.mark.parametrize("shape, count", [((3, 400), None), ((3, 1500), None), ((2, 8000), None), ((20_000,), None), ((2, 9000), 70),
                                          ((3, 2000, 2), None)])
def test_sort_of_elements(monkeypatch, shape, count, roomy):
    """Long lines, with equal elements, NaN and both zeros; with all of workgroup memory and with the least."""
    if not roomy:
        monkeypatch.setattr(gpu_sort, "fits", lambda *sizes, **more: False)
    forget_plans()
    x = np.round(numbers(*shape) * 20).astype(np.float32)
    x.reshape(-1)[::7], x.reshape(-1)[::11] = np.nan, -0.0
    dim = min(len(shape) - 1, 1)
    for descending in (False, True):
        indices = np.take(sorted_places(x, dim, descending), np.arange(count or shape[dim]), dim)
        found = gpu_sort.KERNELS["sort"](send(x), dim=dim, descending=descending, count=count)
        np.testing.assert_array_equal(fetch(found[1]), indices)
        want = np.take_along_axis(x, indices, dim)
        np.testing.assert_array_equal(fetch(found[0]), want)
        np.testing.assert_array_equal(np.signbit(fetch(found[0])[want == 0]), np.signbit(want[want == 0]))
    forget_plans()


def test_many_entries_take_time_in_proportion(monkeypatch):
    """Eight times as many entries may not take 64 times as long, as they do where each looks at all others."""
    monkeypatch.setattr(gpu_index, "FEW_READS", 0)
    forget_plans()
    seconds = []
    for k in (1 << 15, 1 << 18):
        g, index = send(np.ones(k, np.float32)), send(np.arange(k) * 7919 % 1000)
        for _ in range(2):
            start = time.perf_counter()
            gpu_index.KERNELS["index_add"](g, index, 0, 1000)
            gpu.synchronize()
        seconds.append(time.perf_counter() - start)
    assert seconds[1] < 30 * seconds[0], seconds


def test_index_is_clamped():
    x = numbers(4, 3)
    np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_select"](send(x), send(np.array([-5, 9])), 0)), x[[0, 3]])
    got = fetch(gpu_index.KERNELS["gather"](send(x), send(np.array([[-5, 9, 1]])), 0))
    np.testing.assert_array_equal(got, [[x[0, 0], x[3, 1], x[1, 2]]])


def test_index_empty():
    x, none = numbers(4, 3), np.zeros(0, np.int64)
    assert gpu_index.KERNELS["index_select"](send(x), send(none), 0).shape == (0, 3)
    np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_add"](send(x[:0]), send(none), 0, 4)), np.zeros((4, 3)))


def test_more_than_a_kernel_counts():
    with pytest.raises(DeviceError, match=r"index/add: a GPU kernel counts up to 2\*\*32 - 1, got 8589934592; take fewer elements"):
        volta.bincount(volta.tensor([1, 2], device="gpu"), minlength=1 << 33)


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape, picked, dim", [((5, 8), (7, 8), 0), ((5, 8), (5, 12), 1), ((3, 5, 4), (3, 8, 4), 1),
                                                ((3, 5, 4), (3, 5, 8), 2), ((6, 7), (4, 7), 0), ((40,), (16,), 0),
                                                ((3, 5, 4), (2, 8, 4), 1), ((40,), (1,), 0), ((40,), (18,), 0), ((9,), (3075,), 0),
                                                ((1, 40), (1, 7), 1), ((100, 24), (700, 24), 0), ((2, 70, 12), (2, 1100, 12), 1)], ids=str)
def test_gather_by_fours(kind, shape, picked, dim):
    """Fours of neighbours, columns or entries, wherever the index lies; strips of columns; and where there are no fours."""
    if kind == "float16" and not gpu.context(0).has_f16:
        pytest.skip("this adapter has no float16")
    generator, count = np.random.default_rng(0), int(np.prod(picked))
    x = generator.integers(0, 2 if kind == "bool" else 100, shape).astype(kind)
    index = generator.integers(0, shape[dim], count + 5)
    used = x[tuple(slice(n if d != dim else None) for d, n in enumerate(picked))]
    for start in (0, 1, 4):
        places = volta.tensor(index, device="gpu")[start:start + count].view(picked)
        found = volta.gather(volta.tensor(x, device="gpu"), dim, places).numpy()
        np.testing.assert_array_equal(found, np.take_along_axis(used, index[start:start + count].reshape(picked), dim))
        if len(shape) == 1:
            np.testing.assert_array_equal(volta.tensor(x, device="gpu")[places].numpy(), x[index[start:start + count]])


@pytest.mark.parametrize("rows, length", [(300, 64), (37, 768), (700, 512), (1500, 1024), (9, 2048), (5, 4100), (3, 513)])
def test_sums_of_norms_by_columns(rows, length):
    """The gradients of weights and biases, whatever number of rows and threads a workgroup takes; the same again."""
    generator = np.random.default_rng(1)
    x, w, b, g = (generator.standard_normal(s) for s in ((rows, length), (length,), (length,), (rows, length)))
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    inputs = [volta.tensor(v.astype(np.float32), device="gpu", requires_grad=True) for v in (x, w, b)]
    out = volta.nn.functional.layer_norm(inputs[0], (length,), inputs[1], inputs[2])
    first, again = ([v.numpy() for v in volta.autograd.grad(out, inputs[1:], volta.tensor(g.astype(np.float32), device="gpu"),
                                                           retain_graph=True)] for _ in range(2))
    for found, same, true in zip(first, again, ((g * normal).sum(0), g.sum(0))):
        np.testing.assert_array_equal(found, same)
        np.testing.assert_allclose(found, true, atol=2e-6 * np.abs(true).max(), rtol=0)


@pytest.mark.parametrize("shape, entries, dim", [((50, 8), 30, 0), ((40, 600), 500, 1), ((300,), 9000, 0), ((5000,), 9000, 0),
                                                 ((3, 1500, 14), 300, 1)])
def test_additions_in_place_are_one_dispatch_less(shape, entries, dim):
    """What is added where it lies takes no more dispatches than its sums alone."""
    generator, places = np.random.default_rng(8), tuple(entries if d == dim else n for d, n in enumerate(shape))
    x, g, index = numbers(*shape), numbers(*places, seed=1), generator.integers(0, shape[dim], places)
    for name, at in (("scatter_add", index), ("index_add", generator.integers(0, shape[dim], entries))):
        target, source, named = (volta.tensor(a, device="gpu") for a in (np.concatenate([numbers(3), x.reshape(-1)]), g, at))
        target = target[3:].reshape(shape)
        order = (dim, named, source)
        sums = getattr(volta.zeros_like(target), name)(*order)
        before = gpu.stats()
        assert getattr(target, name + "_")(*order) is target
        assert (gpu.stats() - before).dispatches <= 5
        np.testing.assert_allclose(target.numpy(), x + sums.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape, dim", [((6, 40), 1), ((3, 20, 8), 1), ((3, 5, 20, 3), 2)])
@pytest.mark.parametrize("entries", [1, 7, 5000])
def test_index_copy_and_fill_along_inner_dimensions(shape, dim, entries):
    """Of several entries for a place the last one counts."""
    generator = np.random.default_rng(10)
    x, index = numbers(*shape), generator.integers(0, shape[dim], entries)
    source = numbers(*(entries if d == dim else n for d, n in enumerate(shape)), seed=2)
    want = x.copy()
    for k, place in enumerate(index):
        np.moveaxis(want, dim, 0)[place] = np.moveaxis(source, dim, 0)[k]
    t, at = volta.tensor(x, device="gpu"), volta.tensor(index, device="gpu")
    np.testing.assert_array_equal(t.index_copy(dim, at, volta.tensor(source, device="gpu")).numpy(), want)
    np.moveaxis(want, dim, 0)[index] = 2.5
    np.testing.assert_array_equal(t.index_fill(dim, at, 2.5).index_copy_(dim, at[:0], t.narrow(dim, 0, 0)).numpy(),
                                  np.where(np.isin(np.arange(shape[dim]), index).reshape((-1,) + (1,) * (len(shape) - 1 - dim)), 2.5, x))


def test_what_is_known_of_uploaded_integers_is_known_of_their_copies():
    """As int64 of int32, and of labels that are taken in chunks."""
    index, ones = volta.tensor(np.full((2, 2), 20, np.int32), device="gpu"), volta.ones(2, 2, device="gpu")
    with pytest.raises(IndexRangeError, match="index 20 is out of range for a dimension of size 3"):
        volta.scatter_reduce(volta.zeros(3, 2, device="gpu"), 0, index, ones, "sum")
    counted = index.clone()
    counted += 1
    assert volta.scatter_reduce(volta.zeros(3, 2, device="gpu"), 0, counted.long(), ones, "sum").shape == (3, 2)     # nobody knows these
    x, w = volta.ones(8, 3, device="gpu"), volta.ones(4, 3, device="gpu")
    chunks = volta.nn.LinearCrossEntropyOptions(batch_chunk_size=2, chunking_method=None)
    with pytest.raises(IndexRangeError, match="label 7 is outside the 4 classes"):
        volta.nn.functional.linear_cross_entropy(x, w, volta.tensor([0, 1, 2, 3, 0, 1, 2, 7], device="gpu"), options=chunks)


def test_numbers_are_refused_without_elements_too():
    for size in (2, 0):
        with pytest.raises(ArgumentError, match="-8.5 does not fit into volta.uint8"):
            volta.full((2, size), -8.5, dtype=volta.uint8, device="gpu")


def test_positions_in_shapes_of_more_elements_than_32_bits_count():
    for shape in ((4, 1 << 30, 4, 1 << 30), (1 << 30, 4, 1 << 30, 4), (3, 5, 7)):
        found = volta.unravel_index(volta.tensor([0, 5, 13, 100], device="gpu"), shape)
        assert [x.tolist() for x in found] == [x.tolist() for x in volta.unravel_index(volta.tensor([0, 5, 13, 100]), shape)]
