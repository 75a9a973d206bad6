"""The functions in modules of torch.optim, such as `torch.optim.adam.adam`: one step of lists of tensors, in place. They compute as the
optimizers do, by the same kernels."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from volta._kernels import core
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.creation import zeros_like
from volta.ops.records import update
from volta.ops.update import run
from volta.optim import lbfgs
from volta.tensor import Tensor

__all__ = ["adadelta", "adagrad", "adam", "adamax", "adamw", "radam", "rmsprop", "sgd"]

Tensors = Sequence[Tensor]


def _refuse(name: str, **options: Any) -> None:
    """Raise for what would change a result: how kernels take the lists (foreach, fused, capturable) does not."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ArgumentError(f"{name}: {option} is not available; leave it out")


def _batches(name: str, columns: Sequence[Sequence[Any] | None], keys: Sequence[Any]) -> dict[Any, list[int]]:
    """The numbers of the rows that one kernel call takes, of one device, dtype and key.

    Raises: ShapeError, DTypeError, ArgumentError where the tensors of a row are not alike, or lists differ in length.
    """
    used, batches = [column for column in columns if column is not None], {}
    if {len(column) for column in (*used, keys)} != {len(columns[0])}:
        raise ArgumentError(f"{name}: needs lists of one length, got {', '.join(str(len(c)) for c in (*used, keys))}")
    for i, (p, *others) in enumerate(zip(*used)):
        for t in (p, *others):
            if not isinstance(t, core.TensorBase):
                raise DTypeError(f"{name}: needs dense tensors, got {type(t).__name__}")
            if t.shape != p.shape or t.dtype is not p.dtype or t.device != p.device:
                raise ShapeError(f"{name}: a parameter is {p.dtype} {p.shape} on {p.device}, its gradient or state {t.dtype} {t.shape} "
                                 f"on {t.device}; they must be alike")
        batches.setdefault((p.device, p.dtype, keys[i]), []).append(i)
    return batches


def _step(rule: update.Update, columns: Sequence[Sequence[Any] | None], state_steps: Tensors | None, keys: Sequence[Any],
          settings: dict[str, Any]) -> None:
    """Check everything, count the steps, and run the kernels. A key is the number of steps so far, of SGD whether its buffer is new."""
    batches = _batches(rule.name, columns, keys)
    settings = {name: value.item() if isinstance(value, core.TensorBase) else value for name, value in settings.items()}
    for step in state_steps or ():
        step.detach().add_(1)
    for (_, _, key), rows in batches.items():
        own = {"step": int(key) + 1} if "step" in rule.changing else {"first": key} if "first" in rule.changing else {}
        run(rule, [None if column is None else [column[i] for i in rows] for column in columns], {**settings, **own})


def _counts(name: str, state_steps: Tensors) -> list[float]:
    if not all(isinstance(step, core.TensorBase) and step.numel() == 1 for step in state_steps):
        raise ArgumentError(f"{name}: state_steps must be tensors of one element")
    return [step.item() for step in state_steps]


def sgd(params: list[Tensor], d_p_list: list[Tensor], momentum_buffer_list: list[Tensor | None], has_sparse_grad: bool = False,
        foreach: bool | None = None, fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None, *,
        weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool, maximize: bool) -> None:
    """One step of SGD; buffers that are None are made, and put into their list."""
    _refuse("sgd", grad_scale=grad_scale, found_inf=found_inf, has_sparse_grad=has_sparse_grad)
    first = [momentum != 0 and buffer is None for buffer in momentum_buffer_list]
    buffers = None
    if momentum:
        buffers = [zeros_like(p) if new else buffer for p, new, buffer in zip(params, first, momentum_buffer_list)]
    _step(update.SGD, [params, d_p_list, buffers], None, first if momentum else [False] * len(params),
          {"weight_decay": weight_decay, "momentum": momentum, "lr": lr, "dampening": dampening, "nesterov": nesterov,
           "maximize": maximize})
    if momentum:
        momentum_buffer_list[:] = buffers


def adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor],
         state_steps: list[Tensor], foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
         fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False,
         decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1: float, beta2: float, lr: float, weight_decay: float, eps: float,
         maximize: bool) -> None:
    """One step of Adam."""
    _refuse("adam", grad_scale=grad_scale, found_inf=found_inf, has_complex=has_complex, differentiable=differentiable)
    _step(update.ADAM, [params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs if amsgrad else None], state_steps,
          _counts("adam", state_steps), {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay,
                                         "decoupled": decoupled_weight_decay, "maximize": maximize})


