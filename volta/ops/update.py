"""Optimizer steps: one fused kernel over a parameter and its state, or over many parameters at once (lists of tensors)."""
from __future__ import annotations

from volta.ops.families import register

sgd = register("sgd", ("param", "grad", "momentum_buffer"), family="update")
adam = register("adam", ("param", "grad", "exp_avg", "exp_avg_sq"), family="update")
sgd_many = register("sgd_many", ("params", "grads", "momentum_buffers"), family="update")
adam_many = register("adam_many", ("params", "grads", "exp_avgs", "exp_avg_sqs"), family="update")


def update_many(op, lists: tuple, changed: tuple[int, ...], **params: object) -> None:
    """Run an in-place update kernel on lists of tensors of one device; `changed` are the positions of the lists that are written."""
    (op.gpu if lists[0][0].device.is_gpu else op.cpu)(*lists, **params)
    for position in changed:
        for t in lists[position]:
            t.storage.version += 1
