"""Values and derivatives: differences from PyTorch that comparisons found."""
import contextlib
import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
import volta.optim
from volta.errors import ArgumentError, AutogradError, DTypeError, NumberError, ShapeError
from volta.testing import assert_close


@pytest.mark.parametrize("median", [volta.median, volta.nanmedian])
def test_a_median_of_minus_infinity_goes_to_those_that_are_it(median):
    x = volta.tensor([-8.0, -math.inf], requires_grad=True)
    assert volta.autograd.grad(median(x), x)[0].tolist() == [0.0, 1.0]
    x = volta.tensor([-math.inf, -math.inf, 4.0], requires_grad=True)
    assert volta.autograd.grad(median(x), x)[0].tolist() == [0.5, 0.5, 0.0]


def test_padding_of_a_bag_has_no_part_in_the_gradient_of_its_scales():
    weight, scales = volta.full((5, 2), math.nan), volta.ones(1, 3, requires_grad=True)
    out = F.embedding_bag(volta.tensor([[2, 1, 2]]), weight, mode="sum", padding_idx=2, per_sample_weights=scales)
    got = volta.autograd.grad(out.sum(), scales)[0].numpy()
    np.testing.assert_array_equal(got, [[0.0, math.nan, 0.0]])


def test_maxima_of_bags_of_no_width_are_differentiable():
    weight = volta.ones(4, 0, requires_grad=True)
    assert F.embedding_bag(volta.tensor([0, 1]), weight, volta.tensor([0, 1]), mode="max").requires_grad


@pytest.mark.parametrize("dtype", [volta.float32, volta.float64])
def test_the_mean_of_no_numbers_has_the_gradient_nan(dtype):
    x = volta.tensor([[math.nan, math.nan], [1.0, math.nan]], dtype=dtype, requires_grad=True)
    for options, expected in (({"dim": 1}, [[math.nan, math.nan], [1.0, 0.0]]), ({}, [[0.0, 0.0], [1.0, 0.0]])):
        got, = volta.autograd.grad(volta.nanmean(x, **options).sum(), x)
        np.testing.assert_array_equal(got.numpy(), expected)
    alone = volta.tensor(math.nan, dtype=dtype, requires_grad=True)
    assert math.isnan(volta.autograd.grad(volta.nanmean(alone), alone)[0].item())


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


def test_powers_of_2_that_no_number_holds(device):
    """Of a product with an integer power alone the result has to be within the range of numbers."""
    small = 1e-38 if device == "cpu" else 2e-38         # a GPU may take denormals for zero
    values, powers = np.float32([small, 0.0, -1e38, math.inf, 1.0]), np.array([249, 300, -240, -300, 127])
    found = volta.ldexp(volta.tensor(values, device=device), volta.tensor(powers, device=device))
    np.testing.assert_array_equal(found.numpy(), np.ldexp(values, powers))
    wide = volta.tensor([1e-300, 0.0, 1e300], dtype=volta.float64)
    assert volta.ldexp(wide, volta.tensor([2000, 5000, -2000])).tolist() == [math.ldexp(1e-300, 2000), 0.0, math.ldexp(1e300, -2000)]
    assert volta.ldexp(volta.tensor([1.5]).half(), volta.tensor([-25])).item() == 2.0**-24


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


@pytest.mark.parametrize("named", [0, 1])
def test_groups_of_an_optimizer_have_names_or_none_has(named):
    groups = [{"params": [volta.ones(1, requires_grad=True)]}, {"params": [("b", volta.ones(1, requires_grad=True))]}]
    with pytest.raises(ValueError, match="SGD: all groups must hold .name, parameter. pairs, or none; this one holds pa"):
        volta.optim.SGD(groups[::1 - 2 * named], lr=0.1)


def test_norms_are_not_narrowed():
    x = volta.ones(2, 2, dtype=volta.float64)
    for call in (lambda: x.norm(dtype=volta.float32), lambda: volta.linalg.matrix_norm(x, 1, dtype=volta.float32),
                 lambda: volta.linalg.vector_norm(x.half(), dtype=volta.bfloat16)):
        with pytest.raises(DTypeError, match="does not hold what"):
            call()


