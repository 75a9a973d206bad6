"""A user's script has no error and no Any for type checkers, and it runs."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import volta

SCRIPT = Path(__file__).with_name("user_script.py")
UNKNOWN = re.compile(r"\b(Any|Unknown)\b")
FREE = {"volta.save"}           # takes what `save` can store, whatever that is


def _run(*command, cwd):
    environment = {**os.environ, "MYPYPATH": "", "PYTHONPATH": str(Path(volta.__file__).parents[1])}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)


def _typed(expressions, types):
    """The expressions of which a checker knows too little."""
    return [e for e, t in zip(expressions, types, strict=True) if UNKNOWN.search(t) and e not in FREE]


EXPRESSIONS = [line.strip()[len("reveal_type("):-1] for line in SCRIPT.read_text(encoding="utf-8").splitlines()
               if line.strip().startswith("reveal_type(")]


def test_mypy(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: pip install .[test]")
    shutil.copy(SCRIPT, tmp_path)
    found = _run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), SCRIPT.name, cwd=tmp_path)
    types = re.findall(r'note: Revealed type is "(.*)"', found.stdout)
    assert found.returncode == 0 and " error: " not in found.stdout, found.stdout + found.stderr
    assert not _typed(EXPRESSIONS, types)


def test_pyright(tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed: pip install .[test]")
    shutil.copy(SCRIPT, tmp_path)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(Path(volta.__file__).parents[1])]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    found = _run(sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, cwd=tmp_path)
    report = json.loads(found.stdout)["generalDiagnostics"]
    assert not [d["message"] for d in report if d["severity"] != "information"]
    types = [d["message"].rpartition("\" is ")[2] for d in report]
    assert not _typed(EXPRESSIONS, types)


def test_the_script_runs():
    found = _run(sys.executable, str(SCRIPT), cwd=SCRIPT.parent)
    assert found.returncode == 0, found.stderr
    assert "epoch 1: loss" in found.stdout


@pytest.mark.parametrize("stub", ["__init__.pyi", "tensor.pyi", "nn/functional/__init__.pyi"])
def test_stubs_leave_no_argument_open(stub):
    """Any stands only where NumPy or Python says so."""
    text = (Path(volta.__file__).parent / stub).read_text(encoding="utf-8")
    open_lines = [line.strip() for line in text.replace("np.ndarray[Any, Any]", "").splitlines()
                  if UNKNOWN.search(line) and not line.startswith("from typing")]
    assert {line.split("(")[0] for line in open_lines} <= {"def __array__", "def __deepcopy__", "def tolist"}
    assert "options:" not in text.replace("options: builtins.object = None", "")        # of linear_cross_entropy
