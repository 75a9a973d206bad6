"""Windows of integers, of which convolutions and pools are composed: what the kernels make of the same numbers in float64, exactly. And
images of bytes at another size."""
import numpy as np
import pytest

import volta
from volta.nn import functional
from volta.ops.records.resample import np_resample

SIZES = {1: (9,), 2: (7, 6), 3: (5, 6, 4)}
CASES = [(f"{name}{rank}d", rank, options) for rank in SIZES for name, options in (
    ("conv", {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    ("conv_transpose", {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2, "groups": 2}),
    ("max_pool", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "return_indices": True}),
    ("max_pool", {"kernel_size": 2, "stride": 1, "dilation": 2}),
    ("avg_pool", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ("avg_pool", {"kernel_size": 2, "count_include_pad": False, "padding": 1}))]


@pytest.mark.parametrize(("name", "rank", "options"), CASES)
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_as_of_the_same_numbers_in_float64(name, rank, options, dtype, device, rng):
    low = 0 if dtype == "uint8" else -9
    arrays = [rng.integers(low, 4, (2, 4, *SIZES[rank]))]
    if name.startswith("conv"):
        arrays += [rng.integers(low, 4, (4, 2, *(2,) * rank)), rng.integers(low, 4, 4)]
    function = getattr(functional, name)
    expected = function(*[volta.tensor(a.astype(np.float64)) for a in arrays], **options)
    found = function(*[volta.tensor(a.astype(dtype), device=device) for a in arrays], **options)
    for result, reference in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected))):
        reference = np.trunc(reference.numpy()).astype(np.int64).astype(result.numpy().dtype)
        np.testing.assert_array_equal(result.numpy(), reference, strict=True)


def test_a_weight_of_another_dtype_is_refused(device):
    with pytest.raises(volta.errors.DTypeError, match="conv2d"):
        functional.conv2d(volta.ones(1, 1, 3, 3, dtype=volta.int64, device=device), volta.ones(1, 1, 2, 2, device=device))


@pytest.mark.parametrize(("mode", "weights"), [("bilinear", "linear16"), ("bicubic", "cubic16")])
@pytest.mark.parametrize("align_corners", [False, True])
def test_images_of_bytes_have_rounded_weights(mode, weights, align_corners, device, rng):
    image = rng.integers(0, 256, (2, 3, 6, 5)).astype(np.uint8)
    expected, shape = image.reshape(6, 1, 6, 5).astype(float), (6, 5)
    for size in ((6, 9), (4, 9)):
        scales = [1.0, *[1.0 if n == m else (n - 1) / (m - 1) if align_corners else n / m for n, m in zip(shape, size)]]
        made = np_resample(expected, (1, *size), scales, weights, align_corners)
        expected, shape = np.clip(np.floor(made + 0.5), 0, 255), size
    found = functional.interpolate(volta.tensor(image, device=device), (4, 9), mode=mode, align_corners=align_corners)
    assert found.dtype is volta.uint8
    # a GPU finds weights in float32
    np.testing.assert_allclose(found.numpy().astype(int), expected.reshape(2, 3, 4, 9), atol=device == "gpu", rtol=0)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_filtered_images_are_pytorchs(mode, align_corners, device, rng):
    """antialias=True, of bytes to the last bit."""
    torch = pytest.importorskip("torch")
    for dtype, size in ((np.uint8, (4, 9)), (np.float32, (11, 3))):
        image = (rng.random((2, 3, 9, 7)) * 255).astype(dtype)
        call = {"size": size, "mode": mode, "antialias": True, "align_corners": align_corners}
        if mode == "lanczos" and align_corners:
            with pytest.raises(volta.errors.ArgumentError, match="lanczos with antialias=True and without align_corners"):
                functional.interpolate(volta.tensor(image, device=device), **call)
            return
        found = functional.interpolate(volta.tensor(image, device=device), **call).numpy()
        expected = torch.nn.functional.interpolate(torch.tensor(image), **call)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3 * (dtype != np.uint8))


def test_filters_keep_what_is_not_finite_in_its_windows(device):
    image = volta.zeros(1, 1, 2, 8, device=device)
    image[0, 0, 0, 0] = volta.inf
    out = functional.interpolate(image, (2, 3), mode="bilinear", antialias=True)
    assert out[0, 0, 0].tolist() == [volta.inf, 0.0, 0.0] and out[0, 0, 1].tolist() == [0.0] * 3
