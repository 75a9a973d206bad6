"""The examples in docstrings run, every public name says what it does, and what docs/make.py writes is current."""
import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from volta._kernels.core.inplace import InPlace

import volta
from volta import errors
from volta._kernels.core.record import Composed, Op
from volta.ops.table import FUNCTIONS, PLACES, RECORDS, ROOMS

MODULES = sorted(m.name for m in pkgutil.walk_packages(volta.__path__, "volta.")
                 if not m.name.startswith(("volta._kernels", "volta.devices")))
PUBLIC = ["volta", "volta.autograd", "volta.data", "volta.gpu", "volta.io", "volta.linalg", "volta.nn", "volta.nn.functional",
          "volta.nn.init", "volta.nn.utils", "volta.optim", "volta.optim.lr_scheduler", "volta.random", "volta.special",
          "volta.testing"]
# What users reach; the rest of the table is for other functions to use.
OPS = [name for name, op in FUNCTIONS.items() if name == op.name and (
    PLACES[name].function or PLACES[name].method or name.startswith(("functional.", *ROOMS)) or hasattr(volta.nn.functional, name)
    and getattr(volta.nn.functional, name) is op)]
NAMES = {"volta": volta, "nn": volta.nn, "F": volta.nn.functional}


DOCS = Path(__file__).parents[1] / "docs"


def _program(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def make():
    return _program("make")


def test_examples(each):
    def check(name):
        failed, _ = doctest.testmod(importlib.import_module(name), extraglobs=NAMES, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert not failed
    each(check, MODULES)


def test_examples_of_ops(each):
    """doctest looks for functions and classes; ops are neither."""
    def check(name):
        op = FUNCTIONS[name]
        example = doctest.DocTestParser().get_doctest(inspect.cleandoc(op.__doc__), dict(NAMES), name, None, None)
        assert example.examples, f"{name} shows no example"
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(example)
        assert not runner.failures
    each(check, OPS)


def test_ops_say_what_they_raise(each):
    """Each kind of error that a function's own body raises, or what it is a kind of; the functions that it calls are not looked into."""
    def check(name):
        body = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(FUNCTIONS[name].function))))
        for node in ast.walk(body):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                kinds = getattr(errors, ast.unparse(node.exc.func), TypeError).__mro__
                told = {kind.__name__ for kind in kinds if issubclass(kind, errors.VoltaError)} - {"VoltaError"}
                assert any(kind in FUNCTIONS[name].__doc__ for kind in told or {kinds[0].__name__}), ast.unparse(node)
    each(check, [name for name in OPS if isinstance(FUNCTIONS[name], Composed)])


def test_help_is_not_indented(each):
    """Also where a text is put before that of another function."""
    def check(op):
        assert op.__doc__ == inspect.cleandoc(op.__doc__)
    each(check, [*(FUNCTIONS[name] for name in OPS), *(op for op in vars(volta.Tensor).values() if isinstance(op, InPlace))])


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
    plain = (str, volta.dtype, type(None))
    assert not [n for n in public if not isinstance(getattr(module, n), plain) and not getattr(module, n).__doc__]
    assert isinstance(public, list) and all(hasattr(module, n) for n in public)


def test_tensor_methods_are_documented():
    assert not [n for n, f in vars(volta.Tensor).items()
                if not n.startswith("_") and (inspect.isfunction(f) or isinstance(f, (Op, property))) and not f.__doc__]


def test_star_import_gives_the_public_names():
    space = {}
    exec("from volta import *", space)
    assert {"exp", "Tensor", "nn", "float32", "no_grad", "save", "where"} <= space.keys()
    assert not {"np", "annotations", "FUNCTIONS", "methods", "shapes"} & space.keys()


def test_the_type_stubs_are_current(make):
    for path, text in make.stubs().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not current: run python docs/make.py"


def test_the_table_of_names_is_current():
    torch = pytest.importorskip("torch")
    text = (DOCS / "coverage.md").read_text(encoding="utf-8")
    if f"with PyTorch {torch.__version__.partition('+')[0]}." not in text:
        pytest.skip("another PyTorch has other names")
    assert _program("coverage").text() == text, "coverage.md is not current: run python docs/coverage.py --write"


def test_the_programs_of_the_readme_run(device):
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    space = {"x": volta.randn(130, 784), "y": volta.randint(0, 10, (130,)), "volta": volta, "np": np}
    RECORDS.pop("swish", None)                  # which the example of `volta.kernel` makes, too
    for program in programs:
        exec(program.replace('"gpu"', f'"{device}"'), space)
    del RECORDS["swish"]
    assert len(programs) == 2 and space["loss"].device == volta.device(device) and space["loss"].item() > 0


def test_the_reference_has_every_op(make):
    text = make.reference()
    assert not [name for name in OPS if f"### {name}\n" not in text]


def test_the_map_names_what_there_is():
    """ARCHITECTURE.md: files that it names exist, and every header of the CPU's kernels is in its table."""
    top = Path(__file__).parents[1]
    text = (top / "ARCHITECTURE.md").read_text(encoding="utf-8")
    there = {path.name for path in top.rglob("*.*")} | {"x.py", "x.pyx"}            # x stands for any family
    named = {name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"(?<![*\w])\w+\.(?:py|pyx|pxd|wgsl)\b", code)}
    assert len(named) > 100 and not named - there, f"there are no files {sorted(named - there)}"
    headers = {path.stem for path in (top / "volta/_kernels/cpu").glob("*.pxd") if not list(path.parent.glob(path.stem + ".pyx*"))}
    missing = headers - set(re.findall(r"`(\w+)`", text))
    assert headers and not missing, f"enter these in the table of CPU kernels: {sorted(missing)}"
