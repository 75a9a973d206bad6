"""Small differences from PyTorch that a run of its op database found, each with the answer that it gives."""
import contextlib
import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta.ops.records.conv import conv2d_op


@pytest.mark.parametrize("median", [volta.median, volta.nanmedian])
def test_a_median_of_minus_infinity_goes_to_those_that_are_it(median):
    x = volta.tensor([-8.0, -math.inf], requires_grad=True)
    assert volta.autograd.grad(median(x), x)[0].tolist() == [0.0, 1.0]
    x = volta.tensor([-math.inf, -math.inf, 4.0], requires_grad=True)
    assert volta.autograd.grad(median(x), x)[0].tolist() == [0.5, 0.5, 0.0]


def test_what_is_put_into_nothing_has_a_gradient():
    x, source = volta.ones(0, requires_grad=True), volta.ones(0, requires_grad=True)
    out = volta.put(x, volta.zeros(0, dtype=volta.int64), source, accumulate=True)
    assert volta.autograd.grad(out.sum(), source)[0].shape == (0,)


def test_padding_of_a_bag_has_no_part_in_the_gradient_of_its_scales():
    weight, scales = volta.full((5, 2), math.nan), volta.ones(1, 3, requires_grad=True)
    out = F.embedding_bag(volta.tensor([[2, 1, 2]]), weight, mode="sum", padding_idx=2, per_sample_weights=scales)
    got = volta.autograd.grad(out.sum(), scales)[0].numpy()
    np.testing.assert_array_equal(got, [[0.0, math.nan, 0.0]])


def test_maxima_of_bags_of_no_width_are_differentiable():
    weight = volta.ones(4, 0, requires_grad=True)
    assert F.embedding_bag(volta.tensor([0, 1]), weight, volta.tensor([0, 1]), mode="max").requires_grad


@pytest.mark.parametrize("op", [volta.tril, volta.triu])
def test_triangles_are_stored_where_places_are_one_element(op):
    out = volta.zeros(1, 1).expand(2, 2)
    op(volta.tensor([[1.0, 2.0], [3.0, 4.0]]), out=out)
    assert out[0, 0].item() == 4.0


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3), (1, 0, 2, 3), (0, 1, 3, 2)])
@pytest.mark.parametrize("values", [8, 5])
def test_attention_lies_as_its_queries_do(order, values):
    rng = np.random.RandomState(0)
    shape = (2, 4, 3, 8)
    q = volta.tensor(rng.randn(*[shape[d] for d in order])).permute(*np.argsort(order).tolist())
    k, v = volta.tensor(rng.randn(2, 4, 6, 8)), volta.tensor(rng.randn(2, 4, 6, values))
    q.requires_grad_()
    out = F.scaled_dot_product_attention(q, k, v)
    rows = values == 8 and order[3] == 3                # queries in lines as wide as the values
    assert out.stride() == (q.stride() if rows else (12 * values, 3 * values, values, 1))
    scores = q.detach().numpy() @ k.numpy().swapaxes(2, 3) / math.sqrt(8)
    p = np.exp(scores) / np.exp(scores).sum(3, keepdims=True)
    np.testing.assert_allclose(out.detach().numpy(), p @ v.numpy(), rtol=1e-10)
    g, row_major = volta.tensor(rng.randn(*shape[:3], values)), q.detach().contiguous().requires_grad_()
    other = volta.autograd.grad(F.scaled_dot_product_attention(row_major, k, v), row_major, g)[0]
    np.testing.assert_allclose(volta.autograd.grad(out, q, g)[0].numpy(), other.numpy(), rtol=1e-10)


@pytest.mark.parametrize("weights", [True, False])
def test_a_sequence_first_result_of_many_heads_is_row_major(weights):
    x, w = volta.rand(3, 2, 4), volta.rand(12, 4)
    out, _ = F.multi_head_attention_forward(x, x, x, 4, 2, w, None, None, None, False, 0.0, volta.rand(4, 4), None, need_weights=weights)
    assert out.is_contiguous()


