"""bfloat16: stored on the CPU as the upper half of a float32, computed in float32. Every op of the table, beside PyTorch's conversions, and
files both ways."""
import copy
import io
import pickle

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import DTypeError
from volta.ops.table import RECORDS
from volta.selftest import cases as table

B = volta.bfloat16
EPS = 2.0 ** -8             # half the distance of neighbours, relative to the lower one at most


def rounded(a):
    """An array of floats with bfloat16's numbers."""
    return volta.tensor(a).to(B).float().numpy() if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a


def brains(x):
    """The floats among inputs as bfloat16."""
    if isinstance(x, (list, tuple)):
        return [brains(each) for each in x]
    return x.to(B) if isinstance(x, volta.Tensor) and x.is_floating_point() else x


OPS = [op for op in (*table.records(), *table.composed()) if "f" in op.details.kinds and op.details.halves
       and not op.details.cpu_only and not op.name.startswith("linalg.")]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_ops(op, rng, each):
    """Results are those of the reference, of the same numbers, rounded a few times."""
    def check(case):
        arrays = table.sample(op, case, rng, volta.float32)
        arrays = [[rounded(a) for a in x] if isinstance(x, list) else rounded(x) for x in arrays]
        results = table.flat(table.run(op, brains(table.to_device(arrays, "cpu")), case.params, "cpu", B))
        wide = table.flat(table.run(op, table.to_device(arrays, "cpu"), case.params, "cpu", volta.float32))
        assert len(results) == len(wide)
        for i, (found, true) in enumerate(zip(results, wide)):
            if not isinstance(found, volta.Tensor):
                continue
            assert found.shape == true.shape
            if not true.is_floating_point():
                assert found.dtype is true.dtype
                continue
            keeps = isinstance(case.params.get("dtype"), volta.dtype) or i in getattr(op, "wide", ())
            assert found.dtype is (true.dtype if keeps else B), op.name
            scale = max(1.0, true.abs().nan_to_num(0, 0, 0).max().item()) if true.numel() else 1.0
            np.testing.assert_allclose(found.float().numpy(), true.numpy(), rtol=8 * EPS, atol=8 * EPS * scale, err_msg=op.name)
    each(check, op.details.cases)


def words(t):
    """The 16 bits of every element."""
    t = t.contiguous()
    return np.ndarray(t.shape, np.uint16, t.storage, 2 * t.offset)


def same(found, torch_tensor):
    return found.dtype is B and np.array_equal(np.array(found.tolist()), torch_tensor.detach().float().numpy(), equal_nan=True)


