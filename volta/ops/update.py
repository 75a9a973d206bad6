"""Optimizer steps: one fused kernel over a parameter and its state, or over many parameters at once (lists of tensors)."""
from __future__ import annotations

import numpy as np

from volta._kernels.core.call import run_kernel
from volta.ops.table import Derived, Many, case, register


def _np_sgd(param, grad, momentum_buffer, lr, momentum, dampening, weight_decay, nesterov, first):
    step = grad + weight_decay * param
    if momentum_buffer is not None:
        momentum_buffer = step if first else momentum * momentum_buffer + (1 - dampening) * step
        step = step + momentum * momentum_buffer if nesterov else momentum_buffer
    return param - lr * step, None, momentum_buffer


def _np_adam(param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, decoupled, correction1, correction2):
    if decoupled:
        param = param * (1 - lr * weight_decay)
    else:
        grad = grad + weight_decay * param
    exp_avg = beta1 * exp_avg + (1 - beta1) * grad
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * grad * grad
    param = param - lr / correction1 * exp_avg / (np.sqrt(exp_avg_sq / correction2) + eps)
    return param, None, exp_avg, exp_avg_sq


def _np_amsgrad(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, lr, eps, weight_decay, decoupled, correction1, correction2, **betas):
    _, _, exp_avg, exp_avg_sq = _np_adam(param, grad, exp_avg, exp_avg_sq, lr=lr, eps=eps, correction1=correction1,
                                         correction2=correction2, weight_decay=weight_decay, decoupled=decoupled, **betas)
    max_exp_avg_sq = np.maximum(max_exp_avg_sq, exp_avg_sq)
    param = param * (1 - lr * weight_decay) if decoupled else param
    param = param - lr / correction1 * exp_avg / (np.sqrt(max_exp_avg_sq / correction2) + eps)
    return param, None, exp_avg, exp_avg_sq, max_exp_avg_sq


_SGD = {"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "first": False}
_ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0, "decoupled": False, "correction1": 0.19,
         "correction2": 0.0199}
_SQUARES = Derived(lambda param, grad, exp_avg: exp_avg ** 2 + 0.1)
_LARGEST = Derived(lambda param, grad, exp_avg, exp_avg_sq: exp_avg_sq * (1 + np.sign(param) * 0.1))     # some larger, some smaller

sgd = register(
    "sgd", ("param", "grad", "momentum_buffer"), writes=("param", "momentum_buffer"), family="update", numpy=_np_sgd,
    cases=(case((7, 3), (7, 3), None, **_SGD), case((5,), (5,), None, **{**_SGD, "weight_decay": 0.3}),
           case((300,), (300,), (300,), **{**_SGD, "momentum": 0.9, "dampening": 0.2}),
           case((4, 5), (4, 5), (4, 5), **{**_SGD, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
           case((6,), (6,), (6,), **{**_SGD, "momentum": 0.9, "dampening": 0.5, "first": True}), case((0,), (0,), None, **_SGD)))
adam = register(
    "adam", ("param", "grad", "exp_avg", "exp_avg_sq"), writes=("param", "exp_avg", "exp_avg_sq"), family="update", numpy=_np_adam,
    cases=tuple(case(s, s, s, _SQUARES, **{**_ADAM, **changes}) for s, changes in (
        ((7, 3), {}), ((300,), {"weight_decay": 0.3}), ((4, 5), {"weight_decay": 0.3, "decoupled": True}), ((0, 2), {}))))

amsgrad = register(
    "amsgrad", ("param", "grad", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"), writes=("param", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"), family="update", numpy=_np_amsgrad,
    cases=tuple(case(s, s, s, _SQUARES, _LARGEST, **{**_ADAM, **changes}) for s, changes in (
        ((7, 3), {}), ((300,), {"weight_decay": 0.3}), ((4, 5), {"weight_decay": 0.3, "decoupled": True}), ((0, 2), {}))))


def _np_many(reference):
    """A reference over lists of arrays."""
    def many(*lists, **params):
        each = [reference(*arrays, **params) for arrays in zip(*lists)]
        return tuple(None if column[0] is None else list(column) for column in zip(*each))
    return many


_MANY = Many(((7, 3), (), (300,), (0, 2), (4, 5)))
_MANY_SQUARES = Derived(lambda params, grads, exp_avgs: [m ** 2 + 0.1 for m in exp_avgs])
_MANY_LARGEST = Derived(lambda params, grads, exp_avgs, exp_avg_sqs: [v * (1 + np.sign(p) * 0.1) for p, v in zip(params, exp_avg_sqs)])
sgd_many = register(
    "sgd_many", ("params", "grads", "momentum_buffers"), writes=("params", "momentum_buffers"), family="update", numpy=_np_many(_np_sgd),
    cases=(case(_MANY, _MANY, _MANY, **{**_SGD, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
           case(_MANY, _MANY, _MANY, **{**_SGD, "momentum": 0.9, "dampening": 0.5, "first": True})))
adam_many = register(
    "adam_many", ("params", "grads", "exp_avgs", "exp_avg_sqs"), writes=("params", "exp_avgs", "exp_avg_sqs"), family="update", numpy=_np_many(_np_adam),
    cases=tuple(case(_MANY, _MANY, _MANY, _MANY_SQUARES, **{**_ADAM, "weight_decay": 0.3, "decoupled": d}) for d in (False, True)))

amsgrad_many = register(
    "amsgrad_many", ("params", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"), writes=("params", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"), family="update", numpy=_np_many(_np_amsgrad),
    cases=tuple(case(_MANY, _MANY, _MANY, _MANY_SQUARES, _MANY_LARGEST, **{**_ADAM, "weight_decay": 0.3, "decoupled": d})
                for d in (False, True)))


def update_many(op, lists: tuple, changed: tuple[int, ...], **params: object) -> None:
    """Run an in-place update kernel on lists of tensors of one device; `changed` are the positions of the lists that are written."""
    run_kernel(op, lists[0][0].device, lists, params)