def test_repeats_of_once_are_row_major():
    x = volta.arange(6).reshape(3, 2).t()
    assert x.repeat(1, 1).is_contiguous() and x.repeat(1, 1).tolist() == x.tolist()
    assert volta.tile(x, (1,)).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_integers_are_row_major(groups):
    rng = np.random.RandomState(0)
    x, w = rng.randint(-5, 5, (2, 4, 5, 6)), rng.randint(-5, 5, (6, 4 // groups, 3, 2))
    out = F.conv2d(volta.tensor(x), volta.tensor(w), padding=1, groups=groups)
    assert out.is_contiguous() and out.dtype is volta.int64
    wide = F.conv2d(volta.tensor(x.astype(float)), volta.tensor(w.astype(float)), padding=1, groups=groups)
    np.testing.assert_array_equal(out.numpy(), wide.numpy())
    assert F.conv_transpose2d(volta.tensor(x), volta.ones(4, 3, 2, 2, dtype=volta.int64), stride=2).is_contiguous()


@pytest.mark.parametrize("op", [volta.quantile, volta.nanquantile])
def test_quantiles_in_an_empty_out_are_row_major(op):
    out = volta.empty(0)
    op(volta.rand(3, 5), volta.tensor([0.1, 0.5]), dim=0, out=out)
    assert out.shape == (2, 5) and out.is_contiguous()


def test_batches_of_different_sizes_are_an_error_of_values():
    with pytest.raises(ValueError, match="different sizes"):
        F.cross_entropy(volta.ones(2, 3), volta.ones(4, 3))


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_what_index_tensors_read_lies_as_in_torch(order):
    torch = pytest.importorskip("torch")
    array, back = np.arange(24.0).reshape([(2, 3, 4)[d] for d in order]), np.argsort(order).tolist()
    rows, turned = np.array([[0, 1, 1], [1, 0, 0]]), np.array([[0, 1], [1, 1], [0, 0]])

    def keys(T):
        i, j, k = T.tensor(rows), T.tensor(turned).t(), T.tensor([1, 0])
        every = slice(None)
        return (i, j, k, (every, i), (every, j), (every, every, k), (k, every, k), (i, j), (every, i, j), (0, every, k), (None, every, k),
                (slice(1), j, every), (every, 1, j))

    for mine, theirs in zip(keys(volta), keys(torch)):
        x, y = volta.tensor(array).permute(*back).requires_grad_(), torch.tensor(array).permute(*back).requires_grad_()
        a, b = x[mine], y[theirs]
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        assert [s for s, n in zip(a.stride(), a.shape) if n > 1] == [s for s, n in zip(b.stride(), b.shape) if n > 1]
        a, b = (T.autograd.grad((t * t).sum(), leaf)[0].numpy() for T, t, leaf in ((volta, a, x), (torch, b, y)))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
def test_attention_of_halves_lies_as_its_queries_do(dtype):
    q = volta.rand(4, 3, 8).to(dtype)
    assert F.scaled_dot_product_attention(q, q, q, is_causal=True).is_contiguous()
    q = volta.rand(2, 3, 4, 8).to(dtype).transpose(1, 2)
    assert F.scaled_dot_product_attention(q, q, q).stride() == q.stride()


def test_unravelled_indices_lie_as_the_flat_ones():
    flat = volta.arange(6).reshape(3, 2).t()
    rows, columns = volta.unravel_index(flat, (2, 3))
    assert rows.stride() == columns.stride() == (2, 4)
    assert (rows * 3 + columns).tolist() == flat.tolist()


@pytest.mark.parametrize("dtype", [volta.float32, volta.float64])
def test_the_mean_of_no_numbers_has_the_gradient_nan(dtype):
    x = volta.tensor([[math.nan, math.nan], [1.0, math.nan]], dtype=dtype, requires_grad=True)
    for options, expected in (({"dim": 1}, [[math.nan, math.nan], [1.0, 0.0]]), ({}, [[0.0, 0.0], [1.0, 0.0]])):
        got, = volta.autograd.grad(volta.nanmean(x, **options).sum(), x)
        np.testing.assert_array_equal(got.numpy(), expected)
    alone = volta.tensor(math.nan, dtype=dtype, requires_grad=True)
    assert math.isnan(volta.autograd.grad(volta.nanmean(alone), alone)[0].item())


def test_weights_of_another_dtype_are_added_up_in_theirs():
    """1 and 2**-25 are 1 in float32."""
    weights = volta.tensor([1.0, 2.0**-25])
    found = volta.cov(volta.tensor([0.0, 1.0], dtype=volta.float64), aweights=weights, correction=0).item()
    mean = 2.0**-25
    assert found == pytest.approx(mean**2 + mean * (1 - mean)**2, rel=1e-12, abs=0)


@pytest.mark.parametrize("name", ["i1", "i1e"])
def test_bessel_functions_are_lines_at_tiny_numbers(name, device):
    x = volta.tensor([0.0, 1e-40, -1e-8, math.nan, 1.0], device=device, requires_grad=True)
    slope, = volta.autograd.grad(getattr(volta.special, name)(x).sum(), x, create_graph=True)
    bend, = volta.autograd.grad(slope.sum(), x)
    assert slope.tolist()[:4] == [0.5] * 4 and bend.tolist()[:4] == [0.0] * 4 and 0 < abs(bend.tolist()[4]) < 1


def test_second_derivatives_far_from_zero(device):
    def bend(function, values):
        x = volta.tensor(values, device=device, requires_grad=True)
        slope, = volta.autograd.grad(function(x).sum(), x, create_graph=True)
        return volta.autograd.grad(slope.sum(), x)[0].tolist()
    assert bend(volta.special.log_ndtr, [30.0, 100.0, 1e4]) == [0.0] * 3
    assert bend(volta.digamma, [-745.0, -100.0]) == [-math.inf] * 2
    assert bend(lambda x: x ** volta.tensor([1e30, -1e30], device=device), [0.5, 2.0]) == [0.0] * 2
    assert bend(lambda x: x.norm() * 2.0, [3e38, 1.0]) == [0.0] * 2


@pytest.mark.parametrize("dtype", [volta.int64, volta.float32])
def test_sums_of_products_lie_as_the_first_input(dtype):
    x, a = volta.ones(4, 8, dtype=dtype)[:, ::2], volta.ones(4, 4, dtype=dtype).t()
    assert volta.addcmul(x, a, a).stride() == (4, 1) and volta.addcmul(a, x, x).stride() == (1, 4)


def test_edges_of_a_histogram_are_its_own():
    edges = volta.arange(10.0)[::2]
    found = volta.histogram(volta.ones(3), edges).bin_edges
    assert found.stride() == (1,) and found.data_ptr() != edges.data_ptr() and found.tolist() == edges.tolist()


@pytest.mark.parametrize("call", [
    lambda a, t, out: volta.geqrf(a, out=(out, volta.empty(0))), lambda a, t, out: volta.orgqr(a, t, out=out),
    lambda a, t, out: volta.ormqr(a, t, a, out=out)])
def test_products_of_reflections_are_row_major_where_out_had_another_shape(call):
    a = volta.rand(3, 3)
    for out, strides in ((volta.zeros(2, 2, 2), (3, 1)), (volta.empty(0), (1, 3))):
        with pytest.warns(UserWarning) if out.numel() else contextlib.nullcontext():
            call(a, volta.rand(3), out)
        assert out.shape == (3, 3) and out.stride() == strides


def test_powers_of_2_that_no_number_holds(device):
    """Of a product with an integer power alone the result has to be within the range of numbers."""
    small = 1e-38 if device == "cpu" else 2e-38         # a GPU may take denormals for zero
    values, powers = np.float32([small, 0.0, -1e38, math.inf, 1.0]), np.array([249, 300, -240, -300, 127])
    found = volta.ldexp(volta.tensor(values, device=device), volta.tensor(powers, device=device))
    np.testing.assert_array_equal(found.numpy(), np.ldexp(values, powers))
    wide = volta.tensor([1e-300, 0.0, 1e300], dtype=volta.float64)
    assert volta.ldexp(wide, volta.tensor([2000, 5000, -2000])).tolist() == [math.ldexp(1e-300, 2000), 0.0, math.ldexp(1e300, -2000)]
    assert volta.ldexp(volta.tensor([1.5]).half(), volta.tensor([-25])).item() == 2.0**-24


def test_factors_in_tensors_have_no_part_in_the_dtype(device):
    x, half = volta.tensor([3, 4], device=device), volta.tensor(0.5, device=device)
    for call in (lambda: volta.add(x, x, alpha=half), lambda: volta.sub(x, 3, alpha=half), lambda: volta.rsub(x, x, alpha=half)):
        with pytest.raises(DTypeError, match="is no integer, but the tensors are"):
            call()
    with pytest.raises(DTypeError, match="a bool alpha is for bool tensors"):
        volta.add(x, x, alpha=half > 0)
    two = volta.tensor(2.5, device=device)
    assert volta.addcmul(x, x, x, value=two).tolist() == [21, 36] and x.clone().addcmul_(x, x, value=two).dtype is volta.int64
    wide = volta.tensor(2.0, dtype=volta.float64)
    one = volta.tensor(1.0)
    for found in (volta.add(one, one, alpha=wide), volta.addcmul(one, one, one, value=wide), volta.addcdiv(one, one, one, value=wide)):
        assert found.dtype is volta.float32 and found.item() == 3.0


def test_dimensions_and_orders_in_tensors(device):
    x, one = volta.tensor([[1.0, 5.0], [4.0, 2.0]], device=device), volta.tensor(1)
    assert volta.max(x, one, True).values.tolist() == [[5.0], [4.0]] and x.min(one, True).indices.tolist() == [[0], [1]]
    np.testing.assert_array_equal(volta.polygamma(one, x).numpy(), volta.polygamma(1, x).numpy())
    np.testing.assert_array_equal(x.polygamma(one).numpy(), volta.polygamma(1, x).numpy())


def test_norms_of_an_order_that_is_no_number(device):
    x = volta.tensor([[1.0, 2.0]], device=device, requires_grad=True)
    for found in (x.norm(math.nan), volta.linalg.vector_norm(x, math.nan, 1), F.normalize(x, math.nan), volta.dist(x, x * 2, math.nan)):
        assert volta.isnan(found).all().item() and volta.isnan(volta.autograd.grad(found.sum(), x)[0]).all().item()
    assert volta.norm(x[:, 1:], math.nan).item() == 2.0


def test_statistics_of_a_batch_without_eps(device):
    x = volta.tensor([[1.0, 2.0], [3.0, 6.0]], device=device)
    mean, variance = volta.zeros(2, device=device), volta.ones(2, device=device)
    out = volta.batch_norm(x, None, None, mean, variance, True, 0.1, 0.0, False)
    np.testing.assert_allclose(out.numpy(), [[-1, -1], [1, 1]], rtol=1e-6)
    np.testing.assert_allclose(variance.numpy(), [1.1, 1.7], rtol=1e-6)
    np.testing.assert_allclose(volta.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)[2].numpy(), [1.0, 0.5], rtol=1e-6)
    with pytest.raises(ValueError, match="eps must be above 0 in training, got 0"):
        F.batch_norm(x, None, None, training=True, eps=0)


def test_logits_broadcast_to_targets(device):
    logits, targets = volta.tensor([0.1, 0.2], device=device), volta.tensor([[0.0, 1.0], [1.0, 1.0]], device=device)
    losses = volta.binary_cross_entropy_with_logits(logits, targets)
    np.testing.assert_array_equal(losses[1].numpy(), volta.binary_cross_entropy_with_logits(logits, targets[1]).numpy())
    with pytest.raises(ShapeError, match="must have the same shape"):
        volta.binary_cross_entropy_with_logits(targets, logits)


def test_numbers_of_successes_that_need_no_draw(device):
    count = volta.tensor([10.0, 2.5, math.inf, math.nan, math.inf, math.nan, -1.0, 0.0, 5.0, 5.0, 5.0], device=device)
    chance = volta.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, math.nan, math.nan, math.nan, -0.5, 1.5], device=device)
    np.testing.assert_array_equal(volta.binomial(count, chance).numpy(), [10, 2.5, math.inf, math.nan, 0, 0, 0, 0, math.nan, 0, 5])


