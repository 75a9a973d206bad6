"""Every layer of module_db that Volta has: what it shows, gives and passes back, with the same state."""
from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch.testing._internal.common_modules import module_db

import volta
import volta.nn
from tests.differences import forms, outcome
from tests.differences.carry import NotCarried, describe
from tests.differences.ops import Run, finished

DRAWS = ("Dropout", "RReLU", "Fractional", "Transformer", "MultiheadAttention")     # in training


def built(name: str) -> object:
    """A call that makes the layer in a library, gives it the state, and runs it forward and back."""
    def form(world: object, args: tuple, kwargs: dict) -> object:
        made, made_by, given, given_by, state, training, dtype = args
        layer = getattr(world.lib.nn, name)(*made, **made_by).to(**world.where()).to(dtype).train(training)
        layer.load_state_dict(state)
        out = layer(*given, **given_by)
        listed = [x for x in outcome.tensors(world, out) if x.requires_grad]
        wanted = [x for x in outcome.tensors(world, (given, given_by)) if x.requires_grad] + list(layer.parameters())
        sent = [forms.weights(world, x, i) for i, x in enumerate(listed)]
        grads = world.lib.autograd.grad(listed, wanted, sent, allow_unused=True) if listed else ()
        return [repr(layer), out, [None if g is None else g.detach() for g in grads], list(layer.state_dict().items())]
    return form


class Layers(Run):
    """One layer's comparisons."""

    def run(self) -> None:
        for word in self.options.dtypes:
            dtype = getattr(torch, word)
            if dtype not in self.info.dtypes or self.device == "gpu" and word in ("float64", "bfloat16"):
                continue
            for training in (True, False):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    every = self.info.module_inputs_func(self.info, "cpu", dtype, True, training)
                for i, sample in enumerate(every[:self.options.cap]):
                    self.where = f"{word} {'training' if training else 'evaluation'} {i}"
                    self.one_layer(sample, training, dtype)

    def one_layer(self, sample: object, training: bool, dtype: torch.dtype) -> None:
        made, given = sample.constructor_input, sample.forward_input
        torch.manual_seed(self.options.seed)
        try:
            describe((made.args, made.kwargs))
            state = self.info.module_cls(*made.args, **made.kwargs).to(dtype).state_dict()
            args = describe(((made.args, made.kwargs, given.args, given.kwargs, dict(state), training, dtype), {}))
        except NotCarried:
            return
        skip = self.skip
        if training and any(word in self.name for word in DRAWS):
            self.skip = skip | {"values"}
        self.check("layer grad", built(self.info.module_cls.__name__), args)
        self.skip = skip


def runs(options: object) -> Iterator[Run]:
    """Each layer's comparisons."""
    every = [(info.module_cls.__name__, info) for info in module_db]
    yield from finished([Layers(name, info, None, options) for i, (name, info) in enumerate(every) if i % options.jobs == options.job
                         and hasattr(volta.nn, name) and (options.names is None or name in options.names)], options)
