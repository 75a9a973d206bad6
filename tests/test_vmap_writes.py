"""Functions that change samples in place under `vmap`: as sample by sample, gradients included, and what is refused."""
import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError
from volta.func import grad, jvp, vmap

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)      # three samples


def places(x, *values):
    return volta.tensor(values, device=x.device)


def elementwise(x):
    y = x.clone()
    y += x
    y.mul_(2).clamp_(max=1.0)
    y[1:].sub_(x[:-1])
    return y


def slices(x):
    y = x.clone()
    y[0] = x[1] * 3
    y[:, ::2] = -1
    y[..., 1] = y[..., 3]
    y[2, 2:4] *= 2
    return y


def indices(x):
    y = x.clone()
    y[places(x, 0, 2), places(x, 1, 1)] = x[0, :2]
    y[:, places(x, 4, 0)] = x[:, :2] * 10
    y[1, places(x, 0, 3)] = 7.0
    return y


def masks(x):
    y = x.clone()
    y[x > 0.5] = 2.0
    y[places(x, True, False, True, False)] += x[:2]
    return y.masked_fill_(y < -1, 0.0)


def positions(x):
    y = x.clone()
    y.index_add_(0, places(x, 1, 1), x[:2])
    y.index_copy_(1, places(x, 3), x[:, :1])
    y.index_fill_(0, places(x, 2), 3.0)
    y.scatter_(1, places(x, [0], [1], [2], [4]), x[:, 1:2])
    y.index_put_((places(x, 0, 0),), x[2:], accumulate=True)
    return y.put_(places(x, 0, 19), x[0, :2])


def made_like(x):
    y, z, w = volta.zeros_like(x), x.new_zeros(5), volta.full_like(x, 2.0)
    y[1] = x[0]
    z[:2] = x[0, :2]
    w.copy_(x[2])
    return y + z * w


def shapes(x):
    y = x.clone()
    y.t_().unsqueeze_(0).squeeze_(0)
    y[0] = x[:, 1]
    return y


def into_copies(x):
    plain = volta.zeros(4, 5, device=x.device)
    return (volta.select_scatter(plain, x[0], 0, 1) + volta.slice_scatter(plain, x[:2], 0, 1, 3) + volta.fill(plain, x[1, 1])
            + volta.scatter(plain, 0, places(x, [3] * 5), x[:1]) + volta.index_put(plain, (places(x, 2),), x[3])
            + volta.diagonal_scatter(plain, x[0, :4]))


CHANGING = (elementwise, slices, indices, masks, positions, made_like, shapes, into_copies)


@pytest.mark.parametrize("change", CHANGING)
def test_samples_are_changed_as_one_by_one(change, device):
    x = volta.tensor(X, device=device)
    wanted = np.stack([change(each).cpu().numpy() for each in x])
    for dim in (0, 2):
        found = vmap(change, in_dims=dim)(volta.movedim(x, 0, dim))
        np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-6)
    np.testing.assert_array_equal(x.cpu().numpy(), X)


