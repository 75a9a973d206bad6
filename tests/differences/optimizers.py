"""Every optimizer of optim_db that Volta has: parameters, states and groups after some steps, and what it refuses."""
from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch.testing._internal.common_optimizers import optim_db

import volta
import volta.optim
from tests.differences import outcome
from tests.differences.carry import NotCarried, describe
from tests.differences.ops import Run, finished

STEPS = 4


def stepped(name: str) -> object:
    """A call that makes the optimizer in a library and takes some steps downhill."""
    def form(world: object, args: tuple, kwargs: dict) -> object:
        parameters = outcome.tensors(world, args)
        optimizer = getattr(world.lib.optim, name)(parameters, **kwargs)

        def loss() -> object:
            optimizer.zero_grad()
            value = sum(((p * 1.5).sin() + p * p * 0.1).sum() for p in parameters)
            value.backward()
            return value

        losses = [optimizer.step(loss).detach() for _ in range(STEPS)]
        state = optimizer.state_dict()
        groups = [{k: v for k, v in group.items() if k not in ("foreach", "fused", "capturable", "differentiable")}
                  for group in state["param_groups"]]
        return [losses, [p.detach() for p in parameters], groups, state["state"]]
    return form


class Optimizers(Run):
    """One optimizer's comparisons."""

    def run(self) -> None:
        for word in self.options.dtypes:
            dtype = getattr(torch, word)
            if not dtype.is_floating_point or self.device == "gpu" and word in ("float64", "bfloat16"):
                continue
            torch.manual_seed(self.options.seed)
            parameters = [torch.randn(shape, dtype=torch.float32).to(dtype).requires_grad_() for shape in ((3, 4), (5,), (2, 3))]
            parameters = parameters[::2] if self.name == "Muon" else parameters
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                every = self.info.optim_inputs_func(device="cpu")
                wrong = self.info.optim_error_inputs_func(device="cpu", dtype=dtype)
            for i, sample in enumerate(every):
                self.where = f"{word} {i} {sample.desc}"
                self.stepped(parameters, sample.kwargs)
            for i, error in enumerate(wrong):
                sample = error.optimizer_error_input
                self.where = f"{word} wrong {i} {sample.desc}"
                if sample.params is None:
                    self.stepped(parameters, sample.kwargs)

    def stepped(self, parameters: list, kwargs: dict) -> None:
        try:
            args = describe((tuple(parameters), kwargs))
        except NotCarried:
            return
        self.check("steps", stepped(self.name), args)


def runs(options: object) -> Iterator[Run]:
    """Each optimizer's comparisons."""
    every = [(info.optim_cls.__name__, info) for info in optim_db if not info.only_supports_sparse_grads]
    yield from finished([Optimizers(name, info, None, options) for i, (name, info) in enumerate(every) if i % options.jobs == options.job
                         and hasattr(volta.optim, name) and (options.names is None or name in options.names)], options)
