"""Regions of feature maps, convolutions with moved taps and distances of boxes: against loops in NumPy, as the papers write them."""
import itertools
import math

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, ShapeError
from volta.testing import gradcheck
from volta.vision import ops


def between(image, y, x):
    """The value of an image (C, H, W) between its pixels; outside pixels are 0."""
    found, (_, height, width) = np.zeros(image.shape[0]), image.shape
    for i, j in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= i < height and 0 <= j < width:
            found += image[:, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return found


def aligned(x, boxes, size, scale, ratio, centred):
    out = np.zeros((len(boxes), x.shape[1], *size))
    for k, (image, *corners) in enumerate(boxes):
        x1, y1, x2, y2 = np.array(corners) * scale - 0.5 * centred
        w, h = (x2 - x1, y2 - y1) if centred else (max(x2 - x1, 1), max(y2 - y1, 1))
        steps = h / size[0], w / size[1]
        counts = [ratio if ratio > 0 else math.ceil(s) for s in steps]
        for p, q in itertools.product(range(size[0]), range(size[1])):
            total = np.zeros(x.shape[1])
            for i, j in itertools.product(range(counts[0]), range(counts[1])):
                y, z = y1 + (p + (i + 0.5) / counts[0]) * steps[0], x1 + (q + (j + 0.5) / counts[1]) * steps[1]
                if -1 <= y <= x.shape[2] and -1 <= z <= x.shape[3]:
                    total += between(x[int(image)], np.clip(y, 0, x.shape[2] - 1), np.clip(z, 0, x.shape[3] - 1))
            out[k, :, p, q] = total / max(counts[0] * counts[1], 1)
    return out


def pooled(x, boxes, size, scale):
    out = np.zeros((len(boxes), x.shape[1], *size))
    for k, (image, *corners) in enumerate(boxes):
        x1, y1, x2, y2 = (math.copysign(math.floor(abs(c * scale) + 0.5), c) for c in corners)
        for p, q in itertools.product(range(size[0]), range(size[1])):
            edges = [np.clip(edge, 0, n) for start, length, place, bins, n in (
                (y1, max(y2 - y1 + 1, 1), p, size[0], x.shape[2]), (x1, max(x2 - x1 + 1, 1), q, size[1], x.shape[3]))
                for edge in (math.floor(place * length / bins) + start, math.ceil((place + 1) * length / bins) + start)]
            a, b, c, d = map(int, edges)
            if a < b and c < d:
                out[k, :, p, q] = x[int(image), :, a:b, c:d].max((1, 2))
    return out


def deformed(x, offset, weight, bias, stride, padding, dilation, mask):
    n, channels, outs, share, (kh, kw), (_, _, height, width) = len(x), x.shape[1], *weight.shape[:2], weight.shape[2:], offset.shape
    groups, out = offset.shape[1] // (2 * kh * kw), np.zeros((n, outs, height, width))
    moved = offset.reshape(n, groups, kh, kw, 2, height, width)
    for b, i, j, u, v, c in itertools.product(range(n), range(height), range(width), range(kh), range(kw), range(channels)):
        g = c // (channels // groups)
        dy, dx = moved[b, g, u, v, :, i, j]
        y, z = i * stride[0] - padding[0] + u * dilation[0] + dy, j * stride[1] - padding[1] + v * dilation[1] + dx
        value = between(x[b, c:c + 1], y, z)[0]
        value *= 1 if mask is None else mask.reshape(n, groups, kh, kw, height, width)[b, g, u, v, i, j]
        part, parts = c // share, channels // share
        o = slice(part * (outs // parts), (part + 1) * (outs // parts))
        out[b, o, i, j] += weight[o, c % share, u, v] * value
    return out + bias[:, None, None]


@pytest.fixture
def maps(rng):
    corners = rng.uniform(-3, 10, (8, 2))
    boxes = np.concatenate([rng.integers(0, 2, (8, 1)), corners, corners + rng.uniform(0, 9, (8, 2))], 1)
    return rng.standard_normal((2, 3, 6, 8)).astype(np.float32), boxes.astype(np.float32)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_roi_align(maps, ratio, centred, device):
    x, boxes = (volta.tensor(a, device=device) for a in maps)
    for size, scale in (((2, 3), 1.0), ((1, 1), 0.5)):
        found = ops.roi_align(x, boxes, size, scale, ratio, centred)
        np.testing.assert_allclose(found.cpu().numpy(), aligned(*maps, size, scale, ratio, centred), rtol=1e-4, atol=1e-5)
    rows = [boxes[boxes[:, 0] == i][:, 1:] for i in range(2)]
    found = ops.RoIAlign(2, 1.0, ratio, centred)(x, rows)
    assert found.shape == (8, 3, 2, 2) and ops.roi_align(x, boxes[:0], 2, 1.0, ratio).shape == (0, 3, 2, 2)


def test_gradients_of_regions(maps):
    x, boxes = (volta.tensor(a, dtype=volta.float64) for a in maps)
    x = x[:, :1].requires_grad_()
    assert gradcheck(lambda x: ops.roi_align(x, boxes, 2, 0.7, 2, True), (x,))
    assert gradcheck(lambda x: ops.roi_pool(x, boxes, 2, 0.7), (x,))


def test_roi_pool(maps, device):
    x, boxes = (volta.tensor(a, device=device) for a in maps)
    for size, scale in (((2, 3), 1.0), ((1, 1), 0.5), ((7, 7), 0.6)):
        np.testing.assert_allclose(ops.roi_pool(x, boxes, size, scale).cpu().numpy(), pooled(*maps, size, scale), rtol=1e-6)
    assert repr(ops.RoIPool(2, 0.5)) == "RoIPool(output_size=2, spatial_scale=0.5)"


@pytest.mark.parametrize("groups, offsets, options, masked", [
    (1, 1, {}, False), (2, 1, {"stride": 2, "padding": 1}, True), (3, 2, {"padding": 2, "dilation": 2}, True),
    (1, 3, {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}, False)])
def test_deform_conv2d(groups, offsets, options, masked, rng, device):
    stride, padding, dilation = (v if isinstance(v, tuple) else (v, v) for v in (options.get("stride", 1), options.get("padding", 0),
                                                                                    options.get("dilation", 1)))
    size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip((5, 6), (3, 2), stride, padding, dilation)]
    arrays = [rng.standard_normal((2, 6, 5, 6)), 2 * rng.standard_normal((2, 2 * offsets * 6, *size)),
              rng.standard_normal((6, 6 // groups, 3, 2)), rng.standard_normal(6), rng.uniform(0, 1, (2, offsets * 6, *size))]
    arrays = [a.astype(np.float32) for a in arrays]
    x, offset, weight, bias, mask = (volta.tensor(a, device=device) for a in arrays)
    found = ops.deform_conv2d(x, offset, weight, bias, **options, mask=mask if masked else None)
    expected = deformed(*arrays[:4], stride, padding, dilation, arrays[4] if masked else None)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-3, atol=1e-4)
    layer = ops.DeformConv2d(6, 6, (3, 2), groups=groups, **options).to(device)
    layer(x, offset.requires_grad_(), mask).sum().backward()
    assert offset.grad.isfinite().all() and layer.weight.grad.shape == weight.shape


def test_boxes_one_by_one_and_in_pairs(rng, device):
    corners = rng.uniform(-3, 10, (2, 5, 2))
    a, b = (volta.tensor(np.concatenate([c, c + rng.uniform(1, 9, (5, 2))], 1).astype(np.float32), device=device) for c in corners)
    for name in ("generalized", "distance", "complete"):
        pairs = getattr(ops, f"{name}_box_iou")(a, b).diagonal()
        losses = getattr(ops, f"{name}_box_iou_loss")(a, b)
        np.testing.assert_allclose(losses.cpu().numpy(), 1 - pairs.cpu().numpy(), rtol=1e-4, atol=1e-5)
        assert getattr(ops, f"{name}_box_iou_loss")(a, b, "mean").item() == pytest.approx(losses.mean().item())
    masks = volta.zeros(2, 4, 5, device=device)
    masks[0, 1:3, 2:4] = 1
    assert ops.masks_to_boxes(masks).tolist() == [[2.0, 1.0, 3.0, 2.0], [0.0] * 4]


def test_frozen_batch_norm(rng, device):
    layer, frozen = volta.nn.BatchNorm2d(3), ops.FrozenBatchNorm2d(3)
    for value in layer.state_dict().values():
        if value.dtype.is_floating_point:
            value.copy_(volta.tensor(rng.uniform(0.5, 2, 3)))
    frozen.load_state_dict(layer.state_dict())
    x = volta.tensor(rng.standard_normal((2, 3, 4, 4)).astype(np.float32), device=device)
    np.testing.assert_allclose(frozen.to(device)(x).cpu().numpy(), layer.to(device).eval()(x).detach().cpu().numpy(), rtol=1e-4, atol=1e-5)
    assert not list(frozen.parameters()) and repr(frozen) == "FrozenBatchNorm2d(3, eps=1e-05)"


@pytest.mark.parametrize("call, error, text", [
    (lambda x: ops.roi_align(x[0], [volta.zeros(1, 4)], 2), ShapeError, "roi_align: the feature map"),
    (lambda x: ops.roi_align(x, [volta.zeros(1, 5)], 2), ShapeError, r"boxes \(n, 4\) for each image"),
    (lambda x: ops.roi_pool(x, volta.zeros(1, 4), 2), ShapeError, "rows"),
    (lambda x: ops.deform_conv2d(x, volta.zeros(1, 4, 4, 4), volta.ones(1, 2, 3, 3)), ShapeError, "deform_conv2d: offset must"),
    (lambda x: ops.DeformConv2d(3, 4, 3, groups=2), ArgumentError, "groups=2 must divide"),
    (lambda x: ops.distance_box_iou_loss(volta.ones(1, 4), volta.ones(1, 4), "x"), ArgumentError, "reduction must be")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call(volta.ones(1, 2, 6, 6))
