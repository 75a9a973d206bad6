"""The examples in docstrings run, and every public function and method says what it does."""
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
from pathlib import Path

import pytest

import volta

MODULES = sorted(m.name for m in pkgutil.walk_packages(volta.__path__, "volta.")
                 if not m.name.startswith(("volta._kernels", "volta.devices")))


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, extraglobs={"volta": volta, "nn": volta.nn}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


@pytest.mark.parametrize("module", ["volta", "volta.nn", "volta.nn.functional", "volta.nn.init", "volta.optim", "volta.data", "volta.gpu"])
def test_public_names_are_documented(module):
    found = importlib.import_module(module)
    bare = [n for n, f in vars(found).items() if not n.startswith("_") and (inspect.isfunction(f) or inspect.isclass(f)) and not f.__doc__]
    assert not bare


def test_tensor_methods_are_documented():
    assert not [n for n, f in vars(volta.Tensor).items() if not n.startswith("_") and inspect.isfunction(f) and not f.__doc__]


def test_the_type_stub_is_current():
    root = Path(volta.__file__).parent
    spec = importlib.util.spec_from_file_location("make_stub", Path(__file__).parents[1] / "docs" / "make_stub.py")
    make_stub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_stub)
    assert (root / "tensor.pyi").read_text(encoding="utf-8") == make_stub.stub(), "run python docs/make_stub.py"