@pytest.mark.parametrize("alpha_held, beta_held", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("name, shapes", [("addmm", ((3,), (2, 4), (4, 3))), ("addmv", ((2,), (2, 4), (4,))),
                                          ("addr", ((2, 3), (2,), (3,))), ("baddbmm", ((3,), (2, 2, 4), (2, 4, 3))),
                                          ("addbmm", ((3,), (2, 2, 4), (2, 4, 3)))])
def test_factors_of_a_sum_may_be_tensors(name, shapes, alpha_held, beta_held, device):
    alpha, beta = (volta.tensor(v, device=device) if held else v for v, held in ((0.75, alpha_held), (0.25, beta_held)))
    given = [volta.rand(shape, device=device) for shape in shapes]
    expected = getattr(volta, name)(*given, alpha=0.75, beta=0.25)
    assert_close(getattr(volta, name)(*given, alpha=alpha, beta=beta), expected)


def test_addbmm_in_place_gives_the_size_of_the_product(device):
    x = volta.ones(5, device=device)
    assert x.addbmm_(volta.ones(2, 3, 4, device=device), volta.ones(2, 4, 5, device=device)) is x
    assert x.shape == (3, 5) and (x == 9).all()
    leaf = volta.ones(5, device=device, requires_grad=True)
    y = leaf * 1
    y.addbmm_(volta.ones(2, 3, 4, device=device), volta.ones(2, 4, 5, device=device))
    assert volta.autograd.grad(y.sum(), leaf)[0].tolist() == [3.0] * 5
    with pytest.raises(ShapeError, match="does not broadcast"):
        volta.ones(4, device=device).addbmm_(volta.ones(2, 3, 4, device=device), volta.ones(2, 4, 5, device=device))


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_attention_with_large_scores(device, rng, masked):
    """Scores near 300: what is kept for the gradients must not round all probabilities of a query alike."""
    q, k, v, g = (rng.standard_normal((2, 2, 40, 32)).astype(np.float32) for _ in range(4))
    q[..., 0], k[..., 0] = q[..., 0] + 41, k[..., 0] + 41
    mask = rng.standard_normal((40, 40)).astype(np.float32) if masked else None

    def gradients(dtype, where):
        x, y, z = (volta.tensor(a, dtype=dtype, device=where, requires_grad=True) for a in (q, k, v))
        out = F.scaled_dot_product_attention(x, y, z, None if mask is None else volta.tensor(mask, dtype=dtype, device=where))
        return [a.cpu().numpy() for a in volta.autograd.grad(out, (x, y, z), volta.tensor(g, dtype=dtype, device=where))]

    for found, exact in zip(gradients(volta.float32, device), gradients(volta.float64, "cpu")):
        assert np.abs(found - exact).max() < 6e-5 * np.abs(exact).max()          # 1.5e-4 with a logsumexp of float32


def test_a_label_that_is_the_blank(device):
    """Another label may follow it directly, as in PyTorch."""
    x = volta.zeros(3, 1, 3, device=device).log_softmax(2)
    loss = F.ctc_loss(x, volta.tensor([[0, 1]], device=device), (3,), (2,), reduction="none")
    assert math.isclose(math.exp(-loss.item()) * 27, 5.0, rel_tol=1e-5)          # ways through the states, 1 in 27 each


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "RMSprop", "Adafactor"])
def test_a_parameter_that_is_there_twice_steps_twice(device, name):
    def stepped(times, steps):
        p = volta.ones(2, 2, device=device, requires_grad=True)
        with contextlib.nullcontext() if times == 1 else pytest.warns(UserWarning, match="given twice"):
            optimizer = getattr(volta.optim, name)([p] * times, lr=0.1)
        for _ in range(steps):
            p.grad = volta.ones(2, 2, device=device)
            optimizer.step()
        return p.tolist()

    assert stepped(2, 2) == stepped(1, 4)


