"""Fixtures of all tests: the device they run on, fixed seeds, the strict device rule, and a check of the GPU after each."""
from __future__ import annotations

import itertools
import os
import zlib

import gpu_runtime
import hypothesis
import numpy as np
import pytest

import volta
import volta.nn  # declares the functions of networks, which tests of the whole op table need
import volta.testing
from volta._kernels.core import threads
from volta.gpu import shaders

hypothesis.settings.register_profile(
    "volta", derandomize=True, max_examples=40, deadline=None, database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture])
hypothesis.settings.load_profile("volta")
threads.assume_processors(64)           # what is said of 7 threads is tried with 7, whatever the machine has


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU; skipped without one, unless VOLTA_REQUIRE_GPU=1")


def op_of(item) -> str:
    """The name of the op under test, "" where it is none of the op table."""
    given = getattr(item, "callspec", None)
    return str(getattr(given.params.get("op"), "name", "")) if given else ""


def pytest_collection_modifyitems(config, items):
    """What only the CPU computes is not asked of a GPU, but by test_parity.py: that it says so. Tests of one op stand together: of two
    processes, which take tests in stretches, one makes its GPU pipelines then, and not both."""
    def asked(item):
        given = getattr(item, "callspec", None) and item.callspec.params
        return given and given.get("device") == "gpu" and getattr(getattr(given.get("op"), "details", None), "cpu_only", False)
    left_out = [item for item in items if asked(item)]
    items[:] = sorted((item for item in items if not asked(item)), key=op_of)
    config.hook.pytest_deselected(items=left_out)


def require_gpu() -> None:
    """Go on where a GPU is usable; else skip with the reason, or fail where VOLTA_REQUIRE_GPU=1 forbids skipping."""
    if volta.gpu.is_available():
        return
    reason = f"no usable GPU: {volta.gpu.unavailable_reason()}"
    if os.environ.get("VOLTA_REQUIRE_GPU") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_runtest_setup(item):
    """The marker is enough: a test of a GPU that asks for no fixture would else run on the CPU where there is none."""
    if item.get_closest_marker("gpu"):
        require_gpu()


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request) -> str:
    """Name of the device under test."""
    if request.param == "gpu":
        request.getfixturevalue("gpu")
    return request.param


@pytest.fixture
def gpu() -> str:
    """The GPU, for a test that needs one. Afterwards everything recorded must have run without an error."""
    require_gpu()
    yield "gpu"
    volta.gpu.synchronize()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The small shaders of tests/gpu_runtime.py as files."""
    path = tmp_path_factory.mktemp("shaders")
    for name, text in gpu_runtime.SHADERS.items():
        (path / f"{name}.wgsl").write_text(text)
    return path


@pytest.fixture
def ctx(folder, monkeypatch):
    """The GPU's context, which finds the small shaders too."""
    require_gpu()
    monkeypatch.setattr(shaders, "FOLDERS", (*shaders.FOLDERS, folder))
    return volta.gpu.context()


def begin(text, rng=None) -> None:
    """Random numbers start from a text: Volta's, NumPy's, and those of a test's generator."""
    seed = zlib.crc32(text.encode())
    volta.manual_seed(seed)
    np.random.seed(seed)
    if rng is not None:
        rng.bit_generator.state = np.random.PCG64(seed).state


@pytest.fixture(autouse=True)
def strict(request):
    """Mixed devices are errors, the default dtype is float32, and random numbers start from the test's name."""
    previous = volta.set_mixed_device("error")
    begin(request.node.nodeid)
    yield
    volta.set_default_dtype(volta.float32)
    volta.set_mixed_device(previous)
    assert volta.is_grad_enabled(), "the test left recording switched off"


@pytest.fixture
def rng(request) -> np.random.Generator:
    """NumPy's generator, seeded by the test's name."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def each(request, rng):
    """`each(check, *lists)` calls `check` with every combination of what the lists hold, as a test of its own would: random numbers
    start anew, the GPU is looked at after it, and the others run on where one fails. The error names those that failed, and says why
    each did. Thousands of tests of one small check each took as long to begin and to report as to run."""
    def run(check, *lists):
        failed = {}
        for given in itertools.product(*map(enumerate, lists)):
            begin("-".join([request.node.nodeid, *(str(i) for i, _ in given)]), rng)
            try:
                check(*(value for _, value in given))
                volta.gpu.synchronize()
            except (Exception, pytest.fail.Exception) as error:
                name = ", ".join(f"{i}: {value}" for i, value in given)
                error.add_note(f"of {name}")
                failed[name] = error
        if failed:
            raise BaseExceptionGroup(f"{request.node.name} fails of {'; '.join(failed)}", list(failed.values()))
    return run
