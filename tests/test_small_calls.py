"""Small calls take shorter ways, through fewer kernels and views, while nobody records: they give, bit by bit, what is given where a graph
is wanted, and refuse the same."""
import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError


def both(function, x, *others):
    """What a function gives unrecorded, which is compared with what it gives where a gradient is wanted."""
    plain = function(x, *others)
    recorded = function(x.clone().requires_grad_(), *others)
    assert recorded.requires_grad and plain.shape == recorded.shape and plain.stride() == recorded.stride()
    assert plain.tolist() == recorded.detach().tolist()
    return plain


@pytest.fixture
def x(rng):
    return volta.tensor(rng.standard_normal((4, 5)), dtype=volta.float32)


@pytest.mark.parametrize("dtype", [volta.float32, volta.float64, volta.int64, volta.int32], ids=str)
@pytest.mark.parametrize("own", [True, False])
def test_means_of_few_elements(own, dtype, rng):
    x = volta.tensor(rng.integers(-9, 9, (4, 5)), dtype=dtype)
    source = volta.tensor(rng.integers(-9, 9, (6, 5)), dtype=dtype)
    index, rows = volta.tensor(rng.integers(0, 3, (6, 5))), volta.tensor([2, 0, 2, 2, 0, 2])
    for name, at in (("scatter_reduce", index), ("index_reduce", rows)):
        call = getattr(volta, name)
        found = call(x, 0, at, source, "mean", include_self=own)
        where = at if at.ndim == 2 else at[:, None].expand(6, 5)
        sums = x.tolist()
        counts = [[int(own)] * 5 for _ in range(4)]
        for i in range(6):
            for j in range(5):
                place = where[i, j].item()
                sums[place][j] = source[i, j].item() + (sums[place][j] if counts[place][j] else 0)
                counts[place][j] += 1
        wanted = volta.tensor(sums, dtype=volta.float64) / volta.tensor(counts).clamp(min=1)
        wanted = wanted.to(dtype) if dtype.is_floating_point else wanted.floor().to(dtype)
        assert found.dtype is dtype and found.tolist() == wanted.tolist()
        if dtype.is_floating_point:
            assert both(lambda x, at=at, call=call: call(x, 0, at, source, "mean", include_self=own), x).tolist() == found.tolist()
        changed = x.clone()
        assert getattr(changed, name + "_")(0, at, source, "mean", include_self=own) is changed and changed.tolist() == found.tolist()


def test_no_mean_of_what_lies_outside_or_of_bool(x):
    with pytest.raises(IndexError, match="out of range"):
        volta.scatter_reduce(x, 0, volta.full((4, 5), 7), x, "mean")
    with pytest.raises(DTypeError, match="mean of bool"):
        volta.scatter_reduce(x > 0, 0, volta.zeros(4, 5, dtype=volta.int64), x > 0, "mean")


def test_multiples_are_added_at_indices(x, rng):
    index, source = volta.tensor([3, 0, 3]), volta.tensor(rng.standard_normal((3, 5)), dtype=volta.float32)
    found = both(lambda x: volta.index_add(x, 0, index, source, alpha=-2.5), x)
    assert x.clone().index_add_(0, index, source, alpha=-2.5).tolist() == found.tolist()
    with pytest.raises(ArgumentError, match="memory"):
        x.index_add_(0, volta.arange(4), x, alpha=2)


def test_put_where_elements_lie(x):
    index, source = volta.tensor([[0, 19], [7, 0]]), volta.tensor([[1.0, 2.0], [3.0, 4.0]])
    for accumulate in (False, True):
        found = both(lambda x, accumulate=accumulate: volta.put(x, index, source, accumulate), x)
        assert x.clone().put_(index - 20 * (index > 9), source, accumulate).tolist() == found.tolist()
        turned = x.t().contiguous().t()
        assert turned.put_(index, source, accumulate).tolist() == found.tolist()
    with pytest.raises(IndexError, match="20"):
        x.put_(index + 1, source)


