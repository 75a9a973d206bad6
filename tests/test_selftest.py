"""`python -m volta selftest`: that it finds nothing here, and that it would."""
import os
import subprocess
import sys

import pytest

import volta
from volta import selftest
from volta.ops.table import RECORDS
from volta.selftest import run


def test_some_ops_whole(device):
    outcomes = selftest.selftest([device], ops=["hypot", "where", "softmax", "special.bessel_j0"])
    assert [f for o in outcomes for f in o.failures] == []
    assert sum(o.checks for o in outcomes) > 40 and 0 < max(o.worst for o in outcomes) <= 1


def test_a_wrong_kernel_is_reported(monkeypatch):
    record = RECORDS["tanh"]
    right = record.cpu

    def wrong(x):
        out = right(x)
        return right(out) if x.dtype is volta.float64 else out
    monkeypatch.setattr(record, "cpu", wrong)
    outcomes = selftest.selftest(["cpu"], quick=True, ops=["tanh", "exp"])
    text = run.report(outcomes, ["cpu"], 1.0)
    assert {o.op for o in outcomes if o.failures} == {"tanh"}
    assert "for a bug report" in text and "tanh on cpu: values, float64, sample" in text and f"volta {volta.__version__}" in text


def test_the_command():
    call = [sys.executable, "-m", "volta", "selftest", "--device", "cpu", "--quick", "--op", "exp", "--op", "sum"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "none failed" in done.stdout and "CPU kernels" in done.stdout and "3/3" in done.stderr
    assert subprocess.run([sys.executable, "-m", "volta"], capture_output=True).returncode == 2
    with pytest.raises(volta.errors.ArgumentError, match="selftest: there is no op 'nothing'"):
        selftest.selftest(["cpu"], ops=["nothing"])


def test_what_the_machine_is():
    call = [sys.executable, "-m", "volta", "info"]
    done = subprocess.run(call, capture_output=True, text=True, env=os.environ | {"VOLTA_ADAPTER": "no such adapter"})
    assert done.returncode == 0, done.stderr
    assert f"volta {volta.__version__}" in done.stdout and "GPU: none can be used: no adapter fits VOLTA_ADAPTER" in done.stdout
    assert subprocess.run([*call, "more"], capture_output=True).returncode == 2


def test_status_of_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(run.checks, "forward", lambda *args: run.table.need(False, "planted"))
    assert selftest.main(["--device", "cpu", "--quick", "--op", "exp"]) == 1
    assert "AssertionError: planted" in capsys.readouterr().out


def test_large_tensors_are_compared_everywhere(monkeypatch):
    record, right = RECORDS["neg"], RECORDS["neg"].cpu

    def wrong(x):
        out = right(x)
        if out._size > 1 << 24:
            out[-1] = 7.0
        return out
    monkeypatch.setattr(record, "cpu", wrong)
    outcome, = selftest.selftest(["cpu"], ops=["neg"])
    assert [f.check for f in outcome.failures] == [f"{run.checks.LARGE} elements, float32"]
