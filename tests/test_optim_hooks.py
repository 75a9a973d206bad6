"""Hooks of optimizers, and their arguments by position, against PyTorch."""
import copy
import importlib
import inspect
import pickle

import pytest

import volta
from volta.errors import ArgumentError

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")


def hooks_of(library):
    return library.optim if library is volta else importlib.import_module("torch.optim.optimizer")


def parameter(library):
    p = library.nn.Parameter(library.ones(2))
    p.grad = library.ones(2)
    return p


def steps(library, kind):
    """What hooks see of the steps of an optimizer of this kind."""
    class Halving(library.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None, factor=2):
            seen.append(("step", factor))

    class Twice(library.optim.SGD):
        def step(self, closure=None):
            super().step()
            return super().step(closure)

    def hook(name):
        return lambda optimizer, args, kwargs: seen.append((name, optimizer is held, len(args), args[0] is held, sorted(kwargs)))

    seen, p = [], parameter(library)
    kinds = {"sgd": lambda: library.optim.SGD([p], lr=0.5), "lbfgs": lambda: library.optim.LBFGS([p]), "own": lambda: Halving([p]),
             "twice": lambda: Twice([p], lr=0.5)}
    held = kinds[kind]()
    handles = [hooks_of(library).register_optimizer_step_pre_hook(hook("any before")),
               hooks_of(library).register_optimizer_step_post_hook(hook("any after"))]
    held.register_step_pre_hook(hook("before"))
    held.register_step_post_hook(hook("after"))
    try:
        held.step(lambda: library.tensor(1.0))
        held.step(closure=lambda: library.tensor(1.0))
    finally:
        for handle in handles:
            handle.remove()
    held.register_step_pre_hook(lambda optimizer, args, kwargs: (args[:1], {"factor": 3} if kind == "own" else {"closure": lambda: 7}))
    seen.append(held.step(lambda: 5) if kind != "lbfgs" else None)
    return seen


@pytest.mark.parametrize("kind", ["sgd", "lbfgs", "own"])
def test_steps(kind):
    assert steps(volta, kind) == steps(torch, kind)


def test_a_step_within_a_step_calls_no_hooks_again():
    assert [each[0] for each in steps(volta, "twice")[:4]] == ["any before", "before", "after", "any after"]
    optimizer = volta.optim.SGD([parameter(volta)])
    optimizer.register_step_pre_hook(lambda *given: 3)
    for _ in range(2):                                  # and again after an error
        with pytest.raises(ArgumentError, match=r"SGD: a hook before steps must give None or \(args, kwargs\), got 3"):
            optimizer.step()


def state_dicts(library):
    seen = []
    optimizer = library.optim.Adam([parameter(library)])
    optimizer.step()
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("last"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, s: {**s, "more": 1})
    gone = optimizer.register_state_dict_post_hook(lambda o, s: seen.append(sorted(s)))
    state = optimizer.state_dict()
    gone.remove()
    optimizer.register_load_state_dict_pre_hook(lambda o, s: seen.append(sorted(s)))
    optimizer.register_load_state_dict_pre_hook(lambda o, s: {k: v for k, v in s.items() if k != "more"}, prepend=True)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(len(o.state)))
    optimizer.load_state_dict(state)
    seen.append(sorted(state))
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer.state_dict()))):
        seen.append(sorted(again.state_dict()) if hasattr(again, "state_dict") else sorted(again))
    return seen


def test_state_dicts():
    assert state_dicts(volta) == state_dicts(torch)


@pytest.mark.parametrize("name", ["ASGD", "Adadelta", "Adagrad", "Adamax", "RMSprop", "SGD", "Adam", "AdamW", "NAdam", "RAdam", "Rprop"])
def test_arguments_by_position(name):
    def by_position(library):
        return [p.name for p in inspect.signature(getattr(library.optim, name)).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_position(volta) == by_position(torch)
    kind = getattr(volta.optim, name)
    assert kind([parameter(volta)], foreach=True).defaults["foreach"] is True
    with pytest.raises(ArgumentError, match=f"{name}: differentiable=True is not supported"):
        kind([parameter(volta)], differentiable=True)


def printed(library):
    def of(**options):
        library.set_printoptions(**options)
        numbers = [library.tensor(values) for values in ([1.0, 2.5, float("nan")], [1e-9, 1e9], [1.0, 1e9])]
        return [repr(x) for x in (*numbers, *[library.arange(1500) / 3][:options.get("profile") != "full"])]
    try:
        return [of(sci_mode=True), of(sci_mode=False), of(profile="short"), of(profile="full"), of(profile="default", precision=2),
                of(profile="default")]
    finally:
        library.set_printoptions(profile="default")


def test_options_of_printing():
    assert printed(volta) == printed(torch)
    with pytest.raises(ArgumentError, match="set_printoptions: profile must be 'default', 'short' or 'full', got 'x'"):
        volta.set_printoptions(profile="x")


def test_lazy_instance_norm_has_the_defaults_of_lazy_norms():
    for library in (volta, torch):
        layer = library.nn.LazyInstanceNorm2d()
        layer(library.ones(2, 3, 4, 4))
        assert layer.affine and layer.track_running_stats and layer.num_features == 3 and layer.running_mean.shape == (3,)