def test_sums_at_some_of_the_places_beside(rng):
    """Are made in one order, and the rest is what it was, of any sign."""
    x = volta.tensor(rng.standard_normal((4, 5, 3)), dtype=volta.float32)
    x[3], x[:, :, 2] = -0.0, volta.inf
    source = volta.tensor(rng.standard_normal((9, 9, 9)), dtype=volta.float32)
    for shape, dim in (((3, 9, 2), 1), ((4, 9, 2), 1), ((9, 2, 3), 0), ((2, 3, 8), 2)):
        index = volta.tensor(rng.integers(0, x.shape[dim], shape))
        found = both(lambda x, dim=dim, index=index: volta.scatter_add(x, dim, index, source), x)
        assert x.clone().scatter_add_(dim, index, source).tolist() == found.tolist()
        assert volta.scatter_reduce(x, dim, index, source, "sum").tolist() == found.tolist()
        both(lambda x, dim=dim, index=index: volta.scatter_reduce(x, dim, index, source, "mean"), x)
        part = tuple(slice(0, m if i == dim else n) for i, (n, m) in enumerate(zip(shape, x.shape)))
        rest = volta.ones(x.shape, dtype=volta.bool)
        rest[part] = False
        assert volta.equal(found[rest], x[rest]) and volta.equal(found[rest].signbit(), x[rest].signbit())
        leaf = x.clone().requires_grad_()
        volta.scatter_add(leaf, dim, index, source).sum().backward()
        assert leaf.grad.eq(1).all()


@pytest.mark.parametrize("offset", [0, 2, -1])
def test_diagonals_are_filled(x, offset):
    found = both(lambda x: volta.diag_embed(x, offset), x)
    assert found.diagonal(offset, -2, -1).tolist() == x.tolist() and found.count_nonzero() == 20
    both(lambda x: volta.diag_embed(x, offset, 0, -1), x)
    both(lambda x: volta.diag(x, offset), x[0])
    both(lambda x: volta.diagflat(x, offset), x.t())
    assert volta.diag(x[0] > 0, offset).dtype is volta.bool


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, float("inf")])
def test_norms_and_what_they_limit(x, p):
    for dim in (None, 0, (0, 1)):
        both(lambda x, dim=dim: volta.linalg.vector_norm(x, p, dim), x)
    both(lambda x: volta.renorm(x, p, 0, 1.0), x)
    assert x.clone().renorm_(p, 1, 0.5).tolist() == volta.renorm(x, p, 1, 0.5).tolist()


@pytest.mark.parametrize("change", [
    lambda x, y, mask: x.addcmul_(y, y, value=2), lambda x, y, mask: x.addcdiv_(y, y + 3, value=0.5), lambda x, y, mask: x.lerp_(y, 0.25),
    lambda x, y, mask: x.masked_fill_(mask, 2.0), lambda x, y, mask: x.clamp_(y, y + 1), lambda x, y, mask: x.clamp_(min=y),
    lambda x, y, mask: x.clamp_(max=0.5), lambda x, y, mask: x.div_(y, rounding_mode="floor"), lambda x, y, mask: x.square_(),
    lambda x, y, mask: x.add_(y, alpha=2), lambda x, y, mask: x.mul_(y), lambda x, y, mask: x.le_(y)],
    ids="addcmul addcdiv lerp masked_fill clamp at_least at_most div square add mul le".split())
def test_operands_broadcast_to_what_is_changed(x, change):
    y, mask = x[:1] * 0.5 + 0.1, x[:, :1] > 0
    for shape in ((1, 5), (5,)):
        both(lambda x, shape=shape: change(x * 1, y.reshape(shape), mask) * 1.0 + x * 0, x)


@pytest.mark.parametrize("name, shapes", [("addmm", ((4, 3), (3, 5))), ("addmv", ((5, 3), (3,)))])
def test_products_are_added_where_they_belong(x, rng, name, shapes):
    a, b = (volta.tensor(rng.standard_normal(shape), dtype=volta.float32) for shape in shapes)
    x = x if name == "addmm" else x[0]
    found = both(lambda x: getattr(x * 1, name + "_")(a, b), x)
    assert found.tolist() == getattr(volta, name)(x, a, b).tolist()
    assert both(lambda a: getattr(x.clone(), name + "_")(a, b), a).tolist() == found.tolist()
    weighed, changed = getattr(volta, name)(x, a, b, alpha=0.5), x.clone()
    assert getattr(changed, name + "_")(a, b, alpha=0.5) is changed and changed.tolist() == weighed.tolist()
    with pytest.raises(ShapeError, match=f"{name}_?: "):
        getattr(x[:1].clone(), name + "_")(a, b)


def test_windows_of_pools_by_pairs(x):
    images = x.reshape(1, 1, 4, 5)
    for pool in (F.max_pool2d, F.avg_pool2d):
        for pair in ((2, 2), [2, 2]):
            assert pool(images, pair, (2, 1), padding=[1, 1]).tolist() == pool(images[0], 2, (2, 1), 1)[None].tolist()
        with pytest.raises(ArgumentError, match="padding .* at most half"):
            pool(images, (2, 2), padding=(0, 2))


