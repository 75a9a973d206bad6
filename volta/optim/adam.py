"""Adam and AdamW."""
from __future__ import annotations

from volta.ops import update
from volta.optim.optimizer import Optimizer, at_least_zero, below_one


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square; weight decay is added to the gradient (L2). With amsgrad the
    largest mean square so far takes the place of the present one.

    Raises: ArgumentError for a negative or NaN hyperparameter, or betas outside [0, 1).
    Source: Kingma and Ba 2015, algorithm 1; Reddi et al. 2018, algorithm 2.
    """

    rules = {"lr": at_least_zero, "betas": below_one, "eps": at_least_zero, "weight_decay": at_least_zero}
    slots = ("exp_avg", "exp_avg_sq")
    decoupled = False

    def __init__(self, params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": bool(amsgrad),
                                  "maximize": maximize})

    def _update(self, group, params):
        batches: dict = {}          # (device, step): the kernel takes parameters of one device with equal bias corrections
        kernel, names = (update.amsgrad_many, self.slots + ("max_exp_avg_sq",)) if group["amsgrad"] else (update.adam_many, self.slots)
        for p, g in zip(params, self._gradients(group, params)):
            state = self.state[p]
            if len(state) <= len(names):            # the first step, or the first with amsgrad
                state.setdefault("step", 0)
                for name in names:
                    if name not in state:
                        state[name] = self._new_state(p)
            state["step"] = step = state["step"] + 1
            lists = batches.get((p.device, step))
            if lists is None:
                lists = batches[p.device, step] = tuple([[] for _ in range(2 + len(names))])
            lists[0].append(p)
            lists[1].append(g)
            for place, name in enumerate(names, 2):
                lists[place].append(state[name])
        beta1, beta2 = map(float, group["betas"])
        for (_, step), lists in batches.items():
            update.update_many(kernel, lists, (0, *range(2, len(lists))), lr=float(group["lr"]), beta1=beta1, beta2=beta2,
                               eps=float(group["eps"]), weight_decay=float(group["weight_decay"]), decoupled=self.decoupled,
                               correction1=1.0 - beta1 ** step, correction2=1.0 - beta2 ** step)


class AdamW(Adam):
    """Adam with weight decay applied to the parameter itself. Source: Loshchilov and Hutter 2019, algorithm 2."""

    decoupled = True

    def __init__(self, params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
