"""Ops on tensors larger than one binding: cut, and equal to the CPU's result.

Every record under a limit of 4 KiB, in a process of its own; a few at the true limit of a software adapter, 128 MiB.
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import volta
from volta._kernels import core
from volta.devices.gpu.limits import recurrent
from volta.errors import BindingLimitError, OutOfMemoryError
from volta.nn import functional as F
from volta.ops.table import RECORDS

pytestmark = pytest.mark.gpu
MEGA = 1 << 20


# Views move nothing, and transfers bind nothing.
COMPUTED = [name for name, op in RECORDS.items() if op.family not in ("view", "transfer") and not op.details.cpu_only]


@pytest.fixture(scope="module")
def small_bindings():
    """The process of tests/small_bindings.py, as a function: what it finds of a record."""
    here = pathlib.Path(__file__).parent
    path = os.pathsep.join(filter(None, (str(pathlib.Path(volta.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen([sys.executable, str(here / "small_bindings.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": path}) as process:
        def ask(name) -> list:
            print(name, file=process.stdin, flush=True)
            answer = process.stdout.readline()
            assert answer, "the process has ended; its last words are in what was written to stderr"
            return json.loads(answer)
        yield ask
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize("name", COMPUTED)
def test_every_record_under_a_small_limit(name, gpu, small_bindings):
    assert small_bindings(name) == []


@pytest.fixture
def limit(gpu):
    size = volta.gpu.context().limits["max-storage-buffer-binding-size"]
    if size > 128 * MEGA:
        pytest.skip(f"this adapter binds {size} bytes at once; the test's tensors are smaller")
    yield
    volta.gpu.empty_cache()


def data(*shape):
    """Cheap numbers that differ from place to place."""
    count = int(np.prod(shape))
    return ((np.arange(count, dtype=np.uint32) * np.uint32(2654435761) >> np.uint32(20)).astype(np.float32) / 4096 - 0.5).reshape(shape)


def both(function, *arrays, gradients=True):
    """The results of `function`, and the gradients of its inputs, agree between the devices."""
    found = []
    for place in ("cpu", "gpu"):
        inputs = [volta.tensor(a, device=place) for a in arrays]
        for t in inputs:
            t.requires_grad_(gradients and t.is_floating_point())
        out = function(*inputs)
        if gradients:
            (out * 0.5).sum().backward()
        found.append([out.detach().numpy()] + [t.grad.numpy() for t in inputs if t.grad is not None])
        del inputs, out
    for a, b in zip(*found):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(a).max()))


@pytest.mark.usefixtures("limit")
def test_linear():
    both(F.linear, data(70_000, 512), data(8, 512), data(8))


@pytest.mark.usefixtures("limit")
def test_linear_with_a_large_weight():
    both(F.linear, data(3, 512), data(70_000, 512), data(70_000), gradients=False)


@pytest.mark.usefixtures("limit")
def test_matmul_of_a_batch():
    both(volta.matmul, data(70, 1000, 512), data(512, 4), gradients=False)
    both(volta.matmul, data(3, 4, 100_000), data(3, 100_000, 120), gradients=False)


@pytest.mark.parametrize("function", [lambda x: F.max_pool2d(x, 2), lambda x: F.batch_norm(x, None, None, training=True)],
                         ids=["max_pool2d", "batch_norm"])
@pytest.mark.usefixtures("limit")
def test_images(function):
    both(function, data(3, 3, 2048, 1832))


@pytest.mark.usefixtures("limit")
def test_conv2d():
    both(lambda x, w: F.conv2d(x, w, stride=4), data(3, 3, 2048, 1832), data(2, 3, 3, 3))


@pytest.mark.usefixtures("limit")
def test_index_select():
    both(lambda x: x.index_select(0, volta.tensor([5, 0, 5, 69_999], device=x.device)), data(70_000, 512))


@pytest.mark.usefixtures("limit")
def test_random_numbers_continue():
    volta.manual_seed(3)
    a = volta.rand(34 * MEGA, device="cpu").numpy()
    volta.manual_seed(3)
    b = volta.rand(34 * MEGA, device="gpu").numpy()
    assert np.array_equal(a, b)
    volta.manual_seed(4)
    kept = volta.dropout(volta.ones(34 * MEGA, device="gpu"), 0.25).numpy()
    assert abs((kept == 0).mean() - 0.25) < 1e-3 and set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}


@pytest.mark.usefixtures("limit")
def test_adam():
    start, slope = data(34 * MEGA), data(34 * MEGA)[::-1].copy()
    found = []
    for place in ("cpu", "gpu"):
        p = volta.nn.Parameter(volta.tensor(start, device=place))
        p.grad = volta.tensor(slope, device=place)
        optimizer = volta.optim.Adam([p], lr=0.1)
        optimizer.step()
        optimizer.step()
        found.append(p.detach().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("limit")
def test_vector_at_indices():
    places = [5, 34 * MEGA - 1, 0, 33 * MEGA, 5]
    both(lambda x: x.gather(0, volta.tensor(places, device=x.device)), data(34 * MEGA))
    both(lambda x: x[volta.tensor(places, device=x.device)], data(34 * MEGA))


@pytest.mark.usefixtures("limit")
def test_write_into_a_vector_at_indices():
    x = volta.zeros(34 * MEGA, device="gpu")
    x[volta.tensor([3, 34 * MEGA - 1, 3], device="gpu")] = volta.tensor([1.0, 2.0, 3.0], device="gpu")
    found = x.numpy()
    assert found[3] == 3 and found[-1] == 2 and np.count_nonzero(found) == 2


@pytest.mark.parametrize("name", ["recurrent", "recurrent_grad"])
def test_a_recurrence_of_one_row_that_cannot_be_cut_is_refused(name, gpu):
    x, weight = volta.ones(1, 8, device="gpu"), volta.ones(8, 2, device="gpu")
    with pytest.raises(BindingLimitError, match=r"a slice of shape \(1, 8\) alone is larger than one binding"):
        getattr(recurrent, name)(None, x, weight, *[None] * (3 if name == "recurrent" else 4), mode="lstm", batch_sizes=(1,), reverse=False)


def test_a_software_adapter_has_the_memory_of_the_machine(gpu, monkeypatch):
    """What lives there is host memory: without a limit the system promises more of it than there is, and kills the process."""
    ctx = volta.gpu.context()
    if not ctx.info.is_software:
        pytest.skip("this adapter has memory of its own")
    assert core.memory_size() // 2 < ctx.pool.limit < core.memory_size()
    volta.gpu.empty_cache()
    room = volta.gpu.memory_stats().live + 64 * MEGA
    monkeypatch.setattr(core, "memory_size", lambda: room // 7 * 8)
    try:
        volta.gpu.set_memory_limit(None)
        held = volta.zeros(10 * MEGA, device="gpu")
        with pytest.raises(OutOfMemoryError, match="out of GPU memory"):
            volta.zeros(10 * MEGA, device="gpu")
        assert held.sum().item() == 0
    finally:
        monkeypatch.undo()
        volta.gpu.set_memory_limit(None)
