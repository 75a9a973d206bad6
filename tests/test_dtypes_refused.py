"""Wrong dtypes, devices and shapes of operands are refused before any kernel sees them, with one text on both devices.

A kernel that reads them all the same may crash, so the whole file runs once in a process of its own before it runs here.
"""
from __future__ import annotations

import os
import subprocess
import sys

import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, DeviceError, DTypeError, ShapeError

ALL = (volta.bool, volta.uint8, volta.int32, volta.int64, volta.float16, volta.float32, volta.float64)
INTEGERS, FLOATS = ALL[1:4], ALL[4:]


def _batch_norm(training):
    def call(input, running_mean, running_var, weight, bias):
        return F.batch_norm(input, running_mean, running_var, weight, bias, training=training)
    return call


# The op, how it is called, the shape of each operand, and which of them are float operands (of one dtype) or labels.
VECTOR = {"running_mean": (3,), "running_var": (3,), "weight": (3,), "bias": (3,)}
CALLS = [
    ("linear", F.linear, {"input": (4, 3), "weight": (2, 3), "bias": (2,)}),
    ("linear", F.linear, {"input": (4, 3), "weight": (3,), "bias": ()}),
    ("conv2d", F.conv2d, {"input": (1, 2, 4, 4), "weight": (3, 2, 2, 2), "bias": (3,)}),
    ("batch_norm", _batch_norm(True), {"input": (4, 3), **VECTOR}),
    ("batch_norm", _batch_norm(False), {"input": (4, 3), **VECTOR}),
    ("layer_norm", lambda input, weight, bias: F.layer_norm(input, (3,), weight, bias), {"input": (4, 3), "weight": (3,), "bias": (3,)}),
    ("cross_entropy", lambda input, target, weight: F.cross_entropy(input, target, weight), {
        "input": (4, 3), "target": (4,), "weight": (3,)}),
    ("nll_loss", lambda input, target, weight: F.nll_loss(input, target, weight), {"input": (4, 3), "target": (4,), "weight": (3,)}),
    ("binary_cross_entropy_with_logits", lambda input, target: F.binary_cross_entropy_with_logits(input, target), {
        "input": (4,), "target": (4,)}),
    ("softmax", lambda input: F.softmax(input, 0), {"input": (4,)}),
    ("log_softmax", lambda input: F.log_softmax(input, 0), {"input": (4,)}),
    ("softplus", lambda input: F.softplus(input), {"input": (4,)}),
    ("max_pool2d", lambda input: F.max_pool2d(input, 2), {"input": (1, 1, 4, 4)}),
    ("matmul", volta.matmul, {"input": (2, 3), "other": (3, 2)}),
    ("matmul", volta.matmul, {"input": (2, 3), "other": (3,)}),
    ("matmul", volta.matmul, {"input": (4, 2, 3), "other": (3, 2)}),
    ("mm", volta.mm, {"input": (2, 3), "mat2": (3, 2)}),
    ("mv", volta.mv, {"input": (2, 3), "vec": (3,)}),
    ("bmm", volta.bmm, {"input": (2, 2, 3), "mat2": (2, 3, 2)}),
    ("dot", volta.dot, {"input": (3,), "tensor": (3,)}),
    ("addmm", volta.addmm, {"input": (2,), "mat1": (2, 3), "mat2": (3, 2)}),
    ("baddbmm", volta.baddbmm, {"input": (2,), "batch1": (2, 2, 3), "batch2": (2, 3, 2)}),
]
PRODUCTS = ("matmul", "mm", "mv", "bmm", "dot", "addmm", "baddbmm")     # of integers too
WINDOWS = ("conv2d", "max_pool2d")                                      # and these
# What may be float32 where the input is float16.
MIXED = {"batch_norm": ("running_mean", "running_var"), "layer_norm": ("weight", "bias"), "cross_entropy": ("weight",),
         "nll_loss": ("weight",)}


def _takes(op, name, dtype, base):
    """Whether the operand `name` of an op whose other floating operands are `base` may be `dtype`."""
    if name == "target" and op in ("cross_entropy", "nll_loss"):
        return dtype in (volta.uint8, volta.int64)              # as in PyTorch
    if op == "binary_cross_entropy_with_logits" or len(_shapes(op)) == 1:
        return dtype in FLOATS or op in WINDOWS and dtype in INTEGERS
    if name in MIXED.get(op, ()) and base is volta.float16:
        return dtype in (volta.float16, volta.float32)
    if name == "input" and base is volta.float32 and (
            op == "batch_norm" or op in MIXED and set(_shapes(op)) - {"input", "target"} == set(MIXED[op])):
        return dtype in (volta.float16, volta.float32)
    return dtype is base


def _shapes(op):
    return next(shapes for name, _, shapes in CALLS if name == op)


def _operands(op, shapes, base, device, **others):
    dtypes = {name: volta.int64 if name == "target" and op in ("cross_entropy", "nll_loss") else base for name in shapes}
    return {name: volta.ones(shapes[name], dtype=others.get(name, dtype), device=device) for name, dtype in dtypes.items()}


@pytest.fixture(scope="module")
def survived():
    """This file ran to its end in another process: a crash of it fails here, where it is told, and does not end this process."""
    if os.environ.get("VOLTA_TEST_INNER") != "1":
        run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__],
                             env={**os.environ, "VOLTA_TEST_INNER": "1"}, capture_output=True, text=True)
        assert run.returncode in (0, 1), f"in a process of its own (status {run.returncode}):\n{run.stdout[-3000:]}{run.stderr[-2000:]}"