# ---------------------------------------------------------------- conversions
def test_rounding(rng):
    """To the nearest, ties to even, as in PyTorch: of random bits, of ties, at both ends of the range."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    ties = np.arange(1 << 16, dtype=np.uint32) << 16 | 0x8000
    bits = np.concatenate([rng.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32), ties])
    values = bits.view(np.float32)
    found, true = volta.tensor(values).to(B), torch.tensor(values).to(torch.bfloat16)
    finite = ~np.isnan(values)
    np.testing.assert_array_equal(words(found)[finite], true.view(torch.int16).numpy().view(np.uint16)[finite])
    assert found.isnan().tolist() == (~finite).tolist()
    np.testing.assert_array_equal(found.float().numpy()[finite], true.float().numpy()[finite])


@pytest.mark.parametrize("name", ["float64", "float16", "int64", "int32", "uint8", "bool"])
def test_to_and_from(name, rng):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = np.abs(rng.standard_normal(1000) * 100)
    ours, theirs = volta.tensor(values).to(getattr(volta, name)).to(B), torch.tensor(values).to(getattr(torch, name)).to(torch.bfloat16)
    assert same(ours, theirs)
    np.testing.assert_array_equal(ours.to(getattr(volta, name)).numpy(), theirs.to(getattr(torch, name)).numpy())


def test_promotion():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for name in ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16"):
        ours, theirs = getattr(volta, name), getattr(torch, name)
        wanted = str(torch.promote_types(torch.bfloat16, theirs))
        assert f"torch.{volta.promote_types(B, ours).name}" == f"torch.{volta.promote_types(ours, B).name}" == wanted
        for a, b in (((2,), (2,)), ((2,), ()), ((), (2,))):
            wanted = str(torch.result_type(torch.ones(a, dtype=torch.bfloat16), torch.ones(b, dtype=theirs)))
            assert f"torch.{(volta.ones(a, dtype=B) * volta.ones(b, dtype=ours)).dtype.name}" == wanted
    assert (volta.ones(2, dtype=B) * 2.5).dtype is B and (volta.ones(2, dtype=B) < 1).dtype is volta.bool


# ---------------------------------------------------------------- tensors
def test_made():
    for t in (volta.zeros(3, dtype=B), volta.full((3,), 0.1, dtype=B), volta.arange(3, dtype=B), volta.rand(3, dtype=B),
              volta.randn(3, dtype=B), volta.tensor([1, 2, 3], dtype=B), volta.tensor([0.1], dtype="bfloat16"), volta.ones(3).bfloat16(),
              volta.BFloat16Tensor([1.0])):
        assert t.dtype is B and t.element_size() == 2 and t.is_floating_point() and isinstance(t, volta.BFloat16Tensor)
    assert repr(volta.tensor([0.5, 3.14159], dtype=B)) == "tensor([0.5000, 3.1406], dtype=volta.bfloat16)"
    assert volta.full((), 0.1, dtype=B).item() == volta.tensor(0.1).to(B).tolist() == 0.10009765625
    assert volta.finfo(B).max == 3.3895313892515355e38 and volta.finfo(B).eps == 0.0078125
    assert volta.ones(1, dtype=B).type() == "torch.BFloat16Tensor"
    assert volta.rand(100_000, dtype=B).max().item() < 1.0


def test_views_and_writes(rng):
    x = volta.tensor(rng.standard_normal((4, 6))).to(B)
    part = x[1:3, ::2].t()
    assert part.storage is x.storage and part.tolist() == x.float()[1:3, ::2].t().tolist()
    y = x.clone()
    y[:, 0] = 0.1
    y[y > 0] = 2
    y.t()[1] += 1
    y.mul_(0.3).clamp_(-1, 1)
    wanted = x.float()
    wanted[:, 0] = 0.1
    wanted[wanted > 0] = 2
    wanted.t()[1] += 1
    wanted.mul_(0.3).clamp_(-1, 1)
    np.testing.assert_allclose(y.float().numpy(), wanted.numpy(), rtol=4 * EPS, atol=4 * EPS)
    assert volta.equal(volta.zeros(4, 6, dtype=B).copy_(x), x) and x.nonzero().shape == (24, 2)


def test_numpy_has_none():
    x = volta.ones(2, dtype=B)
    for read in (x.numpy, lambda: np.asarray(x), lambda: x.__dlpack__()):
        with pytest.raises(TypeError, match="numpy: NumPy has no bfloat16; convert the tensor with .float()"):
            read()


def test_no_gpu_has_any(gpu):
    x = volta.ones(2, dtype=B)
    for make in (x.cuda, lambda: volta.zeros(2, dtype=B, device=gpu), lambda: volta.tensor([1.0], dtype=B, device=gpu),
                 lambda: volta.ones(2, device=gpu).to(B), lambda: volta.rand(2, dtype=B, device=gpu),
                 lambda: volta.empty(2, dtype=B, device=gpu), lambda: nn.Linear(2, 2).to(gpu).bfloat16()):
        with pytest.raises(DTypeError, match="bfloat16 tensors are on the CPU alone.*(float16|half)"):
            make()
    assert volta.zeros(2, device=gpu).copy_(x).tolist() == [1.0, 1.0]


def test_training(rng):
    """A network of bfloat16, with both kinds of optimizers' lists, learns."""
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1)).bfloat16()
    x = volta.tensor(rng.standard_normal((64, 8))).to(B)
    target = x[:, :1] * x[:, 1:2]
    for optimizer in (volta.optim.AdamW(model.parameters(), 0.02), volta.optim.SGD(model.parameters(), 0.02, momentum=0.9)):
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] * 0.95 and all(p.dtype is p.grad.dtype is B for p in model.parameters())


# ---------------------------------------------------------------- files
def test_copies(rng):
    x = volta.tensor(rng.standard_normal((3, 4))).to(B)
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(nn.Parameter(x)))):
        assert again.dtype is B and volta.equal(again.detach(), x)


def test_files_of_torch(tmp_path, rng):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = rng.standard_normal((3, 4)).astype(np.float32)
    ours, theirs = volta.tensor(values).to(B), torch.tensor(values).bfloat16()
    volta.save({"a": ours, "t": ours.t(), "part": ours[1:], "p": nn.Parameter(ours)}, tmp_path / "a.pt")
    found = torch.load(tmp_path / "a.pt", weights_only=True)
    assert all(t.dtype is torch.bfloat16 for t in found.values())
    assert torch.equal(found["t"], theirs.t()) and torch.equal(found["part"], theirs[1:])
    torch.save({"a": theirs, "t": theirs.t(), "part": theirs[1:], "p": torch.nn.Parameter(theirs)}, tmp_path / "b.pt")
    for options in ({}, {"mmap": True}):
        found = volta.load(tmp_path / "b.pt", **options)
        assert same(found["a"], theirs) and same(found["t"], theirs.t())
        assert same(found["part"], theirs[1:]) and same(found["p"].detach(), theirs)


