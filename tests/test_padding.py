"""Padding in every mode, 'same' and 'valid' convolutions, and pooling with rounded-up sizes, on each device, against NumPy."""
import numpy as np
import pytest
from arrays import host

import volta
from volta import nn
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.testing import assert_close

NAMES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def numpy_pad(a, sizes, mode):
    widths = [(0, 0)] * (a.ndim - len(sizes) // 2) + [tuple(sizes[i:i + 2]) for i in range(len(sizes) - 2, -1, -2)]
    return np.pad(a, widths, mode=NAMES[mode])


@pytest.mark.parametrize("mode", sorted(NAMES))
@pytest.mark.parametrize("shape, sizes", [((2, 5), (1, 2)), ((3, 4, 5), (4, 0)), ((2, 3, 4, 5), (1, 2, 3, 0)), ((2, 3, 4, 5), (0, 0, 0, 1)),
                                          ((2, 2, 3, 4, 5), (2, 2, 1, 0, 1, 2)), ((1, 1, 4), (3, 3)), ((2, 3), (0, 0))])
def test_pad(device, rng, shape, sizes, mode):
    a = rng.standard_normal(shape).astype(np.float32)
    x = volta.tensor(a, device=device, requires_grad=True)
    with volta.gpu.forbid_transfers():
        out = F.pad(x, sizes, mode=mode)
        weights = volta.randn(out.shape, device=device)
        (out * weights).sum().backward()
    np.testing.assert_array_equal(host(out), numpy_pad(a, sizes, mode))
    places = numpy_pad(np.arange(a.size).reshape(shape), sizes, mode)
    assert_close(host(x.grad), np.bincount(places.ravel(), host(weights).ravel(), a.size).reshape(shape).astype(np.float32), 1e-4, 1e-5)


def test_pad_of_views_integers_and_negative_sizes(device):
    x = volta.tensor([[0, 1], [2, 3], [4, 5]], device=device).t()          # [[0, 2, 4], [1, 3, 5]]
    assert host(F.pad(x, (2, 1), mode="reflect")).tolist() == [[4, 2, 0, 2, 4, 2], [5, 3, 1, 3, 5, 3]]
    assert host(F.pad(x, (-1, 2), mode="replicate")).tolist() == [[2, 4, 4, 4], [3, 5, 5, 5]]
    assert host(F.pad(x, (-1, 1), mode="circular")).tolist() == [[2, 4, 2], [3, 5, 3]]


def test_second_derivative_of_pad(device):
    x = volta.tensor([[1.0, 2.0, 3.0]], device=device, requires_grad=True)
    (g,) = volta.autograd.grad((F.pad(x, (1, 0), mode="reflect") ** 3).sum(), x, create_graph=True)
    g.sum().backward()
    assert_close(host(x.grad), np.float32([[6, 24, 18]]))


@pytest.mark.parametrize("call, error, text", [
    (lambda x: F.pad(x, (1, 1), mode="mirror"), ArgumentError, "pad: mode must be 'constant', 'reflect', 'replicate' or 'circular'"),
    (lambda x: F.pad(x, (1, 1), mode="reflect", value=1.0), ArgumentError, "pad: mode 'reflect' takes no value, got 1.0"),
    (lambda x: F.pad(x[0], (3, 0, 0, 0), mode="reflect"), ShapeError,
     r"pad: mode 'reflect' cannot extend dimension 2 of size 3 by \(3, 0\)"),
    (lambda x: F.pad(x[0], (0, 4, 0, 0), mode="circular"), ShapeError,
     r"pad: mode 'circular' cannot extend dimension 2 of size 3 by \(0, 4\)"),
    (lambda x: F.pad(x[..., :0], (1, 0, 0, 0), mode="replicate"), ShapeError,
     "pad: mode 'replicate' needs an input of which only the batch"),
    (lambda x: nn.Conv2d(1, 1, 3, padding_mode="mirror"), ArgumentError, "Conv2d: padding_mode must be 'zeros', 'reflect'")])
def test_errors(device, call, error, text):
    with pytest.raises(error, match=text):
        call(volta.ones(1, 1, 3, 3, device=device))


# ---------------------------------------------------------------- convolution
@pytest.mark.parametrize("kernel, dilation", [((2, 2), (1, 1)), ((4, 3), (1, 2)), ((3, 2), (2, 3)), ((1, 4), (1, 1))])
def test_same_padding_of_even_kernels(device, rng, kernel, dilation):
    """The larger half goes behind, as an explicit pad shows."""
    x = volta.tensor(rng.standard_normal((2, 2, 7, 8)).astype(np.float32), device=device)
    w = volta.tensor(rng.standard_normal((3, 2, *kernel)).astype(np.float32), device=device)
    height, width = (d * (k - 1) for k, d in zip(kernel, dilation))
    wide = F.pad(x, (width // 2, (width + 1) // 2, height // 2, (height + 1) // 2))
    out = F.conv2d(x, w, padding="same", dilation=dilation)
    assert out.shape == (2, 3, 7, 8)
    assert_close(host(out), host(F.conv2d(wide, w, dilation=dilation)), 1e-4, 1e-5)


@pytest.mark.parametrize("mode", sorted(NAMES))
@pytest.mark.parametrize("padding", [1, (2, 1), "same", "valid"])
def test_padding_modes_of_conv2d(device, rng, mode, padding):
    layer = nn.Conv2d(2, 3, (3, 2), padding=padding, padding_mode=mode, device=device)
    a = rng.standard_normal((2, 2, 5, 6)).astype(np.float32)
    high, wide = {1: ((1, 1), (1, 1)), (2, 1): ((2, 2), (1, 1)), "same": ((1, 1), (0, 1)), "valid": ((0, 0), (0, 0))}[padding]
    padded = np.pad(a, ((0, 0), (0, 0), high, wide), mode=NAMES[mode])
    out = layer(volta.tensor(a, device=device))
    assert_close(host(out), host(F.conv2d(volta.tensor(padded, device=device), layer.weight, layer.bias)), 1e-4, 1e-5)
    assert repr(layer).endswith(f", padding_mode={mode})")


# ---------------------------------------------------------------- pooling
@pytest.mark.parametrize("size, kernel, stride, padding, expected", [
    ((7, 5), 2, 2, 0, (4, 3)), ((6, 8), 3, 2, 0, (3, 4)), ((6, 7), 2, 4, 1, (2, 2)), ((6, 7), (1, 2), (4, 5), 0, (2, 2)),
    ((6, 7), 3, 2, 1, (4, 4)), ((4, 4), 2, 2, 0, (2, 2)), ((5, 6), 2, 3, 0, (2, 2)), ((1, 1), 1, 2, 0, (1, 1))])
def test_ceil_mode(device, rng, size, kernel, stride, padding, expected):
    """Against the pooling of an input extended by -inf, with the rows and columns that start behind the input cut off."""
    a = rng.standard_normal((2, 3, *size)).astype(np.float32)
    x = volta.tensor(a, device=device, requires_grad=True)
    out, index = F.max_pool2d(x, kernel, stride, padding, ceil_mode=True, return_indices=True)
    assert out.shape == index.shape == (2, 3, *expected) and index.dtype is volta.int64
    wide = volta.tensor(np.pad(a, ((0, 0), (0, 0), (padding, padding + 8), (padding, padding + 8)), constant_values=-np.inf), device=device)
    np.testing.assert_array_equal(host(out), host(F.max_pool2d(wide, kernel, stride))[:, :, :expected[0], :expected[1]])
    np.testing.assert_array_equal(np.take_along_axis(a.reshape(2, 3, -1), host(index).reshape(2, 3, -1), 2), host(out).reshape(2, 3, -1))
    out.sum().backward()
    counts = np.zeros((6, size[0] * size[1]), np.float32)
    np.add.at(counts, (np.arange(6)[:, None], host(index).reshape(6, -1)), 1)
    np.testing.assert_array_equal(host(x.grad), counts.reshape(a.shape))


def test_pool_module_and_forms_of_the_arguments(device):
    x = volta.arange(35, dtype=volta.float32, device=device).reshape(1, 1, 5, 7)
    layer = nn.MaxPool2d(2, ceil_mode=True, return_indices=True)
    assert "ceil_mode=True" in repr(layer)
    out, index = layer(x[0])
    assert host(out).tolist() == [[[8, 10, 12, 13], [22, 24, 26, 27], [29, 31, 33, 34]]] and host(index).tolist() == host(out).tolist()
    assert F.max_pool2d(x, [2], []).shape == (1, 1, 2, 3)


@pytest.mark.parametrize("mode", ("reflect", "replicate"))
def test_images_by_pixels_stay_so(rng, mode):
    """With their gradients; what cannot be extended is refused by the dimension that it is."""
    for shape, sizes in (((2, 16, 5, 7), (1, 2, 3, 1)), ((1, 20, 4, 4), (-1, 2, 0, 0)), ((2, 3, 5, 4), (1, 1, 1, 1)),
                         ((2, 16, 6, 1), (0, 0, 2, 3))):
        a = rng.standard_normal(shape)
        x = volta.tensor(a).requires_grad_()
        y = volta.tensor(a).contiguous(memory_format=volta.channels_last).requires_grad_()
        plain, out = F.pad(x, sizes, mode), F.pad(y, sizes, mode)
        np.testing.assert_array_equal(out.detach().numpy(), numpy_pad(a, sizes, mode) if min(sizes) >= 0 else plain.detach().numpy())
        assert out.is_contiguous(memory_format=volta.channels_last)
        weight = volta.tensor(rng.standard_normal(tuple(out.shape)))
        (plain * weight).sum().backward()
        (out * weight).sum().backward()
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-14)
    with pytest.raises(ShapeError, match=r"pad: mode 'reflect' cannot extend dimension 3 of size 3 by \(3, 0\)"):
        F.pad(volta.zeros(1, 16, 4, 3).contiguous(memory_format=volta.channels_last), (3, 0, 0, 0), "reflect")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_what_is_cut_off_whole(mode, each):
    """PyTorch allows it beside another dimension that is not, but in circles."""
    torch = pytest.importorskip("torch")

    def check(shape, pad):
        found = []
        for lib in (torch, volta):
            x = lib.ones(shape, requires_grad=True)
            try:
                y = lib.nn.functional.pad(x, pad, mode=mode)
                found.append(tuple(y.shape))
            except RuntimeError:
                found.append(None)
        assert found[0] == found[1]
        if found[1] is not None:                # PyTorch's gradient may be memory that nobody wrote
            y.sum().backward()
            assert x.grad.sum().item() == y.numel() == 0
    each(check, [(2, 3, 4), (0, 3, 4)], [(-2, -2), (-5, 0), (-2, -2, 0, 0), (0, 0, -2, -2), (-5, 0, 1, 1)])
    each(check, [(2, 3, 4, 5), (0, 3, 4, 5)], [(0, 0, -4, 0), (-5, 0, 1, 1), (-5, 0, -4, 0), (-2, -3, 0, 0, 0, 0), (0, 0, 0, 0, -3, 0)])