@pytest.mark.usefixtures("survived")
@pytest.mark.parametrize("index", range(len(CALLS)), ids=[f"{i}-{row[0]}" for i, row in enumerate(CALLS)])
def test_dtype_of_each_operand(device, index):
    op, call, shapes = CALLS[index]
    for base in (FLOATS if device == "cpu" else FLOATS[:2]):
        call(**_operands(op, shapes, base, device))
        for name in shapes:
            for dtype in ALL:
                if dtype is volta.float64 and device == "gpu":          # no GPU holds it
                    continue
                pair = [n for n in shapes if n.startswith("running")] if name.startswith("running") else [name]     # of one dtype
                operands = _operands(op, shapes, base, device, **dict.fromkeys(pair, dtype))
                if _takes(op, name, dtype, base):
                    call(**operands)
                    continue
                alone = len(shapes) == 1
                if name in ("input", "running_mean") and dtype in FLOATS and not alone:    # then the others are the wrong ones
                    with pytest.raises(DTypeError, match=r"^\w+: \w+ must "):
                        call(**operands)
                    continue
                with pytest.raises(DTypeError) as error:
                    call(**operands)
                text = str(error.value)
                if op not in PRODUCTS:
                    assert text.startswith(f"{op}: "), text
                    assert any(n in text for n in pair) or alone or name == "input", text


@pytest.mark.usefixtures("survived")
@pytest.mark.parametrize("op", ["linear", "conv2d", "batch_norm", "layer_norm", "cross_entropy", "nll_loss", "softmax", "max_pool2d"])
@pytest.mark.parametrize("dtype", ALL[:4], ids=str)
def test_nothing_but_numbers_that_are_no_floats(device, op, dtype):
    """All operands of a wrong dtype: refused as well, but for integers in `linear`, a product, and in windows."""
    _, call, shapes = next(row for row in CALLS if row[0] == op)
    operands = _operands(op, shapes, dtype, device)
    if op == "linear" and dtype is not volta.bool:
        assert call(**operands).tolist() == [[4, 4]] * 4
    elif op in WINDOWS and dtype is not volta.bool:
        assert call(**operands).flatten()[0].item() == (9 if op == "conv2d" else 1)
    else:
        with pytest.raises(DTypeError, match=f"^{op}: "):
            call(**operands)


@pytest.mark.usefixtures("survived")
@pytest.mark.parametrize("op", PRODUCTS)
def test_products_of_bool(device, op):
    _, call, shapes = next(row for row in CALLS if row[0] == op)
    with pytest.raises(DTypeError, match=r"input must be floating point or integer, got bool; convert it with \.float\(\)"):
        call(**_operands(op, shapes, volta.bool, device))


@pytest.mark.usefixtures("survived")
def test_large_weight_of_bytes(device):
    with pytest.raises(DTypeError, match="linear: weight must be float32, got uint8; convert it with .to"):
        F.linear(volta.ones(64, 8192, device=device), volta.ones(8192, 8192, dtype=volta.uint8, device=device))


@pytest.mark.usefixtures("survived")
def test_weights_file_of_integers(device):
    layer = volta.nn.Linear(3, 2, device=device).requires_grad_(False)      # nothing that requires grad takes integers
    layer.load_state_dict({"weight": volta.ones(2, 3, dtype=volta.int64, device=device), "bias": volta.zeros(2, device=device)},
                          assign=True)
    with pytest.raises(DTypeError, match="linear: weight must be float32, got int64"):
        layer(volta.ones(1, 3, device=device))


@pytest.mark.usefixtures("survived")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", list(VECTOR))
def test_batch_norm_vectors(device, training, name):
    call, shapes = _batch_norm(training), {"input": (4, 3), **VECTOR}
    for shape in ((2,), (1, 3), ()):
        with pytest.raises(ShapeError, match=rf"batch_norm: {name} must have shape \(3,\)"):
            call(**_operands("batch_norm", {**shapes, name: shape}, volta.float32, device))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_statistics_of_float16_inputs(device, training):
    """Both of them float32 or both float16, as in PyTorch."""
    halves = _operands("batch_norm", {"input": (4, 3), **VECTOR}, volta.float16, device)
    wide = {name: halves[name].float() for name in ("running_mean", "running_var")}
    assert _batch_norm(training)(**{**halves, **wide}).dtype is volta.float16
    for name, other in (("running_mean", "float32"), ("running_var", "float16")):
        with pytest.raises(DTypeError, match=f"batch_norm: running_var must be {other}"):
            _batch_norm(training)(**{**halves, name: wide[name]})


@pytest.mark.usefixtures("survived")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["running_mean", "running_var"])
def test_batch_norm_statistics_elsewhere(gpu, training, name):
    for here, there in (("cpu", gpu), (gpu, "cpu")):
        operands = _operands("batch_norm", {"input": (4, 3), **VECTOR}, volta.float32, here)
        operands[name] = volta.ones(3, device=there)
        with pytest.raises(DeviceError, match=f"batch_norm: {name} must be on "):
            _batch_norm(training)(**operands)


def test_batch_norm_eps(device):
    x, mean, var = volta.ones(4, 3, device=device), volta.zeros(3, device=device), volta.ones(3, device=device)
    for eps in (0.0, -1e-5, float("nan")):
        with pytest.raises(ArgumentError, match="batch_norm: eps must be above 0 in training, got"):
            F.batch_norm(x, mean, var, training=True, eps=eps)
    for eps in (-1e-5, float("nan")):
        with pytest.raises(ArgumentError, match="batch_norm: eps must be at least 0, got"):
            F.batch_norm(x, mean, var, eps=eps)
    assert F.batch_norm(x, mean, var, eps=0.0).tolist() == x.tolist()
