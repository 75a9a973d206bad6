"""Stochastic gradient descent."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.ops import table, update
from volta.optim.optimizer import Optimizer, at_least_zero


class SGD(Optimizer):
    """Gradient descent with momentum, dampening, weight decay (L2) and Nesterov's form.

    Raises: ArgumentError for a negative or NaN hyperparameter, or nesterov without momentum or with dampening.
    Source: Sutskever et al. 2013, in PyTorch's form (the buffer holds gradients, not steps).
    """

    slots = ("momentum_buffer",)
    rules = dict.fromkeys(("lr", "momentum", "weight_decay"), at_least_zero)

    def __init__(self, params, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize})

    def _check_group(self, group):
        super()._check_group(group)
        if group["dampening"] != group["dampening"]:
            raise ArgumentError("SGD: dampening must be a number, got nan")
        if group["nesterov"] and (not group["momentum"] or group["dampening"]):
            raise ArgumentError(f"SGD: nesterov needs momentum > 0 and dampening 0, got momentum {group['momentum']} and dampening "
                                f"{group['dampening']}")

    def _update(self, group, params):
        momentum, gradients = float(group["momentum"]), self._gradients(group, params)
        settings = {"lr": float(group["lr"]), "momentum": momentum, "dampening": float(group["dampening"]),
                        "weight_decay": float(group["weight_decay"]), "nesterov": bool(group["nesterov"])}
        if not momentum:
            for p, g in zip(params, gradients):
                table.update(update.sgd, (p, g, None), **settings, first=False)
            return
        batches: dict = {}          # (device, first): the kernel takes parameters of one device, and either all start or none
        for p, g in zip(params, gradients):
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            first = buffer is None
            if first:
                buffer = state["momentum_buffer"] = self._new_state(p)
            lists = batches.get((p.device, first))
            if lists is None:
                lists = batches[p.device, first] = ([], [], [])
            lists[0].append(p)
            lists[1].append(g)
            lists[2].append(buffer)
        for (_, first), lists in batches.items():
            update.update_many(update.sgd_many, lists, (0, 2), **settings, first=first)
