"""Both devices have every op, and the GPU's really run there."""
import sys

import pytest

import volta
from volta.devices import cpu as cpu_backend
from volta.ops.table import RECORDS, Case, Flags, Labels, missing_kernels
from volta.selftest import cases as table
from volta.selftest import checks

# They move or reserve bytes without a kernel.
WITHOUT_DISPATCH = {"empty", "scale_gradient", "uncounted"}


def holds_elements(case: Case) -> bool:
    """Whether no input of the case is empty."""
    shapes = [s if isinstance(s, tuple) else s.shape for s in case.inputs if isinstance(s, (tuple, Labels, Flags))]
    return all(0 not in s for s in shapes) and not (case.inputs and case.inputs[-1] == 0 and not shapes)


def test_every_record_has_every_kernel(gpu):
    volta.device(gpu)
    cpu_backend.load()
    assert missing_kernels() == []


def test_every_kernel_belongs_to_a_record(gpu):
    from volta.devices.gpu import kernels as gpu_backend
    cpu_backend.load()
    for backend in (cpu_backend, gpu_backend):
        assert set(backend.KERNELS) - set(RECORDS) == set(), backend.__name__


def test_the_family_of_a_kernel_is_found_without_the_others():
    """By its first call, which else loads all of them."""
    cpu_backend.load()
    for name in set(cpu_backend.KERNELS) - {each for module in cpu_backend._FIRST for each in module.KERNELS}:
        family = RECORDS[name].family
        rooms = [sys.modules.get(f"volta._kernels.cpu.{room}") for room in (family, *cpu_backend._ROOMS.get(family, ()))]
        assert any(name in getattr(room, "KERNELS", {}) for room in rooms), f"enter the module of {name} under {family!r} in _ROOMS"


def test_backends_have_the_same_kernels(gpu):
    from volta.devices import cpu as cpu_backend
    from volta.devices.gpu import kernels as gpu_backend
    assert set(cpu_backend.KERNELS) - set(gpu_backend.KERNELS) == {name for name, op in RECORDS.items() if op.details.cpu_only}
    assert set(gpu_backend.KERNELS) <= set(cpu_backend.KERNELS)


@pytest.mark.parametrize("op", [op for op in (*table.records(), *table.composed()) if op.details.cpu_only], ids=lambda op: op.name)
def test_what_only_the_cpu_computes_says_so(op, gpu, rng):
    """On a GPU it raises and copies nothing."""
    case = op.details.cases[0]
    tensors = table.to_device(table.sample(op, case, rng, volta.float32), gpu)
    with volta.gpu.forbid_transfers(), pytest.raises(volta.errors.DeviceError, match=r"on the CPU alone; .*\.cpu\(\)"):
        op(*tensors, **case.params)


@pytest.mark.parametrize("op", [op for op in table.records(creation=True, in_place=True)
                                if op.family != "view" and not op.details.cpu_only], ids=lambda op: op.name)
def test_runs_on_the_gpu(op, gpu, rng):
    """No bytes cross while the op runs, and dispatches are recorded: it cannot have been computed on the host."""
    dtype = volta.float32 if "f" in op.details.kinds else volta.int32
    ran = 0
    for case in op.details.cases:
        arrays = table.sample(op, case, rng, dtype)
        if not holds_elements(case):
            continue
        tensors = table.to_device(arrays, gpu)
        before = volta.gpu.stats()
        with volta.gpu.forbid_transfers():
            results = table.run(op, tensors, case.params, gpu, dtype)
        done = volta.gpu.stats() - before
        assert (done.uploads, done.downloads) == (0, 0)
        assert done.dispatches > 0 or op.name in WITHOUT_DISPATCH
        assert all(t.device.is_gpu for t in table.flat(results) if isinstance(t, volta.Tensor))
        ran += 1
    assert ran > 0


@pytest.mark.parametrize("op", [op for op in table.composed() if not (op.details.reads or op.details.cpu_only)], ids=lambda op: op.name)
def test_composed_runs_on_the_gpu(op, gpu, rng):
    """Forward and backward of a function of other ops: no bytes cross."""
    for case in op.details.cases:
        if checks.fits(case, gpu):
            checks.no_transfers(op, case, gpu, rng)


VIEWS = [op for op in RECORDS.values() if op.family == "view" and op.name != "transfer"]
VIEWS += [op for op in table.composed() if op.details.view]


@pytest.mark.parametrize("op", VIEWS, ids=lambda op: f"{table.family(op)}-{op.name}")
def test_views_share_the_storage(op, device, rng):
    for case in op.details.cases:
        checks.shares_storage(op, case, device, rng)


def test_backward_runs_on_the_gpu(gpu):
    """A whole step of a small network: forward, loss, backward, update. Nothing crosses after the data is there."""
    x, labels = volta.randn(8, 3, 6, 6, device=gpu), volta.randint(0, 5, (8,), device=gpu)
    model = volta.nn.Sequential(volta.nn.Conv2d(3, 4, 3, padding=1, device=gpu), volta.nn.BatchNorm2d(4, device=gpu),
                                volta.nn.ReLU(),
                                volta.nn.MaxPool2d(2), volta.nn.Flatten(), volta.nn.Dropout(0.1),
                                volta.nn.Linear(36, 5, device=gpu))
    optimizer = volta.optim.Adam(model.parameters(), lr=1e-2)
    before = [p.detach().numpy().copy() for p in model.parameters()]
    with volta.gpu.forbid_transfers():
        for _ in range(2):
            optimizer.zero_grad()
            volta.nn.functional.cross_entropy(model(x), labels).backward()
            optimizer.step()
    assert all((b != p.detach().numpy()).any() for b, p in zip(before, model.parameters()))