@pytest.mark.parametrize("change", CHANGING)
def test_gradients_of_changes(change, device):
    def weighed(x):
        y = change(x)
        return (y * y).sum()
    x = volta.tensor(X, device=device)
    wanted = np.stack([grad(weighed)(each).cpu().numpy() for each in x])
    np.testing.assert_allclose(vmap(grad(weighed))(x).cpu().numpy(), wanted, rtol=1e-5, atol=1e-5)
    leaf = volta.tensor(X, device=device, requires_grad=True)
    vmap(weighed)(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.cpu().numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_what_is_mapped_is_changed(device):
    x = volta.tensor(X, device=device)
    vmap(lambda each: each.add_(1), in_dims=1)(x)
    np.testing.assert_allclose(x.cpu().numpy(), X + 1)


def test_indices_of_each_sample(device):
    def change(x, i):
        y = x.clone()
        y[:, i] = x[:, :2]
        y[i] *= 2
        return y
    x, i = volta.tensor(X, device=device), volta.tensor([[0, 3], [1, 2], [2, 0]], device=device)
    wanted = np.stack([change(*each).cpu().numpy() for each in zip(x, i)])
    np.testing.assert_allclose(vmap(change)(x, i).cpu().numpy(), wanted)
    with pytest.raises(ArgumentError, match="zeros_like"):
        vmap(change, in_dims=(None, 0))(x[0], i)


def test_levels(device):
    def change(a, b):
        y = a + 0 * b
        y[0] = b[1]
        return y
    x = volta.tensor(X[:, :, 0], device=device)
    wanted = np.stack([np.stack([change(a, b).cpu().numpy() for b in x]) for a in x])
    np.testing.assert_allclose(vmap(lambda a: vmap(lambda b: change(a, b))(x))(x).cpu().numpy(), wanted)


def test_batch_norm_with_statistics_of_each_sample(device):
    def run(x, mean, var):
        return F.batch_norm(x, mean, var, training=True), mean, var
    x, start = volta.tensor(X, device=device), [volta.zeros(3, 5, device=device), volta.ones(3, 5, device=device)]
    wanted = [run(each, m.clone(), v.clone()) for each, m, v in zip(x, *start)]
    for found, each in zip(vmap(run)(x, *start), zip(*wanted)):
        np.testing.assert_allclose(found.cpu().numpy(), np.stack([w.cpu().numpy() for w in each]), rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentError, match="zeros_like"):          # one statistic for all
        vmap(lambda each: F.batch_norm(each, start[0][0], start[1][0], training=True))(x)


@pytest.mark.parametrize("change", [lambda plain, x: plain.add_(x), lambda plain, x: plain.copy_(x), lambda plain, x: plain.fill_(x[0]),
                                    lambda plain, x: plain.__setitem__(0, x[0]), lambda plain, x: plain.clamp_(max=x)])
def test_a_tensor_of_all_samples_stays_as_it_is(change, device):
    plain = volta.zeros(4, device=device)
    with pytest.raises(ArgumentError, match="zeros_like"):
        vmap(lambda x: change(plain, x))(volta.tensor(X[:, :, 0], device=device))
    assert plain.tolist() == [0.0] * 4
    with pytest.raises(ArgumentError, match="fewer samples"):       # of the outer level
        vmap(lambda a: vmap(lambda b: change(a, b))(volta.tensor(X[:, :, 0], device=device)))(volta.ones(2, 4, device=device))


def test_strides_are_those_of_a_sample(device):
    def show(x):
        return volta.as_strided(x, (2, 3), (1, 2), 1)
    x = volta.tensor(X[:, :, 0], device=device)[:, :, None].repeat(1, 1, 2)
    wanted = np.stack([show(each.clone()).cpu().numpy() for each in x])
    for dim in (0, 1, 2):
        np.testing.assert_array_equal(vmap(show, in_dims=dim)(volta.movedim(x, 0, dim)).cpu().numpy(), wanted)


@pytest.mark.parametrize("scan", [volta.cumsum, volta.cumprod, volta.logcumsumexp, volta.softmax, volta.argmax, volta.amax])
def test_samples_without_dimensions(scan, device):
    x = volta.tensor(X[:, 0, 0], device=device)
    np.testing.assert_allclose(vmap(lambda a: scan(a, 0))(x).cpu().numpy(), np.stack([scan(each, 0).cpu().numpy() for each in x]))
    if scan not in (volta.argmax, volta.amax):
        np.testing.assert_allclose(vmap(grad(lambda a: scan(a, 0)))(x).cpu().numpy(), [grad(lambda a: scan(a, 0))(e).item() for e in x])


def test_forward_derivative_of_logcumsumexp(device):
    """It follows from the gradient, which has to be linear where the gradient that comes in is zero."""
    x, along = np.array([0.1, -0.5, 2.0, 1.0]), np.array([1.0, 0.0, -2.0, 0.5])
    wanted = np.cumsum(along * np.exp(x)) / np.cumsum(np.exp(x))
    found = jvp(lambda v: volta.logcumsumexp(v, 0), *[(volta.tensor(v, dtype=volta.float32, device=device),) for v in (x, along)])[1]
    np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-5)


def test_a_sample_gets_another_size_of_its_own_elements():
    x = volta.arange(6).reshape(2, 3)
    assert volta.vmap(lambda a: a.clone().resize_(2))(x).tolist() == [[0, 1], [3, 4]]
    assert volta.vmap(lambda a: a.clone().resize_as_(volta.zeros(3, 1)))(x).tolist() == [[[0], [1], [2]], [[3], [4], [5]]]
    with pytest.raises(ArgumentError, match=r"resize_ takes the first elements of a sample.*\(3,\) has not those of \(4,\)"):
        volta.vmap(lambda a: a.clone().resize_(4))(x)


@pytest.mark.parametrize("f", [lambda a: volta.histc(a, 4), lambda a: volta.histogram(a, 3).hist,
                               lambda a: volta.bincount(a.long(), minlength=9), lambda a: volta.linspace(a[0], a[1], 4),
                               lambda a: volta.logspace(0, a[1], 3)])
def test_what_reads_values_is_computed_sample_by_sample(f):
    x = volta.tensor([[1.0, 5.0, 2.0], [0.0, 3.0, 8.0]])
    assert volta.vmap(f)(x).tolist() == [f(each).tolist() for each in x]


def test_integers_are_scattered_by_transposed_convolutions_of_samples():
    x, weight = volta.arange(16).reshape(2, 1, 2, 4), volta.arange(12).reshape(2, 2, 3)
    out = volta.vmap(lambda a: volta.nn.functional.conv_transpose1d(a, weight, stride=2))(x)
    assert out.tolist() == [volta.nn.functional.conv_transpose1d(each, weight, stride=2).tolist() for each in x]
