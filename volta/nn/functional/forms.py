"""Functions of networks in the forms that PyTorch gives them under `torch`: other orders of arguments, and a number for the reduction
(1 "mean", 2 "sum", any other none, as without one). None of these names is of `nn.functional`."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from volta.nn.functional import criteria, ctc, lookup, loss, norm
from volta.ops.join import pad as pad_
from volta.ops.table import Labels, case, composed
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__: list[str] = []


def _form_of(function, **changes):
    """Decorator: an op under the bare name of a function of networks, with the first of its samples; where it reduces, to the mean."""
    details = function.details
    options = {"samples": details.cases[:1], "numpy": details.numpy, "domain": details.domain, "rtol": details.rtol, "kinds": details.kinds}
    if "reduction" in inspect.signature(function.function).parameters and "samples" not in changes:
        options["samples"] = tuple(case(*c.inputs, **{**c.params, "reduction": 1}) for c in details.cases[:1])
        options["numpy"] = lambda *inputs, reduction, **params: details.numpy(*inputs, **params)
    return composed(**{**options, **changes}, method=False)


def _name(reduction):
    return {1: "mean", 2: "sum"}.get(reduction, "none")


@_form_of(loss.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
                                     reduction: int = 0) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` with a number for the reduction. Here the input broadcasts to the target.

    >>> volta.binary_cross_entropy_with_logits(volta.zeros(2), volta.tensor([0.0, 1.0]), reduction=2)
    tensor(1.3863)
    """
    if input.shape != target.shape and broadcasts_to(input.shape, target.shape):
        input = input.expand(target.shape)
    return loss.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight, reduction=_name(reduction))


@_form_of(criteria.cosine_embedding_loss)
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """`nn.functional.cosine_embedding_loss` with a number for the reduction.

    >>> volta.cosine_embedding_loss(volta.ones(1, 2), volta.ones(1, 2), volta.tensor([-1]), 0.5)
    tensor([0.5000])
    """
    return criteria.cosine_embedding_loss(input1, input2, target, margin, reduction=_name(reduction))


@_form_of(ctc.ctc_loss, smooth=False)
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int],
             blank: int = 0, reduction: int = 0, zero_infinity: bool = False) -> Tensor:
    """`nn.functional.ctc_loss` with a number for the reduction.

    >>> log_probs = volta.full((2, 1, 2), 0.5).log()
    >>> volta.ctc_loss(log_probs, volta.tensor([[1]]), volta.tensor([2]), volta.tensor([1]))
    tensor([0.2877])
    """
    return ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _name(reduction), zero_infinity)


@_form_of(criteria.hinge_embedding_loss)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss` with a number for the reduction.

    >>> volta.hinge_embedding_loss(volta.tensor([0.5, 0.25]), volta.tensor([1, -1]), reduction=0)
    tensor([0.5000, 0.7500])
    """
    return criteria.hinge_embedding_loss(input, target, margin, reduction=_name(reduction))


@_form_of(criteria.kl_div)
def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div` with a number for the reduction.

    >>> volta.kl_div(volta.tensor([-1.0]), volta.tensor([1.0]), 2)
    tensor(1.)
    """
    return criteria._divergence(input, target, _name(reduction), log_target)


@_form_of(criteria.margin_ranking_loss)
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """`nn.functional.margin_ranking_loss` with a number for the reduction.

    >>> volta.margin_ranking_loss(volta.tensor([1.0]), volta.tensor([3.0]), volta.tensor([1]), 0.5)
    tensor([2.5000])
    """
    return criteria._ranked(input1, input2, target, margin, _name(reduction))


@_form_of(criteria.poisson_nll_loss, samples=(case((3, 4), (3, 4), log_input=True, full=False, eps=1e-8, reduction=1),),
          numpy=lambda input, target, log_input, full, eps, reduction: criteria.poisson_nll_loss.details.numpy(input, target))
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss` with a number for the reduction.

    >>> volta.poisson_nll_loss(volta.tensor([0.0]), volta.tensor([2.0]), True, False, 1e-8, 1)
    tensor(1.)
    """
    return criteria.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_name(reduction))


@_form_of(criteria.triplet_margin_loss)
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
                        swap: bool = False, reduction: int = 0) -> Tensor:
    """`nn.functional.triplet_margin_loss` with a number for the reduction.

    >>> volta.triplet_margin_loss(volta.zeros(1, 2), volta.zeros(1, 2), volta.zeros(1, 2), 0.25)
    tensor([0.2500])
    """
    return criteria.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_name(reduction))


@composed(samples=(case((5, 4), Labels((2, 3), 5)),), numpy=lambda weight, indices: weight[indices], method=False)
def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """`nn.functional.embedding` with the weight first; -1 is no padding.

    >>> volta.embedding(volta.eye(2), volta.tensor([1]))
    tensor([[0., 1.]])
    """
    padding = None if padding_idx == -1 else padding_idx
    return lookup.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


@composed(samples=(case((4, 3, 5), (3,), (3,), (3,), (3,), training=False, momentum=0.1, eps=1e-5, cudnn_enabled=False),),
          domain=(0.2, 2.0), rtol=1e-4, method=False, numpy=lambda x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled:
              norm.batch_norm.details.numpy(x, mean, variance, weight, bias))
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
               training: bool, momentum: float, eps: float, cudnn_enabled: bool) -> Tensor:
    """`nn.functional.batch_norm` with the weight first. `cudnn_enabled` allows one vendor's library, which changes nothing here.

    >>> volta.batch_norm(volta.ones(1, 1), None, None, volta.zeros(1), volta.ones(1), False, 0.1, 0.0, False)
    tensor([[1.]])
    """
    return norm.by_batch(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


@composed(samples=(case((2, 3, 4), (3,), (3,), None, None, use_input_stats=True, momentum=0.1, eps=1e-5, cudnn_enabled=False),),
          domain=(0.2, 2.0), rtol=1e-4, method=False,
          numpy=lambda x, weight, bias, mean, variance, use_input_stats, momentum, eps, cudnn_enabled:
              norm.instance_norm.details.numpy(x, None, None, weight, bias))
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
                  use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool) -> Tensor:
    """`nn.functional.instance_norm` with the weight first. `cudnn_enabled` allows one vendor's library, which changes nothing here.

    >>> volta.instance_norm(volta.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 0.0, False)
    tensor([[[-1.,  1.]]])
    """
    return norm.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@_form_of(norm.layer_norm)
def layer_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05, cudnn_enable: bool = True) -> Tensor:
    """`nn.functional.layer_norm`. `cudnn_enable` allows one vendor's library, which changes nothing here.

    >>> volta.layer_norm(volta.tensor([[1.0, 3.0]]), 2, eps=0.0)
    tensor([[-1.,  1.]])
    """
    return norm.layer_norm(input, normalized_shape, weight, bias, eps)


@_form_of(norm.group_norm)
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05,
               cudnn_enabled: bool = True) -> Tensor:
    """`nn.functional.group_norm`. `cudnn_enabled` allows one vendor's library, which changes nothing here.

    >>> volta.group_norm(volta.tensor([[1.0, 3.0, 5.0, 5.0]]), 2, eps=0.1)
    tensor([[-0.9535,  0.9535,  0.0000,  0.0000]])
    """
    return norm.group_norm(input, num_groups, weight, bias, eps)


@_form_of(pad_)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`nn.functional.pad` with a constant.

    >>> volta.constant_pad_nd(volta.ones(2), (1, 0), 3)
    tensor([3., 1., 1.])
    """
    return pad_(input, pad, "constant", value)