def test_the_gradient_of_a_variance_that_is_cut(device):
    var = volta.tensor([0.0, 0.01, 2.0], device=device, requires_grad=True)
    losses = F.gaussian_nll_loss(volta.tensor([1.0, 2.0, 3.0], device=device), volta.tensor([0.0, 2.0, 5.0], device=device), var, eps=0.1,
                                 reduction="sum")
    losses.backward()
    np.testing.assert_allclose(var.grad.tolist(), [-45.0, 5.0, -0.25], rtol=1e-5)       # of 0.5 * (log(v) + d / v) at 0.1, 0.1 and 2


def test_the_gradient_of_a_product_of_one_number_that_is_infinite(device):
    x = volta.tensor(float("inf"), device=device, requires_grad=True)
    (3 * x.prod()).backward()
    assert x.grad.item() == 3


def test_gradients_of_cumulative_products_that_are_not_finite(device):
    rows = [[1.0, 0.0, math.nan, 2.0], [math.inf, 2.0, 0.0, 1.0], [-math.inf, 0.0, 0.0, 2.0], [1.0, 2.0, 3.0, 4.0]]
    x = volta.tensor(rows, device=device, requires_grad=True)
    volta.cumprod(x, 1).sum().backward()
    known = [[1, math.nan, 0, 0], [math.nan, math.inf, math.inf, 0], [math.nan, -math.inf, 0, 0], [33, 16, 10, 6]]
    np.testing.assert_array_equal(x.grad.cpu().numpy(), known)


def test_softsign_of_integers_and_bool(device):
    soft = volta.nn.functional.softsign
    assert soft(volta.tensor([-(2 ** 31), -3, 0, 4], dtype=volta.int32, device=device)).tolist() == pytest.approx([1.0, -0.75, 0.0, 0.8])
    with pytest.raises(NotImplementedError, match="softsign: .* bool"):
        soft(volta.tensor([True], device=device))
    x = volta.tensor([math.inf, -math.inf, 0.0], device=device, requires_grad=True)
    soft(x).nan_to_num(0.0).sum().backward()
    np.testing.assert_array_equal(x.grad.cpu(), [math.nan, math.nan, 1.0])


def test_nansum_in_integers_leaves_nan_out():
    x = volta.tensor([math.nan, 1.0, 2.5])
    assert volta.nansum(x, dtype=volta.int64).item() == 3 and volta.nansum(x, dtype=volta.float64).item() == 3.5


def test_unique_slices_of_nothing_are_another_tensor(device):
    x = volta.zeros(2, 0, 3, device=device)
    assert volta.unique(x, dim=1) is not x and volta.unique_consecutive(x, dim=1) is not x


def test_numbers_beyond_64_bits_are_wrong_values():
    for call in (lambda x: x.sum(2 ** 70), lambda x: volta.cumsum(x, dim=-2 ** 70), lambda x: volta.roll(x, 2 ** 63)):
        with pytest.raises(ValueError, match="more than 64 bits"):
            call(volta.ones(2))


def test_what_is_beyond_a_dtype_is_refused_without_wrapping_and_infinite_without_a_warning(recwarn):
    for data in (2 ** 63, [2 ** 64, 1]):
        with pytest.raises(NumberError, match=r"tensor: \d+ does not fit into volta.int8"):
            volta.tensor(data, dtype=volta.int8)
    with pytest.raises(NumberError, match="9223372036854775808 beside bool does not fit into volta.int64; give a float, or convert with"):
        volta.eq(volta.tensor([True]), 1 << 63)
    assert volta.tensor([1e40, 1.0], dtype=volta.float16).tolist() == [math.inf, 1.0]
    assert volta.tensor(1e40, dtype=volta.float32).item() == math.inf and not recwarn.list


@pytest.mark.parametrize("dtype", [volta.int32, volta.int64, volta.uint8, volta.int8])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e300])
def test_integers_refuse_numbers_that_are_none_of_theirs_behind_masks(dtype, value):
    x = volta.zeros(3, 2, dtype=dtype)
    for key in (x == 0, x[:, 0] == 0, 1, ..., volta.tensor([0, 2])):
        with pytest.raises(RuntimeError):
            x[key] = value
    assert not x.any()