@pytest.mark.parametrize("change, name", [(lambda x, y: x.addcmul_(y, y), "addcmul_"), (lambda x, y: x.clamp_(min=y), "clamp_"),
                                          (lambda x, y: x.mul_(y), "mul_"), (lambda x, y: x.lerp_(y, 0.5), "lerp_")],
                         ids="addcmul clamp mul lerp".split())
def test_a_change_in_place_keeps_its_shape(x, change, name):
    with pytest.raises(ShapeError, match=f"{name}: the result has shape .*in place has"):
        change(x[:1].clone(), x)


def test_none_among_sizes_keeps_a_size(x):
    images = x.reshape(1, 4, 5)
    assert F.adaptive_avg_pool2d(images, (None, 1)).shape == F.adaptive_max_pool2d(images, [None, 1]).shape == (1, 4, 1)
    with pytest.raises(DTypeError, match="sizes must be integers|sequence of integers"):
        volta.reshape(x, (None, 5))


@pytest.mark.parametrize("pool", [lambda x: F.avg_pool2d(x, 2), lambda x: F.max_pool2d(x, 2), lambda x: F.adaptive_avg_pool2d(x, 2),
                                  lambda x: F.adaptive_max_pool2d(x, (2, 1)), lambda x: F.lp_pool2d(x, 2, 2)],
                         ids="avg max adaptive_avg adaptive_max lp".split())
def test_pools_of_one_sample(x, pool):
    sample = x.reshape(1, 4, 5)
    found = both(pool, sample)
    assert found.tolist() == pool(sample[None])[0].tolist() and found._base is None


def test_views_reach_what_they_show(x):
    for view in (lambda x: x.mT, lambda x: x.flatten(), lambda x: x.reshape(1, 4, 5).squeeze(0), lambda x: x.reshape_as(volta.ones(5, 4)),
                 lambda x: x[:1].expand_as(x), lambda x: x.tensor_split(2)[1], lambda x: volta.broadcast_to(x, (2, 4, 5))):
        shown = view(x)
        assert shown._base is x and shown.data_ptr() - x.data_ptr() in (0, 40)
        both(view, x)
    assert volta.ones(5, 1, 1).squeeze(1).stride() == (1, 1) and volta.tensor(2.0).flatten().shape == (1,)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool"])
def test_arrays_become_tensors(kind, rng):
    whole = rng.integers(0, 100, (4, 6)).astype(kind)
    for array in (whole, whole.T, whole[::2, ::-1], whole[:0], np.asarray(whole[0, 0])):
        for dtype in (None, volta.float32, volta.float64, volta.int64, volta.bool):
            made = volta.tensor(array, dtype=dtype)
            wanted = array if dtype is None else array.astype(dtype.name)
            assert made.dtype.name == wanted.dtype.name and made.tolist() == wanted.tolist()
            assert made.mT.is_contiguous() if array.base is whole and array.shape == (6, 4) else made.is_contiguous()      # as PyTorch's
    made = volta.tensor(whole)
    whole[...] = 0
    assert made.any()


def test_what_is_beyond_float32_is_infinite():
    made = volta.tensor(np.array([1e300, -1e300, np.nan, 0.1]), dtype=volta.float32)
    assert made[:2].tolist() == [volta.inf, -volta.inf] and made[2].isnan() and made[3].item() == np.float32(0.1)


@pytest.mark.parametrize("key", [0, -1, slice(1, 3), slice(None, None, 2), (slice(None), 1), (..., 0), (None, 2),
                                 (slice(0, 2), slice(1, 4, 2))], ids=str)
def test_parts_are_read_and_written(key, x):
    part = both(lambda x: x[key], x)
    assert part.tolist() == x.numpy()[key].tolist()
    value, plain, recorded = volta.full(part.shape, 7.0), x.clone(), x.clone().requires_grad_() * 1
    version = plain._version
    plain[key] = value
    recorded[key] = value
    assert plain._version == version + 1 and plain.tolist() == recorded.tolist() != x.tolist()
    plain[key] = x[key]                         # a view of other memory
    plain[key] = plain[key]
    assert plain.tolist() == x.tolist()


def test_parts_that_are_not_written(x):
    with pytest.raises(ShapeError, match=r"setitem: a value of shape \(3,\) does not broadcast"):
        x[0] = volta.ones(3)
    with pytest.raises(IndexError, match="index 4 is out of range for dimension 0"):
        x[4] = volta.ones(5)
    with pytest.raises(TypeError, match="does not support deleting"):
        del x[0]
    with pytest.raises(AutogradError, match="setitem_: unsupported operation: more than one element"):
        x[:1].expand(2, 5)[:, 0] = volta.ones(2)
    with pytest.raises(AutogradError, match="leaf tensor that requires grad"):
        x.clone().requires_grad_()[0] = volta.ones(5)
    with volta.inference_mode():
        inferred = volta.zeros(2, 3)
    with pytest.raises(AutogradError, match="outside InferenceMode"):
        inferred[0] = volta.ones(3)


