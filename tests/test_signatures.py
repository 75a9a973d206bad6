"""Every function and class that Volta shares with PyTorch takes PyTorch's arguments: names, order, defaults, and which are by name only."""
import importlib
import inspect
import pickle

import pytest

import volta
from volta.compat.modules import place

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
MODULES = """torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.nn.utils.parametrize
    torch.nn.utils.parametrizations torch.nn.utils.prune torch.nn.utils.fusion torch.nn.utils.stateless torch.nn.grad torch.optim
    torch.optim.lr_scheduler torch.optim.swa_utils torch.utils.data torch.utils.checkpoint torch.autograd torch.autograd.functional
    torch.autograd.graph torch.func torch.distributions torch.distributions.transforms torch.random torch.testing torch.amp
    torch.signal.windows torch.cuda torch.nn.attention.flex_attention torch.serialization torch.quasirandom torch.utils
    torch.utils.weak""".split()
# Where the arguments differ, and why.
ELSEWHERE = {
    "torch.cuda.Event": "events of another program's graphs",
    "torch.autograd.Function": "an object of it has no use in either", "torch.nn.parallel.DistributedDataParallel": "one process",
    "torch.nn.attention.flex_attention.BlockMask": "it is made by create_block_mask",
    "torch.nn.attention.flex_attention.create_block_mask": "how sparse kernels take blocks",
    "torch.random.fork_rng": "names that its own decorators pass", "torch.func.jacrev": "a private choice of how memory is taken",
    "torch.nn.Module": "takes none, and in PyTorch any where a class asks for that", "torch.serialization.load": "options of pickle",
    "torch.serialization.save": "a private option of the file's format"}


def shared():
    """By name: what PyTorch has and what Volta has, each once."""
    found = {}
    for name in MODULES:
        theirs, ours = importlib.import_module(name), importlib.import_module(place(name))
        for each in dir(theirs):
            value = getattr(theirs, each)
            if (each.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)) or not hasattr(ours, each)
                    or not (value.__module__ or "").startswith("torch") or f"{name}.{each}" in ELSEWHERE):
                continue
            found.setdefault(value, (f"{name}.{each}", getattr(ours, each)))
    return {name: (theirs, ours) for theirs, (name, ours) in found.items()}


SHARED = shared()


def parameters(function):
    try:
        return [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    except (TypeError, ValueError):             # in C, or an enumeration
        return None


def same_default(theirs, ours):
    if theirs is inspect.Parameter.empty or ours is inspect.Parameter.empty:
        return theirs is ours or theirs is inspect.Parameter.empty
    if callable(theirs) or isinstance(theirs, (torch.dtype, torch.layout, torch.Generator)) or theirs is pickle:
        return True                             # an object of the library
    return theirs == ours or (theirs, ours) in ((None, False), (True, None))


def difference(theirs, ours):
    """What a call of the one would find otherwise at the other; "" for nothing."""
    takes_any = {p.kind for p in ours if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    by_name = {p.name: p for p in ours}
    places = [p.name for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in theirs) and any(p.kind is p.VAR_KEYWORD for p in theirs):
        return ""                               # hidden behind *args, **kwargs
    for i, p in enumerate(q for q in theirs if q.kind not in (q.VAR_POSITIONAL, q.VAR_KEYWORD)):
        if p.name not in by_name:
            if inspect.Parameter.VAR_KEYWORD not in takes_any:
                return f"there is no {p.name}"
            if p.kind is not p.KEYWORD_ONLY and inspect.Parameter.VAR_POSITIONAL not in takes_any:
                return f"{p.name} is not taken by position"
        elif p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY) and (i >= len(places) or places[i] != p.name):
            return f"{p.name} is argument {i} in PyTorch, here the arguments are {', '.join(places)}"
        elif not same_default(p.default, by_name[p.name].default):
            return f"{p.name} is {p.default!r} in PyTorch, {by_name[p.name].default!r} here"
    names = {p.name for p in theirs}
    needed = [p.name for p in ours if p.name not in names and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return f"{needed[0]} is needed here, and not in PyTorch" if needed and not any(p.kind is p.VAR_POSITIONAL for p in theirs) else ""


def test_arguments(each):
    def check(name):
        theirs, ours = (parameters(function) for function in SHARED[name])
        if theirs is not None and getattr(SHARED[name][1], "has_out", False):
            theirs = [p for p in theirs if p.name != "out"]         # taken by every op that has it
        if theirs is None or ours is None:
            assert theirs is None or inspect.isclass(SHARED[name][1]), f"{name} shows no arguments"
            return
        text = difference(theirs, ours)
        assert not text, f"{name}: {text}"
    each(check, sorted(SHARED))


def test_what_is_compared():
    assert len(SHARED) > 500 and {"torch.nn.Linear", "torch.optim.SGD", "torch.nn.functional.cross_entropy"} <= set(SHARED)
    theirs, ours = parameters(lambda a, b=1, *, c=2: None), parameters(lambda a, c=2, *, b=1: None)
    assert difference(theirs, theirs) == "" and "b is argument 1" in difference(theirs, ours)
    assert "c is 2 in PyTorch, 3 here" in difference(theirs, parameters(lambda a, b=1, *, c=3: None))
    assert "there is no c" in difference(theirs, parameters(lambda a, b=1: None))
    assert "d is needed here" in difference(theirs, parameters(lambda a, b=1, *, c=2, d: None))
    assert volta.nn.Linear is SHARED["torch.nn.Linear"][1]
