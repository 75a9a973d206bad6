"""Steps on sparse gradients: of a parameter and its states, only the rows that the gradient has entries for are read and written. Nothing
is read back from a GPU."""
from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from volta._kernels.core import TensorBase
from volta._kernels.core.call import run_kernel
from volta.errors import DTypeError
from volta.ops.records import update
from volta.ops.records.index import index_put_op, index_select_op
from volta.ops.sparse import SparseTensor
from volta.ops.view import reshape
from volta.optim.checks import at_least_zero, below_one, flag, positive
from volta.optim.optimizer import Optimizer
from volta.optim.state import count
from volta.tensor import Tensor

__all__ = ["SparseAdam"]


class Rows:
    """Where a sparse gradient has entries, and what it is there: entries at one place all have the sum of these."""

    def __init__(self, gradient: SparseTensor, maximize: bool) -> None:
        self.at, values = gradient.summed()
        self.rank, self.gradient = gradient.sparse_dim(), -values if maximize else values

    def of(self, tensor: Tensor) -> Tensor:
        """The rows of a parameter, or of a state."""
        return index_select_op(reshape(tensor, (-1, *tensor.shape[self.rank:])), self.at, dim=0)

    def put(self, tensor: Tensor, rows: Tensor) -> None:
        """Overwrite them."""
        run_kernel(index_put_op, tensor.device, (tensor, self.at, rows), {"rank": self.rank})


def descend(p: Tensor, gradient: SparseTensor, state: dict, values: dict) -> None:
    """A step of SGD. With momentum, which no row goes without, the whole parameter is updated."""
    if not values["momentum"]:
        rows = Rows(gradient, values["maximize"])
        return rows.put(p, rows.of(p) - values["lr"] * rows.gradient)
    dense, buffer = gradient.to_dense() * (-1 if values["maximize"] else 1), state.get("momentum_buffer")
    if buffer is None:
        buffer = state["momentum_buffer"] = dense.clone()
    else:
        buffer.mul_(values["momentum"]).add_(dense, alpha=1 - values["dampening"])
    p.add_(dense + values["momentum"] * buffer if values["nesterov"] else buffer, alpha=-values["lr"])


def descend_by_squares(p: Tensor, gradient: SparseTensor, state: dict, values: dict) -> None:
    """A step of Adagrad."""
    rows = Rows(gradient, values["maximize"])
    total = rows.of(state["sum"]) + rows.gradient ** 2
    rate = values["lr"] / (1 + (count(state) - 1) * values["lr_decay"])
    rows.put(state["sum"], total)
    rows.put(p, rows.of(p) - rate * rows.gradient / (total.sqrt() + values["eps"]))


class SparseAdam(Optimizer):
    """Adam for sparse gradients: the running means of a row change only where the gradient has an entry for it.

    Raises: ArgumentError for a hyperparameter outside its range; DTypeError for a gradient that is not sparse.
    """

    update = update.ADAM
    rules = {"lr": at_least_zero, "betas": below_one, "eps": positive, "maximize": flag}      # a schedule may end in 0
    counts_steps = True
    counter = int                       # as in PyTorch

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:
        positive("SparseAdam", "lr", lr)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _states(self, values):
        return "exp_avg", "exp_avg_sq"

    def _gather(self, params, names, sparse):
        for p in params:
            if isinstance(p.grad, TensorBase):
                raise DTypeError(f"SparseAdam: the gradient of a parameter of shape {p.shape} is dense; use Adam for it")
        return super()._gather(params, names, sparse)

    def _sparse_step(self, values):
        return functools.partial(_adam_of_rows, values=values)


def _adam_of_rows(p, gradient, state, values):
    rows, (beta1, beta2), step = Rows(gradient, values["maximize"]), values["betas"], count(state)
    mean, square = rows.of(state["exp_avg"]), rows.of(state["exp_avg_sq"])
    mean, square = mean + (rows.gradient - mean) * (1 - beta1), square + (rows.gradient ** 2 - square) * (1 - beta2)
    rows.put(state["exp_avg"], mean)
    rows.put(state["exp_avg_sq"], square)
    rate = values["lr"] * (1 - beta2 ** step) ** 0.5 / (1 - beta1 ** step)
    rows.put(p, rows.of(p) - rate * mean / (square.sqrt() + values["eps"]))
