"""The call point: observers see every kernel in order, `adapt` changes inputs before recording, versions follow from `writes`, and
kernels are chosen in one place."""
import pathlib
import re
import threading

import numpy as np
import pytest

import volta
from volta._kernels.core.call import Observer, run_kernel
from volta.ops.table import RECORDS
from volta.selftest import cases as table

PACKAGE = pathlib.Path(volta.__file__).parent


class Tape(Observer):
    """Names of the kernels called, and their devices."""

    def __init__(self):
        self.calls, self.ended = [], []

    def before(self, op, device, inputs, params, out):
        self.calls.append(op.name)
        assert isinstance(inputs, tuple) and (params is None or isinstance(params, dict))
        self.device = device
        for x in table.flat(inputs):
            assert not isinstance(x, volta.Tensor) or op.name in table.APART or x.device is device

    def after(self, op, device, inputs, params, out, result):
        self.ended.append(op.name)
        for t in table.flat([result]) if out is None else [out]:
            assert not isinstance(t, volta.Tensor) or op.name in table.APART or t.device is device


# ---------------------------------------------------------------- what is seen
def test_forward_and_backward_in_order(device):
    x = volta.tensor([1.0, 2.0], device=device, requires_grad=True)
    with Tape() as tape:
        y = (x.exp() * x).sum()
    assert tape.calls == ["exp", "mul", "sum"] == tape.ended and tape.device is x.device
    seed = volta.ones((), device=device)
    with Tape() as tape:
        y.backward(seed)
    assert tape.calls == ["reshape", "expand", "mul", "mul", "mul", "add"] == tape.ended, "g of sum, of mul to both, of exp, and their sum"
    x.exp()
    assert len(tape.calls) == 6, "it has left"


def test_operators_methods_and_functions(device):
    a, b = volta.ones(2, 2, device=device), volta.ones(2, 2, device=device)
    for call, name in ((lambda: a + b, "add"), (lambda: 2 * a, "mul"), (lambda: a - 1, "sub"), (lambda: 1 / a, "div"),
                       (lambda: a @ b, "matmul"), (lambda: a.exp(), "exp"), (lambda: volta.exp(a), "exp"), (lambda: a == b, "eq"),
                       (lambda: a.t(), "permute"), (lambda: a[0], "slice"), (lambda: a.reshape(4), "reshape"),
                       (lambda: volta.softmax(a, 1), "softmax")):
        with Tape() as tape:
            call()
        assert tape.calls == [name]


def test_in_place(device):
    x = volta.ones(3, device=device)
    with Tape() as tape:
        x.add_(1.0)
        x.mul_(x)
        x += 2
        x.fill_(0.0)
        x[1] = 5.0
        x.copy_(volta.ones(3, device=device))
    names = [name for name in tape.calls if name not in ("slice", "full", "expand")]
    assert names[:3] == ["add", "mul", "add"] and set(names[3:]) <= {"fill_into", "copy_into", "index_put"} and len(names) == 6
    outs = []

    class Outs(Observer):
        def before(self, op, device, inputs, params, out):
            outs.append(out)

    with Outs():
        x.add_(1.0)
        x + 1
    assert outs[0] is x and outs[1] is None


def test_creation_and_transfers(gpu):
    with Tape() as tape:
        volta.zeros(3, device=gpu)
        volta.empty(3, device=gpu)
        volta.arange(3, device=gpu)
        volta.rand(3, device=gpu)
        volta.randn(3, device=gpu)
    assert tape.calls == ["full", "empty", "arange", "uniform", "normal"] and tape.device.is_gpu
    with Tape() as tape:
        x = volta.tensor([1.0, 2.0], device=gpu)
    assert tape.calls == ["upload"]
    with Tape() as tape:
        x.cpu()
        volta.ones(2).to(gpu)
    assert tape.calls == ["transfer", "download", "full", "transfer", "upload"]
    with Tape() as tape:
        x.tolist()
    assert tape.calls[-1] == "download"


@pytest.mark.parametrize("make", [lambda p: volta.optim.SGD(p, lr=0.1), lambda p: volta.optim.SGD(p, lr=0.1, momentum=0.9),
                                  lambda p: volta.optim.Adam(p, lr=0.1)], ids=["SGD", "momentum", "Adam"])
def test_optimizer_step(make, device):
    parameters = [volta.nn.Parameter(volta.ones(n, device=device)) for n in (3, 5)]
    optimizer = make(parameters)
    for p in parameters:
        p.grad = volta.ones(p.shape, device=device)
    optimizer.step()
    versions = [p.storage.version for p in parameters]
    with Tape() as tape:
        optimizer.step()
    updates = [name for name in tape.calls if RECORDS[name].family == "update"]
    assert updates and tape.calls == tape.ended and len(updates) == len(tape.calls)
    assert [p.storage.version for p in parameters] == [v + 1 for v in versions]