def adamw(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor],
          state_steps: list[Tensor], foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
          fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False, *,
          amsgrad: bool, beta1: float, beta2: float, lr: float, weight_decay: float, eps: float, maximize: bool) -> None:
    """One step of AdamW."""
    adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach, capturable, differentiable, fused, grad_scale,
         found_inf, has_complex, True, amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr, weight_decay=weight_decay, eps=eps,
         maximize=maximize)


def rmsprop(params: list[Tensor], grads: list[Tensor], square_avgs: list[Tensor], grad_avgs: list[Tensor],
            momentum_buffer_list: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None, maximize: bool = False,
            differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *, lr: float, alpha: float, eps: float,
            weight_decay: float, momentum: float, centered: bool) -> None:
    """One step of RMSprop."""
    _refuse("rmsprop", has_complex=has_complex, differentiable=differentiable)
    _step(update.RMSPROP, [params, grads, square_avgs, grad_avgs if centered else None, momentum_buffer_list if momentum else None],
          state_steps, _counts("rmsprop", state_steps),
          {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "maximize": maximize})


def adagrad(params: list[Tensor], grads: list[Tensor], state_sums: list[Tensor], state_steps: list[Tensor], fused: bool | None = None,
            grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_sparse_grad: bool = False,
            foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False, *, lr: float, weight_decay: float,
            lr_decay: float, eps: float, maximize: bool) -> None:
    """One step of Adagrad."""
    _refuse("adagrad", grad_scale=grad_scale, found_inf=found_inf, has_sparse_grad=has_sparse_grad, has_complex=has_complex,
            differentiable=differentiable)
    _step(update.ADAGRAD, [params, grads, state_sums], state_steps, _counts("adagrad", state_steps),
          {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})


def adadelta(params: list[Tensor], grads: list[Tensor], square_avgs: list[Tensor], acc_deltas: list[Tensor], state_steps: list[Tensor],
             capturable: bool = False, foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False, *,
             lr: float, rho: float, eps: float, weight_decay: float, maximize: bool) -> None:
    """One step of Adadelta."""
    _refuse("adadelta", has_complex=has_complex, differentiable=differentiable)
    _step(update.ADADELTA, [params, grads, square_avgs, acc_deltas], state_steps, _counts("adadelta", state_steps),
          {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})


def adamax(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_infs: list[Tensor], state_steps: list[Tensor],
           foreach: bool | None = None, maximize: bool = False, differentiable: bool = False, capturable: bool = False,
           has_complex: bool = False, *, eps: float, beta1: float, beta2: float, lr: float, weight_decay: float) -> None:
    """One step of Adamax."""
    _refuse("adamax", has_complex=has_complex, differentiable=differentiable)
    _step(update.ADAMAX, [params, grads, exp_avgs, exp_infs], state_steps, _counts("adamax", state_steps),
          {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})


def radam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], state_steps: list[Tensor],
          decoupled_weight_decay: bool = False, foreach: bool | None = None, differentiable: bool = False, capturable: bool = False,
          has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float,
          eps: float) -> None:
    """One step of RAdam."""
    _refuse("radam", has_complex=has_complex, differentiable=differentiable)
    _step(update.RADAM, [params, grads, exp_avgs, exp_avg_sqs], state_steps, _counts("radam", state_steps),
          {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "decoupled": decoupled_weight_decay,
           "maximize": maximize})


def _strong_wolfe(obj_func: Callable[..., Any], x: Any, t: float, d: Any, f: float, g: Any, gtd: Any, c1: float = 1e-4, c2: float = 0.9,
                  tolerance_change: float = 1e-9, max_ls: int = 25) -> tuple[Any, Any, float, int]:
    """The step that `LBFGS` takes from x along d, of a function that gives loss and gradient at `(x, t, d)`: these, t and the calls."""
    return lbfgs._strong_wolfe(lambda t, d: obj_func(x, t, d), t, d, f, g, gtd, max_ls, c1, c2, tolerance_change)


_cubic_interpolate = lbfgs._cubic