@pytest.mark.parametrize("values", [[3e38, 1.0, 2.0, 3.0], [3e38, -3e38], [3e38] * 40, [1e20, 1.0, 2.0], [1.0, math.nan]])
@pytest.mark.parametrize("dtype", [volta.float32, volta.float64])
def test_variances_of_numbers_whose_sums_are_beyond_all(values, dtype):
    torch = pytest.importorskip("torch")
    scale = 1.0 if dtype is volta.float32 else 2e269
    for shape in ((-1,), (-1, 1)):
        x = (np.array(values) * scale).reshape(shape).repeat(3 if len(shape) > 1 else 1, len(shape) - 1)
        ours, theirs = volta.var_mean(volta.tensor(x, dtype=dtype), 0), torch.var_mean(torch.tensor(x, dtype=getattr(torch, dtype.name)), 0)
        for found, expected in zip(ours, theirs):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_a_variance_beyond_float32_is_infinite(device):
    x = volta.tensor([1e20, 1.0, 2.0] * 300, device=device)
    for found in (volta.var_mean(x), volta.var_mean(x.reshape(-1, 1), 0), volta.var_mean(x.reshape(-1, 4), 0)):
        assert (found[0] == math.inf).all().item() and volta.isfinite(found[1]).all().item()


@pytest.mark.parametrize("equation", ["ij,jk->ki", "ji,kj->ik", "bij,bjk->bki", "bij,bjk->kbi", "ijk,jl->lik", "i,j->ji", "ij,kl->ilkj"])
def test_products_of_two_lie_as_in_torch(equation):
    torch = pytest.importorskip("torch")
    sizes = dict(zip("bijkl", (2, 3, 4, 5, 6)))
    arrays = [np.random.RandomState(0).rand(*[sizes[c] for c in term]) for term in equation.partition("->")[0].split(",")]
    found, expected = volta.einsum(equation, *map(volta.tensor, arrays)), torch.einsum(equation, *map(torch.tensor, arrays))
    assert found.stride() == expected.stride()
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


