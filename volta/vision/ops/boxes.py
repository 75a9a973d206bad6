"""Boxes in images, rows of four numbers: (x1, y1, x2, y2) unless something else is said."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.autograd import no_grad
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.ops.from_data import tensor
from volta.ops.join import stack

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "generalized_box_iou", "nms", "remove_small_boxes",
           "sigmoid_focal_loss"]


def box_area(boxes: Tensor) -> Tensor:
    """The area of each box.

    >>> volta.vision.ops.box_area(volta.tensor([[0., 0., 2., 3.]]))
    tensor([6.])
    """
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another form: "xyxy" two corners, "xywh" a corner and the size, "cxcywh" the middle and the size.

    >>> volta.vision.ops.box_convert(volta.tensor([[0., 0., 2., 4.]]), "xyxy", "cxcywh")
    tensor([[1., 2., 2., 4.]])
    """
    if not {in_fmt, out_fmt} <= {"xyxy", "xywh", "cxcywh"}:
        raise ArgumentError(f"box_convert: forms are 'xyxy', 'xywh' and 'cxcywh', got {in_fmt!r} and {out_fmt!r}")
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return stack([a, b, c, d], -1)


def _overlap(boxes1, boxes2):
    """The area that each pair shares, and the one that it covers."""
    low, high = boxes1[:, None, :2].maximum(boxes2[:, :2]), boxes1[:, None, 2:].minimum(boxes2[:, 2:])
    size = (high - low).clamp(min=0)
    shared = size[:, :, 0] * size[:, :, 1]
    return shared, box_area(boxes1)[:, None] + box_area(boxes2) - shared


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """How much of what each pair of boxes covers both cover.

    >>> volta.vision.ops.box_iou(volta.tensor([[0., 0., 2., 2.]]), volta.tensor([[1., 0., 3., 2.]]))
    tensor([[0.3333]])
    """
    shared, covered = _overlap(boxes1, boxes2)
    return shared / covered


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """`box_iou`, less the part of the box around each pair that neither covers. Source: Rezatofighi et al., Generalized IoU."""
    shared, covered = _overlap(boxes1, boxes2)
    size = (boxes1[:, None, 2:].maximum(boxes2[:, 2:]) - boxes1[:, None, :2].minimum(boxes2[:, :2])).clamp(min=0)
    around = size[:, :, 0] * size[:, :, 1]
    return shared / covered - (around - covered) / around


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes cut at the edges of an image of this (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return stack([x, y], -1).reshape(boxes.shape)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The indices of the boxes with both sides at least `min_size`."""
    return ((boxes[:, 2:] - boxes[:, :2]) >= min_size).all(1).nonzero().squeeze(1)


@no_grad()
def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The indices of the boxes, best first, that overlap no better one by more than `iou_threshold`. Reads the overlaps.

    >>> volta.vision.ops.nms(volta.tensor([[0., 0., 2., 2.], [0., 0., 2., 1.9], [3., 0., 4., 1.]]), volta.tensor([.5, .9, .1]), 0.5)
    tensor([1, 2])
    """
    if boxes.ndim != 2 or boxes.shape[1] != 4 or tuple(scores.shape) != (boxes.shape[0],):
        raise ShapeError(f"nms: needs boxes (n, 4) and scores (n,), got {tuple(boxes.shape)} and {tuple(scores.shape)}")
    order = scores.argsort(descending=True, stable=True)
    overlapping = (box_iou(boxes[order], boxes[order]) > iou_threshold).numpy()
    alive, kept = np.ones(len(overlapping), bool), []
    for i, place in enumerate(order.tolist()):
        if alive[i]:
            kept.append(place)
            alive &= ~overlapping[i]
    return tensor(kept, dtype=order.dtype, device=boxes.device)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` among the boxes of each class `idxs` by itself."""
    if not boxes.numel():
        return nms(boxes, scores, iou_threshold)
    apart = idxs.to(boxes.dtype) * (boxes.max() + 1)            # boxes of two classes do not meet
    return nms(boxes + apart[:, None], scores, iou_threshold)


def sigmoid_focal_loss(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none") -> Tensor:
    """Binary cross-entropy that weighs what is right already less. Source: Lin et al., Focal Loss for Dense Object Detection."""
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(f"sigmoid_focal_loss: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    p = inputs.sigmoid()
    missed = 1 - (p * targets + (1 - p) * (1 - targets))
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none") * missed ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return loss if reduction == "none" else getattr(loss, reduction)()