def test_safetensors(tmp_path, rng):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    both = pytest.importorskip("safetensors.torch", reason="safetensors is not installed: what it reads and writes is compared")
    values = rng.standard_normal((3, 4)).astype(np.float32)
    ours, theirs = volta.tensor(values).to(B), torch.tensor(values).bfloat16()
    volta.save({"a": ours, "t": ours.t(), "none": volta.zeros(0, 2, dtype=B), "f": volta.ones(3)}, tmp_path / "a.safetensors")
    found = both.load_file(tmp_path / "a.safetensors")
    assert torch.equal(found["a"], theirs) and torch.equal(found["t"], theirs.t())
    assert found["none"].shape == (0, 2) and found["f"].dtype is torch.float32
    again = volta.load(tmp_path / "a.safetensors")
    assert volta.equal(again["a"], ours) and again["none"].dtype is B
    both.save_file({"a": theirs}, tmp_path / "b.safetensors")
    for options in ({}, {"mmap": True}):
        assert same(volta.load(tmp_path / "b.safetensors", **options)["a"], theirs)


def test_on_a_gpu_files_are_float32(gpu):
    file = io.BytesIO()
    volta.save({"a": volta.tensor([0.1, 2.0], dtype=B)}, file)
    file.seek(0)
    found = volta.load(file, map_location=gpu)["a"]
    assert found.dtype is volta.float32 and found.device.is_gpu and found.tolist() == [0.10009765625, 2.0]


def test_into_a_model_of_float32():
    model = nn.Linear(2, 1)
    model.load_state_dict({"weight": volta.ones(1, 2, dtype=B), "bias": volta.zeros(1, dtype=B)})
    assert model.weight.dtype is volta.float32 and model.weight.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
@pytest.mark.parametrize("shape, dim", [((65537,), None), ((5, 300), 1), ((5, 300), 0), ((4, 7, 33), (1, 2)), ((4, 7, 33), (0, 2)),
                                        ((3, 5), 1), ((0, 3), 1), ((3, 0), 1), ((3, 1), 1), ((2, 20000), -1)])
def test_norms_are_those_of_float32(shape, dim, dtype):
    x = volta.randn(shape).to(dtype)
    for keepdim in (False, True):
        found, want = (volta.linalg.vector_norm(each, 2, dim, keepdim) for each in (x, x.float()))
        assert found.dtype is dtype and (found == want.to(dtype)).all().item()
        assert (volta.linalg.vector_norm(x.clone().requires_grad_(), 2, dim, keepdim).detach() == found).all().item()


@pytest.mark.parametrize("dtype", [B, volta.float16])
@pytest.mark.parametrize("shape, dim", [((700, 513), 1), ((700, 513), 0), ((3, 130, 1100), 1), ((70000, 6), 1), ((2, 9, 170, 101), 1),
                                        ((1, 400000), 1)])
def test_rows_beyond_a_cache_are_computed_part_by_part(dtype, shape, dim):
    """As all at once in float32, rounded once."""
    x, g, weight, bias = (volta.randn(*sizes).to(dtype) for sizes in (shape, shape, shape[-1:], shape[-1:]))
    for name in ("softmax", "log_softmax"):
        out = getattr(volta, name)(x, dim)
        assert volta.equal(out, getattr(volta, name)(x.float(), dim).to(dtype))
        grad = RECORDS[name + "_grad"]
        assert volta.equal(grad(g, out, dim=dim), grad(g.float(), out.float(), dim=dim).to(dtype))
    norm = nn.functional.layer_norm(x, shape[-1:], weight, bias)
    assert volta.equal(norm, nn.functional.layer_norm(x.float(), shape[-1:], weight.float(), bias.float()).to(dtype))
    assert volta.equal(nn.functional.rms_norm(x, shape[-1:]), nn.functional.rms_norm(x.float(), shape[-1:]).to(dtype))
    groups = nn.functional.group_norm(x, 1)
    assert volta.equal(groups, nn.functional.group_norm(x.float(), 1).to(dtype))