def test_a_factor_of_0_leaves_the_product_out(device):
    a, b = volta.tensor([[math.nan, 1.0], [2.0, math.inf]], device=device), volta.ones(2, 2, device=device)
    for found in (volta.addmm(b, a, b, alpha=0), volta.addmm(b, a, b, alpha=0, beta=0) + 1, volta.addbmm(b, a[None], b[None], alpha=0),
                  volta.addmv(b[0], a, b[0], alpha=0), b.clone().addmm_(a, b, alpha=0)):
        assert (found == 1).all().item()
    assert volta.isnan(volta.baddbmm(b, a[None], b[None], alpha=0)).any().item()            # where PyTorch multiplies
    assert volta.isnan(volta.addr(b, a[0], b[0], alpha=0)).any().item()


def test_outer_products_are_scaled_before_they_are_made(device):
    x = volta.tensor([2e38, 1.0], device=device)
    assert volta.addr(volta.zeros(2, 2, device=device), x, x[1:].expand(2) * 3, alpha=0.25).tolist()[0] == pytest.approx([1.5e38] * 2)
    flags = volta.tensor([True, False], device=device)
    assert volta.addr(flags, flags, flags, beta=0).tolist() == [[True, False], [False, False]]
    with pytest.raises(ArgumentError, match="may be bool for bool tensors alone"):
        volta.addr(x, x, x, alpha=True)