def test_numbers_beyond_a_dtype_are_refused_where_they_are_assigned_but_for_16_bits():
    for dtype, value, refused in ((volta.float32, 1e39, True), (volta.float64, 1e39, False), (volta.float16, 7e4, False),
                                  (volta.bfloat16, 1e39, False), (volta.float32, math.inf, False), (volta.float32, -3e38, False)):
        for wants in (False, True):
            x = volta.zeros(3, 2, dtype=dtype, requires_grad=wants) * 1
            for key in (x == 0, x[:, 0] == 0, 1, slice(1, 2), ..., None, volta.tensor([0, 2]), [0, 2]):
                y = x.clone()
                if refused:
                    with pytest.raises(ArgumentError, match="setitem: 1e\\+39 does not fit into volta.float32"):
                        y[key] = value
                else:
                    y[key] = value
                    assert (y[key] == volta.tensor(value, dtype=volta.float64).to(dtype)).all()


@pytest.mark.parametrize("call", [
    lambda x, i, s: x.index_add_(0, i, s), lambda x, i, s: x.index_add(0, i, s, alpha=0.3),
    lambda x, i, s: x.index_put_((i,), s, accumulate=True),
    lambda x, i, s: x.index_put((i, i[:1]), s[:, 0], accumulate=True),
    lambda x, i, s: x.t().index_put_((None, i), s.t(), accumulate=True).t(),
    lambda x, i, s: x.put_(i, s[:, 1], True), lambda x, i, s: x.scatter_add_(0, i[:, None], s)])
def test_sums_at_indices_are_the_same_recorded_and_not(call):
    rng = np.random.default_rng(0)
    start, index = volta.tensor(rng.standard_normal((4, 3)).astype("f") * 10), volta.tensor(rng.integers(0, 4, 200))
    source = volta.tensor(rng.standard_normal((200, 3)).astype("f"))
    plain = call(start.clone(), index, source)
    for x, s in ((start.clone().requires_grad_(), source), (start, source.clone().requires_grad_())):
        found = call(x.clone(), index, s)
        assert found.requires_grad and volta.equal(found, plain)
    weights = volta.arange(12.0).reshape(4, 3)
    x, s = (t.double().requires_grad_() for t in (start, source))
    got = volta.autograd.grad((call(x.clone(), index, s) * weights).sum(), (x, s))
    ones = volta.autograd.grad((call(volta.zeros(4, 3).double(), index, s) * weights).sum(), s)[0]
    assert volta.equal(got[0], weights.double()) and volta.equal(got[1], ones)
    few = x.detach().requires_grad_(), s.detach()[:6].requires_grad_()
    assert volta.autograd.gradcheck(lambda x, s: call(x.clone(), index[:6], s), few)


@pytest.mark.parametrize("change", ["logical_and_", "logical_or_", "logical_xor_", "logical_not_"])
def test_logical_changes_are_not_recorded(change):
    others = () if change == "logical_not_" else (volta.ones(2, requires_grad=True),)
    leaf, plain = volta.ones(2, requires_grad=True), volta.ones(2)
    assert getattr(leaf, change)(*others) is leaf and leaf.requires_grad and leaf.is_leaf
    assert not getattr(plain, change)(*others).requires_grad and plain.tolist() == leaf.tolist()
    x = volta.ones(2, requires_grad=True)
    y = x * 3
    getattr(y, change)(*others)
    assert type(y.grad_fn).__name__ == "MulBackward0" and volta.autograd.grad(y.sum(), x)[0].tolist() == [3.0, 3.0]


def test_a_hook_gives_a_gradient_like_the_one_it_was_given():
    for given in (lambda g: g.double(), lambda g: volta.ones(2, 3), lambda g: volta.ones(1)):
        x = volta.ones(3, requires_grad=True)
        x.register_hook(given)
        with pytest.raises(AutogradError, match="register_hook: a hook gave volta.float"):
            (x * 2).sum().backward()