@pytest.mark.parametrize("name", ["hstack", "vstack", "column_stack", "stack"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)], ids=str)
def test_stacks_of_few_elements(name, shape, rng):
    x, y = (volta.tensor(rng.standard_normal(shape), dtype=volta.float32) for _ in range(2))
    found = both(lambda x: getattr(volta, name)([x, y]), x)
    assert found.tolist() == getattr(np, name)([x.numpy(), y.numpy()]).tolist()


def test_calls_by_position_are_those_by_name(x):
    assert volta.sum(x, 1).tolist() == volta.sum(x, dim=1).tolist() == volta.sum(x, axis=1).tolist() == x.sum(dim=1).tolist()
    out = volta.empty(0)
    assert volta.cat(tensors=[x, x], dim=1, out=out) is out and out.tolist() == volta.cat([x, x], 1).tolist()
    with pytest.raises(TypeError, match="dimension"):
        volta.flatten(x, dimension=1)
    with pytest.raises(DTypeError, match="flatten: "):
        volta.flatten(x, start_dim="first")
    with pytest.raises(TypeError, match="multiple values"):
        volta.flatten(x, 0, start_dim=1)
    assert volta.transpose(x, 0, 1).tolist() == volta.transpose(input=x, dim0=0, dim1=1).tolist() == x.transpose(dim0=0, dim1=1).tolist()
    assert volta.std(x, 1).tolist() == volta.std(x, dim=1).tolist() == volta.std(*(x, 1), **{}).tolist()
    half = x.half()
    assert volta.std(half, 1).tolist() == volta.std(input=half, dim=1).tolist() and volta.std(half, 1).dtype is volta.float16
    with pytest.raises(DTypeError, match="std: "):
        volta.std(x.long(), 1)
    with pytest.raises(TypeError, match="transpose"):
        volta.transpose(x, 0)
    with pytest.raises(TypeError, match="dim0"):
        volta.transpose(x, "first", 1)


def test_one_number_behind_a_mask(x):
    mask = x > 0
    changed, wanted = x.clone(), x.tolist()
    changed[mask] = volta.tensor(2.5)
    assert changed.tolist() == [[2.5 if v > 0 else v for v in row] for row in wanted]
    for at in (mask, mask.t().contiguous().t()):
        assert both(lambda x, at=at: x.index_put((at,), volta.tensor([2.5])), x).tolist() == changed.tolist()
    assert x.index_put((mask,), volta.tensor(2.5), accumulate=True).tolist() == (x + 2.5 * mask).tolist()
    value = volta.tensor(2.5, requires_grad=True)
    recorded = x.clone()
    recorded[mask] = value
    recorded.sum().backward()
    assert recorded.tolist() == changed.tolist() and value.grad.item() == mask.sum().item()