def test_gradients_of_an_incomplete_gamma_function_below_0_are_no_number(device):
    x = volta.tensor([-1.0, 1.0], device=device, requires_grad=True)
    slope, = volta.autograd.grad(volta.igamma(volta.ones(2, device=device), x).sum(), x)
    assert math.isnan(slope[0].item()) and slope[1].item() == pytest.approx(math.exp(-1.0))


@pytest.mark.parametrize("reduce", [volta.sum, volta.prod, volta.nansum, lambda x: volta.sum(x, 0), lambda x: x.sum_to_size(())])
def test_the_sum_of_one_integer_is_a_number_of_its_own(reduce):
    x = volta.tensor(3)
    total = reduce(x)
    total += 1
    assert x.item() == 3 and total.item() == 4


def test_copies_of_parts_that_are_stored_give_nothing():
    x, outs = volta.arange(6).reshape(2, 3), [volta.empty(0, dtype=volta.int64) for _ in range(2)]
    assert volta.unbind_copy(x, out=outs) is None and outs[1].tolist() == [3, 4, 5]
    outs = [volta.empty(0, dtype=volta.int64) for _ in range(2)]
    assert volta.split_with_sizes_copy(x, [1, 1], out=outs) is None and outs[0].tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("n", [-2, -1, 1, 3])
