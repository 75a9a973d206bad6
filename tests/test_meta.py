"""The device "meta": shapes and dtypes of every op are those of the CPU, modules get memory, reading is refused."""
import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import DeviceError
from volta.selftest import cases as table
from volta.trees import flatten

OPS = table.records(creation=True) + table.composed()
# What depends on values, is computed by LAPACK alone, or has no rule: refused by name.
REFUSED = set("""allclose argwhere bincount bucketize changes cholesky_inverse counts eigh equal geqrf histc histogram histogramdd
    householder_product ldl ldl_solve least linalg.cond linalg.eigh linalg.eigvalsh linalg.ldl_factor linalg.ldl_factor_ex
    linalg.ldl_solve linalg.lstsq linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_rank linalg.qr
    linalg.svd linalg.svdvals lu lu_solve lu_unpack masked_select nonzero nuclear_norm orgqr ormqr
    pca_lowrank qr reflected reflections repeat_interleave svd svd_lowrank triangular_solve true_places true_starts true_values
    unique unique_consecutive""".split())


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_shapes_and_dtypes_are_those_of_the_cpu(op, rng):
    kinds = op.details.kinds
    dtype = volta.float32 if "f" in kinds else volta.int64 if "i" in kinds else volta.bool
    for case in op.details.cases[:4]:
        arrays = table.sample(op, case, rng, dtype)
        host = table.to_device(table.as_precision(arrays, dtype) if dtype is volta.float32 else arrays, "cpu")
        leaves, build = flatten(host)
        there = build([x.to("meta") if isinstance(x, volta.Tensor) else x for x in leaves])
        try:
            found = flatten(table.run(op, there, case.params, "meta", dtype))[0]
        except DeviceError:
            assert op.name in REFUSED
            continue
        wanted = [x for x in flatten(table.run(op, host, case.params, "cpu", dtype))[0] if isinstance(x, volta.Tensor)]
        found = [x for x in found if isinstance(x, volta.Tensor)]
        assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]
        assert all(x.is_meta and x.device.type == "meta" for x in found)


def test_tensors_without_data():
    x = volta.empty(3, 4, device="meta")
    assert x.is_meta and not x.is_cuda and not x.is_gpu and not x.is_cpu and x.device == volta.device("meta")
    assert repr(x) == "tensor(..., device='meta', size=(3, 4))" and repr(x.device) == "device(type='meta')" and str(x.device) == "meta"
    assert repr(x.long()) == "tensor(..., device='meta', size=(3, 4), dtype=volta.int64)"
    assert x.t().stride() == (1, 4) and x[1:, ::2].shape == (2, 2) and (x.t() * 2).stride() == (1, 4)
    assert volta.ones(2, dtype=volta.float64, device="meta").dtype is volta.float64
    assert volta.tensor([1, 2], device="meta").dtype is volta.int64 and volta.ones(2).to("meta").is_meta
    assert x.add_(1).mul_(2) is x and x.zero_().shape == (3, 4)
    x[0] = 5.0
    assert (x[None] + volta.tensor(2.0)).shape == (1, 3, 4)             # a number on the CPU


@pytest.mark.parametrize("call", [
    lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: x.numpy(), lambda x: x.cpu(), lambda x: x.to("cpu"),
    lambda x: bool(x.sum() > 0), lambda x: volta.ones(2, 2).copy_(x), lambda x: nn.Linear(2, 2, device="meta").to("cpu")])
def test_values_cannot_be_read(call):
    with pytest.raises(DeviceError, match=r"meta: tensors without data cannot be copied or read; Module.to_empty\(\)"):
        volta.set_mixed_device("warn")
        try:
            call(volta.empty(2, 2, device="meta"))
        finally:
            volta.set_mixed_device("error")


def test_what_depends_on_values_is_refused_by_name():
    with pytest.raises(DeviceError, match=r"true_starts: there is no rule for tensors without data \('meta'\)"):
        volta.empty(2, device="meta").nonzero()


def _network():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5),
                         nn.Linear(36, 8), nn.LayerNorm(8), nn.Unflatten(1, (2, 4)), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True))


def test_networks_run_and_go_back():
    with volta.device("meta"):
        net, x = _network(), volta.randn(3, 1, 8, 8)
    assert all(t.is_meta for t in net.state_dict().values())
    out = net(x)
    assert out.shape == (3, 2, 4) and out.is_meta
    out.pow(2).mean().backward()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in net.parameters())
    optimizer = volta.optim.Adam(net.parameters())
    optimizer.step()
    lstm = nn.LSTM(3, 4, 2, bidirectional=True, device="meta")
    assert [t.shape for t in flatten(lstm(volta.empty(5, 2, 3, device="meta")))[0]] == [(5, 2, 8), (4, 2, 4), (4, 2, 4)]


def test_made_there_and_loaded(device):
    volta.manual_seed(3)
    before = volta.get_rng_state().tolist()
    with volta.device("meta"):
        net, other = _network(), _network()
    assert volta.get_rng_state().tolist() == before                     # nothing was drawn
    given = _network().to(device).state_dict()
    net.to_empty(device=device)
    net.load_state_dict(given)
    with pytest.warns(UserWarning, match=r"load_state_dict: 0.weight has no data \('meta'\), so copying into it does nothing; pass assign"):
        other.load_state_dict(given)
    assert other[0].weight.is_meta
    parameter = other[0].weight
    other.load_state_dict(given, assign=True)
    assert other[0].weight is parameter and parameter.requires_grad and not any(t.is_meta for t in other.state_dict().values())
    x = volta.randn(2, 1, 8, 8, device=device)
    np.testing.assert_array_equal(net.eval()(x).detach().cpu().numpy(), other.eval()(x).detach().cpu().numpy())


def test_to_empty_of_one_module():
    with volta.device("meta"):
        net = nn.Sequential(nn.Linear(2, 2))
        net.register_parameter("own", nn.Parameter(volta.ones(2)))
    net.to_empty(device="cpu", recurse=False)
    assert not net.own.is_meta and net[0].weight.is_meta


def test_as_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")

    def run(lib):
        with lib.device("meta"):
            net, x = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.GELU(), lib.nn.Linear(4, 2)), lib.rand(5, 3)
        out = net(x).softmax(-1)
        made = (x, out, out.sum(0), out.argmax(1), x.double(), lib.zeros_like(x), lib.arange(3, device="meta"), x.T @ x, x.var(0), out > 0,
                lib.cat([x, x]), x.sort(0)[1], lib.nn.functional.one_hot(lib.empty(3, dtype=lib.int64, device="meta"), 4))
        return [(list(t.shape), str(t.dtype).split(".")[-1], t.device.type, t.requires_grad, list(t.stride())) for t in made]
    assert run(volta) == run(torch)
