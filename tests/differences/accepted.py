"""Differences that are as they should be, each with its reason. Everything else counts."""
from __future__ import annotations

import collections

import numpy as np

COUNTS: collections.Counter = collections.Counter()

# Draws: the same seed gives other numbers than in PyTorch. All but values is compared.
DRAWS = frozenset("""rand rand_like randn randn_like randint randint_like randperm normal bernoulli multinomial
nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
nn.functional.rrelu native_dropout uniform exponential geometric cauchy log_normal
nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d svd_lowrank pca_lowrank""".split())
# What nobody wrote has no values to compare.
UNWRITTEN = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_".split())


def skipped(name: str, device: str) -> frozenset:
    """What is not compared of an op."""
    return frozenset({"values"}) if name in DRAWS or name in UNWRITTEN else frozenset()


def unchanged(theirs: object, before: list) -> bool:
    """Whether PyTorch, which raised too, left its inputs alone."""
    return all(a.shape == b.shape and np.array_equal(a.values, b.values, equal_nan=a.values.dtype.kind == "f") for a, b in zip(before, theirs.inputs))


def cause(name: str, device: str, form: str, where: str, text: str, args: object) -> str | None:
    """Why a difference is accepted; None where it is not."""
    if text.startswith("strides of nothing") or text.startswith("strides of ones"):
        return "strides of dimensions without a step"
    if text.startswith("accepted") and ("derivative for" in text or "does not require grad" in text and "grad grad" in form):
        return "a derivative that PyTorch has not"
    return None


def count(cause: str) -> None:
    COUNTS[cause] += 1