def test_kernels_that_are_called_at_once(x, rng):
    """Of row-major and of turned tensors, with and without what is optional."""
    for given in (x, x.t().contiguous().t()):
        for d in (0, -1):
            both(lambda x, d=d: volta.index_select(x, d, volta.tensor([3, 0, 3])), given)
            for keepdim in (False, True):
                both(lambda x, d=d, k=keepdim: volta.mode(x.round(), d, k).values, given)
                assert volta.mode(given.round(), d, keepdim).indices.tolist() == (
                    volta.mode(given.round().requires_grad_(), d, keepdim).indices.tolist())
                for f in (volta.var, volta.std):
                    both(lambda x, f=f, d=d, k=keepdim: f(x, d, keepdim=k), given)
        both(lambda x: volta.var_mean(x, correction=0)[1], given)
    for rank in (1, 2, 3):
        images = volta.tensor(rng.standard_normal((2, 3, 7, 6, 5)[:rank + 2]), dtype=volta.float32)
        weight = volta.tensor(rng.standard_normal((4, 3, 3, 2, 2)[:rank + 2]), dtype=volta.float32)
        conv, pool = getattr(F, f"conv{rank}d"), getattr(F, f"max_pool{rank}d")
        for options in ({}, {"stride": [2] * rank, "padding": (1,) * rank}, {"padding": "same"}, {"dilation": 2}):
            for bias in (None, volta.ones(4)):
                both(lambda x, w, b=bias, o=options, conv=conv: conv(x, w, b, **o), images, weight)
        both(lambda x, pool=pool: pool(x, 3, 2, 1), images)
        with pytest.raises(ShapeError, match=f"conv{rank}d: an input of .* is smaller than the kernel"):
            conv(images, weight, dilation=4)
        with pytest.raises(ArgumentError, match=f"conv{rank}d: stride"):
            conv(images, weight, stride=0)
    grid = volta.tensor(rng.uniform(-1, 1, (2, 3, 4, 2)), dtype=volta.float32)
    images = volta.tensor(rng.standard_normal((2, 3, 7, 6)), dtype=volta.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        both(lambda x, mode=mode: F.grid_sample(x, grid, mode, align_corners=False), images)


@pytest.mark.parametrize("dtype", [volta.float32, volta.int64, volta.uint8, volta.bfloat16], ids=str)
def test_whether_elements_are_among_few_or_many(dtype, rng):
    for shape, tests in (((4, 5), (3,)), ((), (2, 2)), ((300,), (16,)), ((4, 5), (1,)), ((2, 3), (40,)), ((0, 3), (2,)), ((3,), (0,))):
        x, y = (volta.tensor(rng.integers(0, 9, s)).to(dtype) for s in (shape, tests))
        want = np.isin(x.float().numpy(), y.float().numpy())
        for given in (x, x.t().contiguous().t() if x.ndim == 2 else x):
            assert volta.isin(given, y).tolist() == want.tolist()
            assert volta.isin(given, y, invert=True).tolist() == (~want).tolist()
    with pytest.raises(DTypeError, match="isin: needs a tensor of numbers, got bool"):
        volta.isin(x > 1, y > 1)


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_labels_in_16_bits(reduction, dtype, rng):
    """What the labels do not name is not looked at; the loss and its gradient are those of float32, rounded once."""
    for shape, ignored in (((300, 7), -100), ((3, 4, 2, 3), 2), ((5,), -100)):
        x = volta.tensor(rng.standard_normal(shape), dtype=dtype).requires_grad_()
        wide = x.detach().float().requires_grad_()
        target = volta.tensor(rng.integers(0, 4, shape[:1] + shape[2:] if len(shape) > 1 else ()))
        for weight in (None, volta.tensor(rng.uniform(0.5, 2, shape[1] if len(shape) > 1 else 5), dtype=dtype)):
            of_wide = F.nll_loss(wide, target, weight if weight is None else weight.float(), ignore_index=ignored, reduction=reduction)
            loss = F.nll_loss(x, target, weight, ignore_index=ignored, reduction=reduction)
            assert loss.dtype is dtype and loss.tolist() == of_wide.to(dtype).tolist()
            g = volta.ones_like(loss)
            found, = volta.autograd.grad(loss, x, g)
            assert found.tolist() == volta.autograd.grad(of_wide, wide, g.float())[0].to(dtype).tolist()
    with pytest.raises(IndexError, match="nll_loss: label 7 at position 1 is outside the 7 classes"):
        F.nll_loss(volta.zeros(2, 7, dtype=dtype), volta.tensor([0, 7]))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_few_elements_are_counted(dtype):
    dtype = getattr(volta, dtype)
    given = [0.0, 1.0, 0.0, 2.0] + [-1.0] * dtype.is_signed
    if dtype.is_floating_point:
        given += [-0.0, float("nan"), float("inf"), volta.finfo(dtype).smallest_normal]
    x = volta.tensor(given, dtype=dtype)
    zeros = 2 + dtype.is_floating_point
    found = x.count_nonzero()
    assert found.dtype is volta.int64 and found.shape == () and found == x._size - zeros == x.repeat(300).count_nonzero() // 300
    assert x.expand(3, x._size).count_nonzero() == 3 * (x._size - zeros) and x[:0].count_nonzero() == 0 and x[1].count_nonzero() == 1
    assert volta.tensor([[5e-324, 0.0]], dtype=volta.float64).t().count_nonzero() == 1


def test_sizes_of_new_tensors():
    for given in ((2, 3), ((2, 3),), ([2, 3],), (volta.Size([2, 3]),), (np.int64(2), 3)):
        assert volta.zeros(*given).shape == volta.ones(*given).shape == volta.empty(*given).shape == (2, 3)
    assert volta.zeros(()).shape == volta.zeros(size=()).shape == () and volta.zeros(0, 4).shape == (0, 4)
    with pytest.raises(ShapeError, match="sizes must not be negative, got \\(2, -1\\)"):
        volta.zeros(2, -1)
    with pytest.raises(ShapeError, match="at most .* and 2\\*\\*60 elements are possible"):
        volta.zeros(2 ** 31, 2 ** 31)