def test_powers_of_matrices_are_stored_row_by_row(n):
    out = volta.empty(0)
    volta.linalg.matrix_power(2 * volta.eye(3), n, out=out)
    assert out.is_contiguous() and out[1, 1].item() == 2.0**n


def test_edges_that_were_given_are_given_back():
    edges = volta.tensor([0.0, 0.5, 1.0], dtype=volta.float16)
    out = volta.histogramdd(volta.rand(5, 2).to(volta.float16), [edges, edges])
    assert out.bin_edges[0].data_ptr() == edges.data_ptr()


def test_what_refuses_a_dtype_is_not_implemented_for_it():
    with pytest.raises(NotImplementedError, match="floating point"):
        volta.softmax(volta.ones(2, dtype=volta.int64), 0)


@pytest.mark.parametrize("named", [0, 1])
def test_groups_of_an_optimizer_have_names_or_none_has(named):
    groups = [{"params": [volta.ones(1, requires_grad=True)]}, {"params": [("b", volta.ones(1, requires_grad=True))]}]
    with pytest.raises(ValueError, match="SGD: all groups must hold .name, parameter. pairs, or none; this one holds pa"):
        volta.optim.SGD(groups[::1 - 2 * named], lr=0.1)


@pytest.mark.filterwarnings("ignore:.*out of shape")
def test_what_grows_into_what_is_read_is_refused():
    index = volta.tensor([2, 1, 0])
    with pytest.raises(RuntimeError, match="gather: unsupported operation"):
        volta.gather(index.clone(), 0, index[1:], out=index[:1])
    assert index.tolist() == [2, 1, 0]
    x = volta.arange(6)
    volta.cat([x[:2], x[:1]], out=x[3:4])
    assert x.tolist() == [0, 1, 2, 0, 1, 0]


@pytest.mark.parametrize("dtype", [volta.int64, volta.bool])
def test_nothing_is_left_of_integers_whose_elements_all_drop(dtype):
    x = volta.tensor([[1, 2]]).to(dtype)
    for drop in (F.dropout, F.alpha_dropout, F.feature_alpha_dropout):
        out = drop(x, 1.0, True)
        assert out.dtype is dtype and not out.any()