def test_float16_is_one_call(device):
    """Where a kernel has no float16 the widening happens inside the call: observers see the op alone."""
    if not table.has_dtype(device, volta.float16):
        pytest.skip("the adapter has no float16")
    x = volta.ones(4, 4, dtype=volta.float16, device=device)
    with Tape() as tape:
        x @ x
    assert tape.calls == ["matmul"]


def test_nested_observers_and_threads(device):
    order = []

    class Named(Observer):
        def __init__(self, name):
            self.name = name

        def before(self, op, *rest):
            order.append(f"{self.name} before {op.name}")

        def after(self, op, *rest):
            order.append(f"{self.name} after {op.name}")

    x = volta.ones(2, device=device)
    with Named("outer"), Named("inner"):
        x.exp()
    assert order == ["outer before exp", "inner before exp", "inner after exp", "outer after exp"]
    with Tape() as tape:
        thread = threading.Thread(target=lambda: x.exp())
        thread.start()
        thread.join()
    assert tape.calls == ["exp"]


def test_an_observer_that_raises_ends_the_call(device):
    class Broken(Observer):
        def before(self, op, *rest):
            raise RuntimeError("no")

    x = volta.ones(2, device=device)
    version = x.storage.version
    with pytest.raises(RuntimeError), Broken():
        x.add_(1.0)
    assert x.storage.version == version and x.tolist() == [1.0, 1.0]
    assert (x + 1).tolist() == [2.0, 2.0]


# ---------------------------------------------------------------- adapt
class Autocast(Observer):
    """Products in float16: a toy."""

    def adapt(self, op, inputs):
        if op.name not in ("matmul", "linear"):
            return inputs
        return [x.to(volta.float16) if isinstance(x, volta.Tensor) and x.dtype is volta.float32 else x for x in inputs]


def test_adapted_inputs_are_recorded(device):
    if not table.has_dtype(device, volta.float16):
        pytest.skip("the adapter has no float16")
    a = volta.tensor([[1.0, 2.0], [3.0, 1 / 3]], device=device, requires_grad=True)
    b = volta.tensor([[1.0, 0.5], [0.25, 1.0]], device=device, requires_grad=True)
    with Autocast():
        out = a @ b
    assert out.dtype is volta.float16 and (a + b).dtype is volta.float32
    out.float().sum().backward()
    for x, other in ((a, b.detach().numpy().sum(1)[None].repeat(2, 0)), (b, a.detach().numpy().sum(0)[:, None].repeat(2, 1))):
        assert x.grad.dtype is volta.float32 and x.grad.device is x.device
        np.testing.assert_allclose(x.grad.numpy(), other, rtol=2e-3)
    with Autocast():
        y = volta.nn.functional.linear(a, b)
        y.float().sum().backward()
    assert y.dtype is volta.float16 and a.grad.dtype is volta.float32


# ---------------------------------------------------------------- versions
@pytest.mark.parametrize("op", table.records(in_place=True), ids=lambda op: op.name)
def test_versions_follow_from_writes(op, device, rng):
    """The storage of what an op writes is one version on; of everything else, that of before."""
    for case in op.details.cases:
        tensors = table.to_device(table.sample(op, case, rng, table.kind_of(op)), device)
        written = {id(t) for i in op.writes for t in table.flat([tensors[i]]) if isinstance(t, volta.Tensor)}
        before = [(t, t.storage.version) for t in table.flat(tensors) if isinstance(t, volta.Tensor)]
        assert bool(written) or table.family(op) not in table.IN_PLACE or not before
        run_kernel(op, volta.device(device), tuple(tensors), case.params)
        for t, version in before:
            assert t.storage.version - version == (1 if id(t) in written else 0), f"{op.name}: version of {t.shape}"


# ---------------------------------------------------------------- one place
CHOICES = re.compile(r"\.gpu if\b|\.cpu if\b|\bop\.(?:gpu|cpu)\b|\]\.(?:gpu|cpu)\b|getattr\(op, device")
ALLOWED = {"_kernels/core/call.pxd", "ops/table.py"}


def test_kernels_are_chosen_in_one_place():
    found = []
    for path in sorted(p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".pyx", ".pxi", ".pxd")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in ALLOWED and not name.startswith("devices/"):
            found += [f"{name}:{i}: {line.strip()}" for i, line in enumerate(path.read_text().splitlines(), 1) if CHOICES.search(line)]
    assert found == []
