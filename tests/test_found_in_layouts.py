"""Where results lie, what is a view of what, and what `out=` takes: differences from PyTorch that comparisons found."""
import contextlib
import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
import volta.optim
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError

OWNED = {"stack": lambda x: volta.stack((x, x)), "linear": lambda x: F.linear(x, volta.ones(2, 3)),
         "product": lambda x: x @ volta.ones(3, 2), "softmax": lambda x: x[0].softmax(0),
         "embedding": lambda x: F.embedding(volta.tensor([[0]]), x[:, None]), "sort": lambda x: x[:, None].sort(1).values,
         "state": lambda x: volta.nn.LSTM(3, 2)(x.reshape(1, 1, 3))[1][0],
         "outputs": lambda x: volta.nn.RNN(3, 2)(x.reshape(1, 1, 3))[0], "roll": lambda x: x[:, None].roll(1)}


def test_what_is_put_into_nothing_has_a_gradient():
    x, source = volta.ones(0, requires_grad=True), volta.ones(0, requires_grad=True)
    out = volta.put(x, volta.zeros(0, dtype=volta.int64), source, accumulate=True)
    assert volta.autograd.grad(out.sum(), source)[0].shape == (0,)


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


def test_statistics_of_a_batch_without_eps(device):
    x = volta.tensor([[1.0, 2.0], [3.0, 6.0]], device=device)
    mean, variance = volta.zeros(2, device=device), volta.ones(2, device=device)
    out = volta.batch_norm(x, None, None, mean, variance, True, 0.1, 0.0, False)
    np.testing.assert_allclose(out.numpy(), [[-1, -1], [1, 1]], rtol=1e-6)
    np.testing.assert_allclose(variance.numpy(), [1.1, 1.7], rtol=1e-6)
    np.testing.assert_allclose(volta.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)[2].numpy(), [1.0, 0.5], rtol=1e-6)
    with pytest.raises(ValueError, match="eps must be above 0 in training, got 0"):
        F.batch_norm(x, None, None, training=True, eps=0)


@pytest.mark.parametrize("equation", ["ij,jk->ki", "ji,kj->ik", "bij,bjk->bki", "bij,bjk->kbi", "ijk,jl->lik", "i,j->ji", "ij,kl->ilkj"])
def test_products_of_two_lie_as_in_torch(equation):
    torch = pytest.importorskip("torch")
    sizes = dict(zip("bijkl", (2, 3, 4, 5, 6)))
    arrays = [np.random.RandomState(0).rand(*[sizes[c] for c in term]) for term in equation.partition("->")[0].split(",")]
    found, expected = volta.einsum(equation, *map(volta.tensor, arrays)), torch.einsum(equation, *map(torch.tensor, arrays))
    assert found.stride() == expected.stride()
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


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


@pytest.mark.filterwarnings("ignore:.*out of shape")
def test_what_grows_into_what_is_read_is_refused():
    index = volta.tensor([2, 1, 0])
    with pytest.raises(RuntimeError, match="gather: unsupported operation"):
        volta.gather(index.clone(), 0, index[1:], out=index[:1])
    assert index.tolist() == [2, 1, 0]
    x = volta.arange(6)
    volta.cat([x[:2], x[:1]], out=x[3:4])
    assert x.tolist() == [0, 1, 2, 0, 1, 0]


@pytest.mark.parametrize("key, kept", [(0, [0, 0, 3, 3]), ((0, 1), [3, 0, 3, 3]), (slice(0, 0), [3, 3, 3, 3]),
                                       (slice(None, None, 2), [0] * 4)])
def test_what_a_subscript_writes_of_windows_that_overlap(key, kept):
    x = volta.tensor([-0.5, 0.5, 1.0, 2.0], requires_grad=True)
    y = x * 1
    y.unfold(0, 2, 1)[key] = -2.0
    assert volta.autograd.grad((y * 3).sum(), x)[0].tolist() == kept


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


def test_out_that_is_read_keeps_its_shape():
    x = volta.zeros(3, 1)
    for op in (volta.add, volta.maximum):
        with pytest.raises(ShapeError, match="out is one of the inputs"):
            op(x, volta.ones(3), out=x)
    assert x.shape == (3, 1)


@pytest.mark.parametrize("a, b", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((3, 0), (0,)), ((2, 3, 0), (2, 0, 2)), ((2, 2, 0), (0, 3)),
                                  ((3,), (3, 0))])
def test_products_of_bool_without_elements(device, a, b):
    x, y = volta.ones(a, dtype=volta.bool, device=device), volta.ones(b, dtype=volta.bool, device=device)
    out = x @ y
    expected = np.zeros(a) @ np.zeros(b)
    assert out.dtype is volta.bool and out.shape == expected.shape and not out.any()
    assert volta.tensordot(x, y, 1).shape == np.tensordot(np.zeros(a), np.zeros(b), 1).shape if x.ndim < 3 else True
    with pytest.raises(DTypeError, match="matmul: input must be floating point or integer, got bool"):
        volta.ones(2, 2, dtype=volta.bool, device=device) @ volta.ones(2, 2, dtype=volta.bool, device=device)
    with pytest.raises(DTypeError, match="dot"):
        volta.ones(0, dtype=volta.bool, device=device) @ volta.ones(0, dtype=volta.bool, device=device)


