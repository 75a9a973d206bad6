"""Formulas of losses, which are elementwise: what `fused` computes at once on a GPU. Checks and reductions are in the modules that call
them."""
from __future__ import annotations

import math

from volta.nn.functional.activation import softplus
from volta.ops.records.math import (
    clamp_min,
    exp,
    log,
    log1p,
    logistic_loss,
    minimum,
    mulacc,
    positive_part,
    pow,
    reciprocal,
    squared_difference,
    where_op,
    xlogy,
)

__all__: list[str] = []                         # no function of networks


def logistic(input, target, pos_weight):
    return logistic_loss(input, target) + (pos_weight - 1.0) * target * softplus(-input)


def divergence(input, target, *, log_target):
    return exp(target) * (target - input) if log_target else xlogy(target, target) - target * input


def poisson(input, target, eps, *, log_input, full):
    values = exp(input) - target * input if log_input else input - target * log(input + eps)
    if not full:
        return values
    return values + where_op(target > 1, target * log(target) - target + 0.5 * log(target * (2 * math.pi)), 0.0)


def gaussian(input, target, var, *, full):
    values = (log(var) + squared_difference(input, target) / var) * 0.5
    return values + 0.5 * math.log(2 * math.pi) if full else values


def hinge(x, target, margin):
    return where_op(target != -1, x, 0) + where_op(target != 1, clamp_min(margin - x, 0), 0)


def ranked(input1, input2, target, margin):
    return clamp_min(-target * (input1 - input2) + margin, 0.0)


def soft_margin(input, target):
    return log1p(exp(target * -input))


def both_sides(input, target):
    return target * softplus(-input) + (1 - target) * softplus(input)


def nearer(near, far, margin):
    return clamp_min(near + margin - far, 0.0)


def nearer_of(near, far, other, margin):
    return clamp_min(near + margin - minimum(far, other), 0.0)


def responded(input, mean, alpha, k, beta):
    return input / pow(mulacc(mean, alpha, k), beta)


def variance(rstd, eps, correction):
    return (reciprocal(rstd * rstd) - eps) * correction


def noisy(logits, drawn, least, tau):
    return (logits - log(clamp_min(-log1p(-drawn), least))) / tau


def dropped(x, keep, scale, limit, shift):
    return x * (keep * scale) + ((keep - 1) * limit + shift)


def scaled(v, g, length):
    return v * (g / length)


def gap(score, other, counts, wanted):
    return where_op(counts > 0, where_op(wanted > 0, 0.0, positive_part(1.0 - score + other)), 0.0)
