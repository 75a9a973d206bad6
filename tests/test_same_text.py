"""Programs that are run twice, with PyTorch and with Volta as `T`, and give the same: values to rounding, and the kinds of their errors.

A file of `same_text/` has what its programs need, a line of dashes, and then a program a line: a name, a tab and an expression.
"""
import builtins
import importlib
import re
import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")

FILES = sorted((Path(__file__).parent / "same_text").glob("*.txt"))
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")


def _kinds(error):
    return [c.__name__ for c in type(error).__mro__ if getattr(builtins, c.__name__, None) is c]


def _run(package, path):
    """What each program of a file gives: the text of its result, or the kinds of its error."""
    T = importlib.import_module(package)
    for name in ("nn.utils.rnn", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.parametrizations", "func", "autograd.functional",
                 "autograd.graph", "nn.utils.stateless", "utils.data", "optim"):
        importlib.import_module(f"{package}.{name}")
    setup, _, programs = path.read_text(encoding="utf-8").partition("\n----\n")
    space, found = {"T": T, "nn": T.nn, "F": T.nn.functional, "name": package, "__name__": "program"}, {}
    exec(setup, space)
    for line in programs.splitlines():
        name, _, program = line.partition("\t")
        T.manual_seed(0)
        try:
            found[name] = re.sub(r" object at 0x\w+|\b(torch|volta)\.(?=\w)", "", repr(eval(program, space)))
        except Exception as error:
            found[name] = _kinds(error)
    return found


def _same(a, b):
    if isinstance(a, list) or isinstance(b, list):
        return isinstance(a, list) and isinstance(b, list) and a[0] in b
    x, y = (list(map(float, NUMBER.findall(text))) for text in (a, b))
    return NUMBER.sub("#", a) == NUMBER.sub("#", b) and x == pytest.approx(y, rel=2e-4, abs=2e-6)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_programs_give_the_same(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (_run(package, path) for package in ("torch", "volta"))
    assert len(theirs) > 50 and not [(name, theirs[name], ours[name]) for name in theirs if not _same(theirs[name], ours[name])]
