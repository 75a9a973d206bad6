"""The export to ONNX: every layer and whole models, loaded by onnxruntime and compared; what is refused."""
from __future__ import annotations

import numpy as np
import onnx
import onnx_layers
import pytest
from onnx_layers import LAYERS, NOT, Labels, Signs, Unit

import volta
from volta import nn
from volta.errors import ArgumentError, ONNXExportError

NAMES = [name for name in nn.__all__ if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), (nn.Module, type(None)))]


def _sample(kind, batch=None, to=None):
    """A tensor of a kind (nested in tuples), dimension `batch` of size `to`."""
    if isinstance(kind, tuple) and kind and isinstance(kind[0], tuple):
        return tuple(_sample(each, batch, to) for each in kind)
    shape = tuple(getattr(kind, "shape", kind))
    if to is not None and batch is not None:
        shape = tuple(to if d == batch else n for d, n in enumerate(shape))
    if isinstance(kind, Labels):
        return volta.randint(0, kind.high, shape)
    if isinstance(kind, Unit):
        return volta.rand(shape) * 0.9 + 0.05
    x = volta.randn(shape)
    return x.sign() if isinstance(kind, Signs) else x


def _flat(x):
    return [t for each in x for t in _flat(each)] if isinstance(x, (tuple, list)) else [x]


def _compare(program, model, inputs, rtol=1e-5):
    """onnxruntime and the model give the same of the same inputs."""
    with volta.no_grad():
        expected = [t for t in _flat(model(*inputs)) if t is not None]
    found = program(*_flat(inputs))
    assert len(found) == len(expected)
    for theirs, mine in zip(found, expected):
        mine = mine.cpu().numpy()
        assert theirs.shape == mine.shape and theirs.dtype == mine.dtype
        np.testing.assert_allclose(theirs, mine, rtol=rtol, atol=rtol * max(1.0, np.abs(mine[np.isfinite(mine)]).max(initial=0.0)))


def _export(model, inputs, axes=None, **options):
    """The program, its inputs named x0, x1 and so on, with this dynamic dimension by input."""
    names = [f"x{i}" for i in range(len(_flat(inputs)))]
    given = {name: {axis: "batch"} for name, axis in zip(names, axes or ()) if axis is not None}
    return volta.onnx.export(model, tuple(inputs), input_names=names, dynamic_axes=given, **options)


def test_every_layer_is_in_the_table():
    assert not [name for name in NAMES if name not in LAYERS and name not in NOT]


@pytest.mark.parametrize(("name", "index"), [(name, i) for name in LAYERS for i in range(len(LAYERS[name]))])
def test_layer(name, index):
    layer = LAYERS[name][index]
    model = layer.make().eval()
    inputs = [_sample(kind) for kind in layer.inputs]
    _compare(_export(model, inputs), model, [_sample(kind) for kind in layer.inputs])
    if any(axis is not None for axis in layer.batch):
        axes = [axis for axis, x in zip(layer.batch, inputs) for _ in _flat(x)]
        program = _export(model, inputs, axes)
        for size in (2, 7):
            _compare(program, model, [_sample(kind, axis, size) for kind, axis in zip(layer.inputs, layer.batch)])