def test_an_out_that_is_read_too(device):
    x = volta.empty(0, device=device)
    assert volta.cat([x, x], out=x) is x and x.shape == (0,)
    with pytest.raises(ArgumentError, match="cat: out is one of the inputs"):
        volta.cat([x, volta.ones(3, device=device)], out=x)
    assert x.shape == (0,)
    x = volta.ones(3, device=device)
    for op, others in ((volta.add, 1), (volta.clamp_min, 1), (volta.addcmul, 2), (volta.heaviside, 1)):
        with pytest.raises(ShapeError, match="out is one of the inputs"):
            op(x, *[volta.ones(3, 3, device=device)] * others, out=x)
        assert x.shape == (3,)
    volta.add(x, volta.ones(3, device=device), out=x)
    assert x.tolist() == [2.0] * 3


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_attention_of_three_dimensions_is_row_major(device, order):
    back = np.argsort(order).tolist()
    q, k = (volta.rand(4, n, 8, device=device).permute(order).contiguous().permute(back) for n in (3, 5))
    for mask in (None, volta.rand(3, 5, device=device), volta.rand(4, 1, 5, device=device)):
        out = F.scaled_dot_product_attention(q, k, k, mask)
        four = F.scaled_dot_product_attention(q[None], k[None], k[None], mask)[0]
        assert out.stride() == (24, 8, 1) and volta.allclose(out, four)


def test_nothing_joined_into_itself_is_nothing():
    x = volta.empty(0)
    assert volta.cat([x, x], out=x) is x
    assert volta.diff(x) is x


def test_a_native_norm_looks_at_its_outs_before_it_changes_running_statistics():
    x, mean, variance = volta.rand(4, 3), volta.zeros(3), volta.ones(3)
    outs = tuple(volta.empty(0, dtype=volta.float64) for _ in range(3))
    with pytest.raises(DTypeError, match="native_batch_norm: out must have the input's dtype"):
        volta.native_batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5, out=outs)
    assert mean.tolist() == [0.0] * 3 and variance.tolist() == [1.0] * 3


def test_places_of_nothing_lie_by_dimensions(device):
    for shape in (5,), (2, 3):
        x = volta.zeros(*shape, device=device)
        assert volta.argwhere(x).stride() == volta.nonzero(x).stride() == (1, 0)


@pytest.mark.parametrize("shape, strides", [((2, 1, 3), (1, 99, 2)), ((1, 3, 4), (5, 1, 3))])
def test_results_keep_the_strides_of_what_is_dense_along_dimensions_of_one_element(shape, strides):
    x = volta.arange(400.0).as_strided(shape, strides)
    for f in (volta.neg, volta.exp, volta.abs, F.relu, volta.isnan, volta.frac, lambda x: x + x, lambda x: x.flip(0), lambda x: x.flip(-1)):
        assert f(x).stride() == strides, f
    images = volta.arange(400.0).as_strided((2, 3, 1, 4), (12, 1, 5, 3))        # channels_last, whose results have its usual strides
    assert volta.exp(images).stride() == (12, 1, 12, 3) and images.flip(0).stride() == (12, 1, 5, 3)
    assert volta.ones(400).as_strided((2, 1, 3), (3, 7, 1)).flip(0).stride() == (3, 7, 1)
    assert volta.exp(volta.ones(2, 1, 3).transpose(0, 2)[:, ::-1]).stride() == (1, 3, 3)


@pytest.mark.parametrize("name", ["logsumexp", "mean", "nanmean", "nansum", "std", "var"])
def test_reductions_into_a_wider_out_are_not_rounded_first(name):
    x = (volta.arange(100) / 7).half().reshape(2, 50)
    op = getattr(volta, name)
    assert op(x, 1, out=volta.empty(2)).tolist() == pytest.approx(op(x.float(), 1).tolist(), rel=1e-6)
    assert op(x, dim=1, out=volta.empty(2, dtype=volta.float64)).tolist() == pytest.approx(op(x.double(), 1).tolist(), rel=1e-14)


def test_what_changes_nothing_is_done_in_place_to_what_is_expanded():
    x = volta.ones(1).expand(3)
    assert x.conj_physical_() is x and x.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(AutogradError, match="a leaf tensor that requires grad"):
        volta.ones(3, requires_grad=True).conj_physical_()


def test_a_number_has_no_strides():
    for dim in (0, -1, 1):
        with pytest.raises(IndexError, match=f"stride: dim {dim} was given, but a 0-d tensor has no dimensions"):
            volta.tensor(1.0).stride(dim)


def test_the_target_of_cosine_embedding_loss_has_no_part_in_the_dtype():
    x = volta.ones(2, 3)
    for dtype in (volta.float64, volta.int64, volta.float16):
        assert F.cosine_embedding_loss(x, x, volta.ones(2, dtype=dtype)).dtype is volta.float32
    assert F.cosine_embedding_loss(x.half(), x.half(), volta.ones(2)).dtype is volta.float16