@pytest.mark.parametrize("dtype", [volta.int64, volta.bool])
def test_nothing_to_compute_is_taken_of_any_dtype(dtype):
    x = volta.zeros(2, 0, dtype=dtype)
    for op in (volta.softmax, volta.log_softmax, F.softmax):
        out = op(x, -1)
        assert out.shape == (2, 0) and out.dtype is dtype
    assert volta.bucketize(x, volta.zeros(3, dtype=dtype)).dtype is volta.int64
    assert volta.linspace(1, 2, 0, dtype=dtype).tolist() == [] and volta.linspace(1, 2, 1, dtype=dtype).tolist() == [1]
    if dtype is volta.bool:
        with pytest.raises(DTypeError, match="searchsorted: sorted must be floating point or integer"):
            volta.searchsorted(x[0], volta.ones(3, dtype=dtype))
        with pytest.raises(DTypeError, match="linspace: needs a dtype of numbers"):
            volta.linspace(0, 1, 2, dtype=dtype)


# ---------------------------------------------------------------- views
@pytest.mark.parametrize("key, kept", [(0, [0, 0, 3, 3]), ((0, 1), [3, 0, 3, 3]), (slice(0, 0), [3, 3, 3, 3]),
                                       (slice(None, None, 2), [0] * 4)])
def test_what_a_subscript_writes_of_windows_that_overlap(key, kept):
    x = volta.tensor([-0.5, 0.5, 1.0, 2.0], requires_grad=True)
    y = x * 1
    y.unfold(0, 2, 1)[key] = -2.0
    assert volta.autograd.grad((y * 3).sum(), x)[0].tolist() == kept


OWNED = {"stack": lambda x: volta.stack((x, x)), "linear": lambda x: F.linear(x, volta.ones(2, 3)),
         "product": lambda x: x @ volta.ones(3, 2), "softmax": lambda x: x[0].softmax(0),
         "embedding": lambda x: F.embedding(volta.tensor([[0]]), x[:, None]), "sort": lambda x: x[:, None].sort(1).values,
         "state": lambda x: volta.nn.LSTM(3, 2)(x.reshape(1, 1, 3))[1][0],
         "outputs": lambda x: volta.nn.RNN(3, 2)(x.reshape(1, 1, 3))[0], "roll": lambda x: x[:, None].roll(1)}


@pytest.mark.parametrize("name", OWNED)
def test_results_are_no_views_of_what_nobody_sees(name):
    """They are detached in place, as a state is between parts of a sequence, and changed where a gradient is wanted."""
    assert not OWNED[name](volta.ones(3, requires_grad=True)).detach_().requires_grad
    with volta.no_grad():
        y = OWNED[name](volta.ones(3))
    w = volta.tensor(2.0, requires_grad=True)
    assert volta.autograd.grad(y.mul_(w).sum(), w)[0].shape == ()


def test_results_that_are_views_of_arguments_stay_so():
    x = volta.ones(2, 3, requires_grad=True) * 1
    for view in (x.t(), x.transpose(0, 0), x.flatten(), x.movedim(0, 1), x.chunk(2)[1], volta.broadcast_tensors(x, x[0])[0], x[0].t()):
        assert view is not x and view._base is x or view is x
    x.flatten().mul_(2)
    assert x.sum().item() == 12.0 and volta.tensor(1.0).t() is not None
    zero = volta.tensor(1.0)
    assert zero.t() is not zero and zero.transpose(0, -1) is not zero and zero.movedim(0, 0) is not zero


def test_views_of_a_leaf_keep_their_geometry():
    x = volta.ones(1, 2, requires_grad=True)
    for change in (lambda v: v.squeeze_(), lambda v: v.unsqueeze_(0), lambda v: v.t_()):
        with pytest.raises(AutogradError, match="a view of a leaf tensor that requires grad"):
            change(x.view(1, 2))
    with pytest.raises(AutogradError, match="retain_grad: the tensor does not require grad"):
        volta.ones(2).retain_grad()


def test_gradients_of_sums_so_far_are_shown_forwards():
    x = volta.ones(3, 2, requires_grad=True)
    assert volta.autograd.grad(x.cumsum(0).sum(), x)[0].view(-1).tolist() == [3, 3, 2, 2, 1, 1]


