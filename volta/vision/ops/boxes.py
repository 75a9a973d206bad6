"""Boxes in images, rows of four numbers: (x1, y1, x2, y2) unless something else is said."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.autograd import no_grad
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.ops.from_data import tensor
from volta.ops.join import stack

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "complete_box_iou_loss",
           "distance_box_iou", "distance_box_iou_loss", "generalized_box_iou", "generalized_box_iou_loss", "masks_to_boxes", "nms",
           "remove_small_boxes", "sigmoid_focal_loss"]


def box_area(boxes: Tensor) -> Tensor:
    """The area of each box.

    >>> volta.vision.ops.box_area(volta.tensor([[0., 0., 2., 3.]]))
    tensor([6.])
    """
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another form: "xyxy" two corners, "xywh" a corner and the size, "cxcywh" the middle and the size.

    Raises: ArgumentError for another form.

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


def _distance(a, b, iou, eps):
    """`iou` less the distance of the boxes' centres, of which the diagonal of the box around both is the unit."""
    around = (a[..., 2:].maximum(b[..., 2:]) - a[..., :2].minimum(b[..., :2])) ** 2
    apart = ((a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2) ** 2
    return iou - apart.sum(-1) / (around.sum(-1) + eps)


def _proportion(a, b, iou, eps):
    """How far the proportions of boxes differ, weighed by how well the boxes agree."""
    def angle(boxes):
        return ((boxes[..., 2] - boxes[..., 0]) / (boxes[..., 3] - boxes[..., 1])).atan()
    v = 4 / math.pi ** 2 * (angle(a) - angle(b)) ** 2
    return (v / (1 - iou + v + eps)).detach() * v


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`box_iou` of each pair, less the distance of the centres. Source: Zheng et al., Distance-IoU Loss.

    >>> volta.vision.ops.distance_box_iou(volta.tensor([[0., 0., 2., 2.]]), volta.tensor([[0., 0., 2., 2.]]))
    tensor([[1.]])
    """
    return _distance(boxes1[:, None], boxes2[None], box_iou(boxes1, boxes2), eps)


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`distance_box_iou`, less how far the proportions differ. Source: Zheng et al., Distance-IoU Loss."""
    iou, (a, b) = box_iou(boxes1, boxes2), (boxes1[:, None], boxes2[None])
    return _distance(a, b, iou, eps) - _proportion(a, b, iou, eps)


def _pairs(a, b, eps):
    """The share of what two boxes cover that both cover, of boxes one by one; what they share, and what they cover."""
    size = (a[..., 2:].minimum(b[..., 2:]) - a[..., :2].maximum(b[..., :2])).clamp(min=0)
    shared = size.prod(-1)
    covered = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - shared
    return shared / (covered + eps), covered


def _reduced(name, loss, reduction):
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(f"{name}: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    return loss if reduction == "none" else loss.sum() if reduction == "sum" or not loss.numel() else loss.mean()


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less the generalized IoU of boxes one by one."""
    iou, covered = _pairs(boxes1, boxes2, eps)
    around = (boxes1[..., 2:].maximum(boxes2[..., 2:]) - boxes1[..., :2].minimum(boxes2[..., :2])).prod(-1)
    return _reduced("generalized_box_iou_loss", 1 - iou + (around - covered) / (around + eps), reduction)


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less the distance IoU of boxes one by one."""
    return _reduced("distance_box_iou_loss", 1 - _distance(boxes1, boxes2, _pairs(boxes1, boxes2, eps)[0], eps), reduction)


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less the complete IoU of boxes one by one."""
    iou = _pairs(boxes1, boxes2, eps)[0]
    loss = 1 - _distance(boxes1, boxes2, iou, eps) + _proportion(boxes1, boxes2, iou, eps)
    return _reduced("complete_box_iou_loss", loss, reduction)


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest box around each mask; zeros for an empty one.

    Shape: (n, H, W) -> (n, 4).

    >>> volta.vision.ops.masks_to_boxes(volta.tensor([[[0, 0, 0], [0, 1, 1]]]))
    tensor([[1., 1., 2., 1.]])
    """
    found = []
    for dim in (1, 2):                                          # what has a mark in each column, then in each row
        marked = (masks != 0).any(dim).float()
        found.append((marked.argmax(1), marked.shape[1] - 1 - marked.flip(1).argmax(1)))
    boxes = stack([found[0][0], found[1][0], found[0][1], found[1][1]], 1).float()
    return boxes * (masks != 0).flatten(1).any(1)[:, None]


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

    Raises: ShapeError for boxes other than (n, 4), and scores other than (n,).

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
    p = inputs.sigmoid()
    missed = 1 - (p * targets + (1 - p) * (1 - targets))
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none") * missed ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return _reduced("sigmoid_focal_loss", loss, reduction)
