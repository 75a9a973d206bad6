"""Small programs that once gave something else than PyTorch: values, dtype, shape and gradient. Skips where it is not installed."""
import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")


def values(lib, *shape, low=-3):
    import math
    size = math.prod(shape)
    return leaf(lib, [float((7 * i) % 11 + low) for i in range(size)]).reshape(shape)


def leaf(lib, numbers):
    return lib.tensor(numbers, requires_grad=True)


NANS = [float("nan"), -1.0, 2.0, 0.0, 0.0]
POWERS = [-1.0, 0.0, 1.0, float("nan"), -float("inf"), 2.5]

# What random programs, run in both libraries, once found to differ: values, dtype, shape and gradient.
PROGRAMS = {
    "floor of integers": lambda lib: lib.floor(lib.tensor([1, -2], dtype=lib.int32)),
    "round of integers": lambda lib: lib.tensor([1, 200], dtype=lib.uint8).round(),
    "clamp to NaN": lambda lib: lib.clamp(values(lib, 4), float("nan"), 1.0),
    "clamp to a tensor with NaN": lambda lib: lib.clamp(values(lib, 3), lib.tensor([float("nan"), 0.0, 9.0])),
    "trunc division, large": lambda lib: lib.div(lib.tensor([2 ** 24 + 1, -7, 7]), lib.tensor([1, 2, -2]), rounding_mode="trunc"),
    "trunc division, mixed": lambda lib: lib.div(lib.tensor([5, 7]), lib.tensor([2.0, -2.0]), rounding_mode="trunc"),
    "flip of no dims": lambda lib: values(lib, 2, 3).flip([]),
    "squeeze of no dims": lambda lib: values(lib, 1, 3).squeeze(()),
    "masked_fill of integers": lambda lib: lib.tensor([1, 2]).masked_fill(lib.tensor([True, False]), 3.7),
    "masked_fill of bool": lambda lib: lib.tensor([True, True]).masked_fill(lib.tensor([True, False]), 0.0),
    "masked_select, mask broadcast": lambda lib: lib.masked_select(values(lib, 2, 3), lib.tensor([[True], [False]])),
    "masked_select, 0-d": lambda lib: lib.masked_select(values(lib, 2, 3), lib.tensor(True)),
    "max of one bool": lambda lib: lib.max(lib.tensor(True)),
    "amin of one byte": lambda lib: lib.amin(lib.tensor(3, dtype=lib.uint8)),
    "sum of one int32": lambda lib: lib.sum(lib.tensor(3, dtype=lib.int32)),
    "prod of one bool": lambda lib: lib.prod(lib.tensor(True)),
    "any of bytes": lambda lib: lib.any(lib.tensor([0, 3], dtype=lib.uint8)),
    "bool squared": lambda lib: lib.tensor([True, False]) ** 2,
    "integers to the power 2.0": lambda lib: lib.tensor([3, -2]) ** 2.0,
    "square of bool": lambda lib: lib.square(lib.tensor([True])),
    "var of too few": lambda lib: lib.var(values(lib, 2, 3), 0, correction=2),
    "std of equal values": lambda lib: lib.std(values(lib, 3, 1) * 0 + 2.0, 1, correction=0) + lib.std(values(lib, 3) * 0),
    "norm of zeros": lambda lib: lib.norm(values(lib, 3, 2) * lib.tensor([[0.0], [1.0], [0.0]]), 2, 1),
    "logsumexp of nothing": lambda lib: lib.logsumexp(values(lib, 0, 2), 0),
    "triu of bool": lambda lib: lib.triu(lib.ones(3, 3) > 0),
    "cat with an empty vector": lambda lib: lib.cat([lib.zeros(0), values(lib, 2, 3)], 0),
    "not of integers": lambda lib: ~lib.tensor([0, 5, -1]),
    "not of bytes": lambda lib: ~lib.tensor([0, 5], dtype=lib.uint8),
    "index by a 0-d mask": lambda lib: lib.cat([values(lib, 2, 3)[lib.tensor(True)], values(lib, 2, 3)[lib.tensor(False)]]),
    "maximum with NaN": lambda lib: lib.maximum(values(lib, 3), lib.tensor([float("nan"), 0.0, 1.0])),
    "negative number to a power": lambda lib: (-0.5) ** values(lib, 3),
    "softplus at 0": lambda lib: lib.nn.functional.softplus(values(lib, 5, low=0)),
    "logits of 0": lambda lib: lib.nn.functional.binary_cross_entropy_with_logits(
        values(lib, 4, low=0).double(), lib.ones(4).double()),          # in float32 torch's gradient keeps 4 digits at 8
    "soft labels of nothing": lambda lib: lib.nn.functional.cross_entropy(values(lib, 0, 3), lib.zeros(0, 3)),
    "floor division by mode": lambda lib: lib.div(values(lib, 4), leaf(lib, [2.0, 0.0, -3.0, 1.5]), rounding_mode="floor"),
    "trunc division by 0": lambda lib: lib.div(values(lib, 4), leaf(lib, [2.0, 0.0, -3.0, 1.5]), rounding_mode="trunc"),
    "0 to a power": lambda lib: leaf(lib, [0.0] * 6) ** leaf(lib, POWERS),
    "-0 to a power": lambda lib: leaf(lib, [-0.0] * 6) ** leaf(lib, POWERS),
    "number 0 to a power": lambda lib: 0.0 ** leaf(lib, POWERS),
    "to the power 0, gradient infinite": lambda lib: (values(lib, 3) ** 0.0) / 0.0,
    "clamp of NaN": lambda lib: lib.clamp(leaf(lib, [float("nan"), -1.0, 0.0, 2.0]), 0.0, 1.0),
    "clamp_min of NaN": lambda lib: lib.clamp_min(leaf(lib, [float("nan"), -1.0, 0.0, 2.0]), 0.0),
    "clamp_max to a tensor": lambda lib: lib.clamp_max(leaf(lib, NANS[::-1]), leaf(lib, NANS)),
    "clamp between tensors": lambda lib: lib.clamp(values(lib, 5), leaf(lib, NANS), leaf(lib, NANS[::-1])),
    "clamp, bounds exchanged": lambda lib: lib.clamp(values(lib, 5), 1.0, -1.0),
    "integers of float bounds": lambda lib: lib.cat([
        lib.arange(-0.5, 4.2, 1.5, dtype=lib.int32), lib.arange(0.5, 2.2, 0.5, dtype=lib.int32),
        lib.arange(4.9, 0.2, -1.5, dtype=lib.int64)]),
    "arange of a tensor": lambda lib: lib.arange(lib.tensor(3)),
    "linspace of integers": lambda lib: lib.linspace(-4.9, 4.9, 7, dtype=lib.int32),
    "linspace in double": lambda lib: lib.linspace(0, 1, 11, dtype=lib.float64),
    "linspace, its end": lambda lib: lib.linspace(0.1, 0.7, 50)[-1:],
    "diag of bool": lambda lib: lib.diag(lib.tensor([True, False])),
    "pad of bool": lambda lib: lib.nn.functional.pad(lib.tensor([True, False]), (1, 1), value=1.7),
    "pad of integers": lambda lib: lib.nn.functional.pad(lib.tensor([1, 2]), (1, 1), value=1.7),
    "randint of bool": lambda lib: lib.randint(0, 1, (3,), dtype=lib.bool),
    "addcmul of bool": lambda lib: lib.addcmul(
        lib.tensor([1, 2], dtype=lib.int32), lib.tensor([True, False]), lib.tensor([True, True]), value=2),
    "addcdiv, half, cancelled": lambda lib: lib.addcdiv(lib.tensor([-3.334, 1.0]).to(lib.float16), lib.tensor([10.0, 1.0]).to(lib.float16),
                                                        lib.tensor([3.0, 7.0]).to(lib.float16)),
    "addcdiv, wider tensors": lambda lib: lib.addcdiv(lib.ones(2).to(lib.float16), lib.ones(2), lib.ones(2) * 3),
    "add of half the bytes": lambda lib: lib.add(lib.ones(2), lib.tensor([255, 7], dtype=lib.uint8), alpha=2),
    "add of half the integers": lambda lib: lib.add(lib.ones(2).to(lib.float16), lib.tensor([3, 7]), alpha=0.5),
    "round halves": lambda lib: lib.round(lib.tensor([-0.78515625, 0.5048828125]).to(lib.float16), decimals=2),
    "soft_margin_loss of bytes": lambda lib: lib.nn.functional.soft_margin_loss(
        values(lib, 2, 3), lib.tensor([1, 0, 2], dtype=lib.uint8), reduction="none"),
    "multilabel_soft_margin_loss, broadcast": lambda lib: lib.nn.functional.multilabel_soft_margin_loss(
        values(lib, 3, 4), lib.ones(1, 3, 4), reduction="none"),
    "lerp from infinity": lambda lib: lib.lerp(lib.tensor([float("-inf"), 1.0]), lib.tensor([2.0, float("inf")]), lib.tensor([2.75, 0.25])),
    "isclose of bool": lambda lib: lib.isclose(lib.tensor([True]), lib.tensor([False]), atol=1.0),
    "tensordot over size 1": lambda lib: lib.tensordot(values(lib, 2, 1), values(lib, 3, 4), ([1], [0])),
    "tensordot over size 1, bytes": lambda lib: lib.tensordot(lib.ones(2, 3, dtype=lib.uint8), lib.ones(1, 4, dtype=lib.uint8), 1),
    "cat with an empty leaf": lambda lib: lib.cat([leaf(lib, []), lib.zeros(2, 3)]),
    "split of nothing by 0": lambda lib: lib.cat(lib.split(values(lib, 0, 2), 0)),
    "reflected power": lambda lib: leaf(lib, [1.5, 2.0]).__rpow__(leaf(lib, [2.0, 3.0])),
    "reflected remainder": lambda lib: leaf(lib, [1.5, 2.0]).__rmod__(leaf(lib, [2.0, 3.0])),
    "reflected matmul": lambda lib: leaf(lib, [1.5, 2.0]).__rmatmul__(leaf(lib, [2.0, 3.0])),
    "floor, gradient infinite": lambda lib: lib.floor(values(lib, 3) + 0.5) / 0.0,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    found, expected = PROGRAMS[name](volta), PROGRAMS[name](torch)
    assert found.dtype.name == str(expected.dtype).removeprefix("torch.") and found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6)


DIFFERENTIABLE = [
    "norm of zeros", "std of equal values", "softplus at 0", "logits of 0", "maximum with NaN", "negative number to a power",
    "cat with an empty vector", "index by a 0-d mask", "clamp to NaN", "floor division by mode", "trunc division by 0", "0 to a power",
    "-0 to a power", "number 0 to a power", "to the power 0, gradient infinite", "clamp of NaN", "clamp_min of NaN",
    "clamp_max to a tensor", "clamp between tensors", "clamp, bounds exchanged", "tensordot over size 1",
    "cat with an empty leaf", "reflected power", "reflected remainder", "reflected matmul"]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_programs(name, monkeypatch):
    found = []
    for lib in (volta, torch):
        leaves = []
        make = lib.tensor

        def tensor(data, make=make, leaves=leaves, **options):
            t = make(data, **options)
            leaves.extend([t] if options.get("requires_grad") else [])
            return t

        monkeypatch.setattr(lib, "tensor", tensor)
        PROGRAMS[name](lib).sum().backward()
        monkeypatch.undo()
        found.append([x.grad.numpy() for x in leaves if x.grad is not None])
    assert found[0] and len(found[0]) == len(found[1])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-6)