# ---------------------------------------------------------------- arguments
def test_out_that_is_read_keeps_its_shape():
    x = volta.zeros(3, 1)
    for op in (volta.add, volta.maximum):
        with pytest.raises(ShapeError, match="out is one of the inputs"):
            op(x, volta.ones(3), out=x)
    assert x.shape == (3, 1)


def test_tolerances_of_each_matrix():
    x = volta.tensor([[2.0, 0.0], [0.0, 0.5]]).expand(2, 2, 2)
    for got in (volta.linalg.pinv(x, volta.tensor([0.1, 0.5])), volta.linalg.pinv(x[0], atol=volta.tensor([0.1, 1.0]))):
        assert got.tolist() == [[[0.5, 0.0], [0.0, 2.0]], [[0.5, 0.0], [0.0, 0.0]]]
    assert volta.linalg.pinv(x[:0], volta.ones(0)).shape == (0, 2, 2)


def test_norms_are_not_narrowed():
    x = volta.ones(2, 2, dtype=volta.float64)
    for call in (lambda: x.norm(dtype=volta.float32), lambda: volta.linalg.matrix_norm(x, 1, dtype=volta.float32),
                 lambda: volta.linalg.vector_norm(x.half(), dtype=volta.bfloat16)):
        with pytest.raises(DTypeError, match="does not hold what"):
            call()


def test_names_and_numbers_as_pytorch_takes_them():
    x = volta.tensor([1.0, 2.0])
    assert volta.polygamma(1, input=x).tolist() == x.polygamma(n=1).tolist() == volta.polygamma(1, x).tolist()
    with pytest.warns(UserWarning, match="deprecated"):
        assert volta.range(0.5, 3, dtype=volta.int8).tolist() == [0, 1, 2, 3]
    with pytest.warns(UserWarning, match="deprecated"), pytest.raises(DTypeError, match="bool has no numbers"):
        volta.range(0, 1, dtype=volta.bool)
    assert [tuple(m.shape) for m in volta.svd(volta.ones(2, 3), compute_uv=False)] == [(2, 2), (2,), (3, 3)]
    with pytest.raises(ArgumentError, match="dims must name each dimension once"):
        volta.linalg.tensorsolve(volta.eye(2), volta.ones(2), (0, 0))
    with pytest.raises(AutogradError, match="leaf"):
        volta.embedding_renorm_(volta.ones(2, 2, requires_grad=True), volta.tensor([0]), 1.0, 2.0)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_no_channels(rank, bias, device):
    """They ended the process. PyTorch gives no channels then; gradients are zeros."""
    size = (3,) * rank
    x = volta.ones(2, 0, *size, device=device, requires_grad=True)
    weight, b = volta.ones(4, 0, *(2,) * rank, device=device, requires_grad=True), volta.ones(4, device=device) if bias else None
    out = getattr(F, f"conv{rank}d")(x, weight, b)
    assert out.shape == (2, 0, *(2,) * rank)
    assert [g.shape for g in volta.autograd.grad(out.sum(), (x, weight))] == [x.shape, weight.shape]
    y, none = volta.ones(2, 3, *size, device=device, requires_grad=True), volta.ones(3, 0, *(2,) * rank, device=device)
    out = getattr(F, f"conv_transpose{rank}d")(y, none)
    assert out.shape == (2, 0, *(4,) * rank) and volta.autograd.grad(out.sum(), y)[0].abs().sum().item() == 0


def test_a_convolution_of_no_channels_is_its_bias():
    for dtype in (volta.float32, volta.float64):
        out = conv2d_op(volta.ones(2, 0, 3, 3, dtype=dtype), volta.ones(2, 0, 2, 2, dtype=dtype), volta.tensor([1.0, 2.0], dtype=dtype),
                        stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)
        assert out[:, 0].tolist() == [[[1.0] * 2] * 2] * 2 and out[:, 1].tolist() == [[[2.0] * 2] * 2] * 2
