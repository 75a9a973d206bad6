"""int8 and int16: stored in 8 and 16 bits, on a GPU in words, computed in int32. Beside PyTorch over their whole range,
conversions, promotion, what is refused, and shared memory. Every op of the table is tried with them in tests/test_op_table.py."""
import copy
import io
import pickle

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, DTypeError
from volta.io import load, save

SMALL = (volta.int8, volta.int16)
LIMITS = {volta.int8: (-128, 127), volta.int16: (-32768, 32767)}
SAME = {"float32": 1e-5, "float64": 1e-12}


def pair(torch, values, dtype, device):
    """The same elements here and in PyTorch."""
    return volta.tensor(values, dtype=dtype, device=device), torch.tensor(values, dtype=getattr(torch, dtype.name))


def same(found, true, text):
    assert found.dtype.name == str(true.dtype).removeprefix("torch."), text
    assert found.shape == tuple(true.shape), text
    if found.device.is_gpu and found.dtype is volta.int64:
        true = true.int().long()                        # there they have 32 bits
    np.testing.assert_allclose(found.cpu().numpy(), true.numpy(), rtol=SAME.get(found.dtype.name, 0), err_msg=text)


UNARY = """-x  ~x  abs(x)  x.sign()  x.square()  x ** 3  x.sum()  x.prod()  x.cumsum(0)  x.cumprod(0)  x.amax()  x.amin()  x.max(0).values
    x.min(0).indices  x.argmax()  x.sort().values  x.sort(descending=True).indices  x.topk(2).values  x.median()  x.unique()  x.flip(0)
    x.roll(2)  x.float()  x.bool()  x.byte()  x.short()  x.char()  x.int()  x.sqrt()  x / 3  x // 3  x % 3  x.fmod(3)  x << 3  x << 9
    x >> 9
    x >> 20  x & 15  x | 64  x ^ 85  x == 1  x < 3  x[x > 0]  x[1:4]  x.masked_fill(x > 0, 7)  x.clamp(-3, 50)  x.bool().any()
    x.cummax(0).values
    x.diff()  x.tril()  x.count_nonzero()  x.nonzero()  x.repeat(2)  x.mean(dtype=t.float32)  x.relu()  x.logical_not()  x.t().contiguous()
    x.sum(dtype=x.dtype)  x.aminmax().max  t.isin(x, x[:2])  x.reciprocal()  x + 1.5  x + True
    x.view(-1).outer(x.view(-1))""".replace("\n", "  ")
BINARY = """x + y  x - y  x * y  x / y  x // y  x % y  x.fmod(y)  t.maximum(x, y)  t.minimum(x, y)  x & y  x | y  x ^ y  x < y  x == y
    x.gcd(y)  x.dot(y)  x @ y  t.where(x < y, x, y)  t.cat([x, y])  t.stack([x, y])
    x.addcmul(x, y, value=3)  t.searchsorted(x.sort().values, y)
    x.index_add(0, t.tensor([0, 0, 1, 2, 2, 2], device=x.device), y)  x.scatter_add(0, t.tensor([0, 0, 1, 2, 2, 2], device=x.device), y)
    x.index_copy(0, t.tensor([2, 1, 0, 5, 4, 3], device=x.device), y)  x.gather(0, t.tensor([2, 1], device=x.device))
    x.scatter_reduce(0, t.tensor([0, 0, 1, 2, 2, 2], device=x.device), y, "prod")
    x.put(t.tensor([1, 1], device=x.device), y[:2], accumulate=True)
    t.einsum("i,j->ij", x, y)  t.tensordot(x, y, 1)  x.take(t.tensor([0, 3], device=x.device))  x.add(y, alpha=7)""".replace("\n", "  ")
INPLACE = ("add_(y)", "mul_(y)", "sub_(3)", "copy_(y)", "fill_(-5)", "zero_()", "masked_fill_(y > 0, 9)",
           "add_(t.arange(6, device=x.device) * 1000)", "bitwise_xor_(y)", "clamp_(0, 5)",
           "index_fill_(0, y[:1].long() * 0, 4)", "neg_()", "__setitem__(slice(1, 3), 7)")


@pytest.mark.parametrize("dtype", SMALL, ids=lambda d: d.name)
def test_beside_torch(dtype, device):
    """Sums, products and shifts beyond the range wrap; types of results are PyTorch's."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    low, high = LIMITS[dtype]
    x, tx = pair(torch, [low, -100, -1, 1, 5, high], dtype, device)
    y, ty = pair(torch, [3, -7, low, 2, high, -5], dtype, device)
    square, tsquare = pair(torch, [[low, 2, 3], [4, high, 6]], dtype, device)
    for text in filter(None, map(str.strip, UNARY.split("  "))):
        rank = (square, tsquare) if ".t()" in text or "tril" in text or "view" in text else (x, tx)
        same(eval(text, {"x": rank[0], "t": volta}), eval(text, {"x": rank[1], "t": torch}), text)
    for text in filter(None, map(str.strip, BINARY.split("  "))):
        same(eval(text, {"x": x, "y": y, "t": volta}), eval(text, {"x": tx, "y": ty, "t": torch}), text)
    for text in INPLACE:
        found, true = x.clone(), tx.clone()
        eval("x." + text, {"x": found, "y": y, "t": volta})
        eval("x." + text, {"x": true, "y": ty, "t": torch})
        same(found, true, text)


def test_promotion(device):
    """As PyTorch's table has it: int8 and uint8 meet in int16, and a tensor of dimensions outranks one of none and a number."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for a in volta.dtypes.ALL:
        for b in volta.dtypes.ALL:
            true = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
            assert str(true) == f"torch.{volta.promote_types(a, b).name}", (a, b)
            assert volta.can_cast(a, b) == torch.can_cast(getattr(torch, a.name), getattr(torch, b.name)), (a, b)
    kinds = [d for d in volta.dtypes.ALL if not d.is_floating_point]
    for a in SMALL:
        for b in kinds:
            for shapes in (((2,), ()), ((), (2,)), ((), ()), ((2,), (2,))):
                ours = [volta.ones(s, dtype=d, device=device) for s, d in zip(shapes, (a, b))]
                theirs = [torch.ones(s, dtype=getattr(torch, d.name)) for s, d in zip(shapes, (a, b))]
                same(ours[0] + ours[1], theirs[0] + theirs[1], f"{a} {b} {shapes}")


def test_conversions(device):
    """Integers keep their lower bits; floats are cut to int32 first, as in PyTorch."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    numbers = {"float32": [1.9, -1.9, 300.5, -70000.0, 1e10, float("nan"), float("inf"), -1e10], "int32": [300, -300, 70000, -(1 << 31)],
               "int64": [300, -300, 70000, (1 << 31) - 1], "uint8": [0, 127, 128, 255], "bool": [True, False],
               "float16": [1.5, -300.0, 65504.0], "int8": [-128, 127, -1], "int16": [-32768, 300, -1]}
    for name, values in numbers.items():
        x, tx = pair(torch, values, getattr(volta, name), device)
        for target in SMALL:
            same(x.to(target), tx.to(getattr(torch, target.name)), f"{name} to {target}")
    for source in SMALL:
        x, tx = pair(torch, list(range(*LIMITS[source], 97)), source, device)
        for target in volta.dtypes.ALL:
            if device != "cpu" and target.name in ("float64", "bfloat16"):
                continue
            found, true = x.to(target), tx.to(getattr(torch, target.name))
            if target is volta.bfloat16:
                found, true = found.float(), true.float()
            same(found, true, f"{source} to {target}")
        strided = volta.arange(0, 60, dtype=volta.int32, device=device).reshape(6, 10).to(source).t()[::2, 1::2]
        assert strided.tolist() == np.arange(60).reshape(6, 10).T[::2, 1::2].tolist()
        assert strided.clone().float().tolist() == strided.tolist()


def test_made(device):
    for dtype in SMALL:
        low, high = LIMITS[dtype]
        made = [volta.zeros(3, dtype=dtype, device=device), volta.full((2,), -3, dtype=dtype, device=device),
                volta.eye(2, dtype=dtype, device=device), volta.arange(-3, 9, 2, dtype=dtype, device=device),
                volta.tensor([[low, high]], dtype=dtype, device=device),
                volta.randint(low, high, (50,), dtype=dtype, device=device), volta.linspace(0, 8, 5, dtype=dtype, device=device),
                volta.randperm(20, dtype=dtype, device=device)]
        assert all(t.dtype is dtype and t.device == volta.device(device) and t.element_size() == dtype.itemsize for t in made)
        assert made[3].tolist() == [-3, -1, 1, 3, 5, 7] and made[4].tolist() == [[low, high]]
        assert sorted(made[7].tolist()) == list(range(20))
        info = volta.iinfo(dtype)
        assert (info.min, info.max, info.bits, dtype.is_signed, dtype.is_floating_point) == (low, high, 8 * dtype.itemsize, True, False)
        assert str(made[4].cpu()) == f"tensor([[{low:>{len(str(low))}}, {high:>{len(str(low))}}]], dtype=volta.{dtype.name})"
        assert made[4][0, 1].item() == high and bool(made[4][0, 0]) and int(made[4][0, 0]) == low
        assert copy.deepcopy(made[4]).tolist() == pickle.loads(pickle.dumps(made[4])).tolist() == [[low, high]]
    assert volta.short is volta.int16 and volta.ones(2).char().dtype is volta.int8 and volta.ones(2).short().dtype is volta.int16
    assert volta.CharTensor([1, -1]).dtype is volta.int8 and volta.ShortTensor(2, 3).dtype is volta.int16
    assert isinstance(volta.CharTensor([1]), volta.CharTensor) and not isinstance(volta.CharTensor([1]), volta.ShortTensor)
    assert volta.ones(1, dtype=volta.int16).type() == "torch.ShortTensor" and volta.ones(1).type("torch.CharTensor").dtype is volta.int8


def test_refused(device):
    x = volta.tensor([1, -2, 3], dtype=volta.int8, device=device)
    for call in (lambda: x.clamp(max=300), lambda: x.fill_(200), lambda: x.masked_fill(x > 0, 300), lambda: x.add(x, alpha=128),
                 lambda: volta.full((1,), 128, dtype=volta.int8, device=device), lambda: volta.where(x > 0, x, 128)):
        with pytest.raises(ArgumentError, match=r"(128|300|200) does not fit into volta.int8"):
            call()
    for call in (lambda: x + (1 << 64), lambda: x == -(1 << 63) - 1, lambda: x * 1.0 * (1 << 64) if device == "cpu" else x & (1 << 64)):
        with pytest.raises(OverflowError, match="is beyond 64 bits; give a float"):
            call()
    assert x.tolist() == [1, -2, 3]
    with pytest.raises(DTypeError, match=r"tensor: 40000 does not fit into volta.int16"):
        volta.tensor([40000], dtype=volta.int16, device=device)
    with pytest.raises(ArgumentError, match=r"randperm: 128 does not fit into volta.int8"):
        volta.randperm(129, dtype=volta.int8, device=device)
    for small in SMALL:
        index = volta.tensor([0, 1], dtype=small, device=device)
        for call in (lambda i: x[i], lambda i: x[None][:, i], lambda i: x.gather(0, i), lambda i: x.index_select(0, i),
                     lambda i: x.take(i)):
            with pytest.raises(DTypeError, match=rf"int64.*got volta.{small.name}"):
                call(index)
        assert x[index[1]].tolist() == -2                   # of no dimensions it counts as a number
        for call in (lambda t: t.mean(), lambda t: t.add_(1.5), lambda t: volta.nn.functional.softmax(t, 0), lambda t: t.div_(2)):
            with pytest.raises(DTypeError, match="float"):
                call(volta.ones(3, dtype=small, device=device))
    with pytest.raises(volta.errors.VoltaError):
        volta.ones(2, dtype=volta.int8, requires_grad=True)


def test_memory_is_shared():
    for dtype in SMALL:
        array = np.arange(-3, 5, dtype=dtype.name)
        x = volta.from_numpy(array)
        assert x.dtype is dtype and x.numpy().dtype == array.dtype
        x.mul_(50)
        assert array.tolist() == x.tolist() == np.arange(-3, 5).astype(dtype.name).__mul__(50).tolist()
        assert np.asarray(memoryview(x.numpy())).dtype == array.dtype and volta.frombuffer(bytearray(8), dtype=dtype).dtype is dtype
        assert volta.from_numpy(array[::2]).tolist() == array[::2].tolist()
    x = volta.tensor([1, -1, 256, 770], dtype=volta.int16)
    assert x.view(volta.int8).tolist() == [1, 0, -1, -1, 0, 1, 2, 3] and x.view(volta.int8).view(volta.int16).tolist() == x.tolist()
    assert volta.tensor([-1, 5], dtype=volta.int8).view(volta.uint8).tolist() == [255, 5]
    assert x.view(volta.int32).view(volta.int16).tolist() == x.tolist()


def test_files(tmp_path):
    given = {d.name: volta.tensor(LIMITS[d], dtype=d) for d in SMALL}
    for name in ("a.pt", "a.safetensors"):
        save(given, tmp_path / name)
        found = load(tmp_path / name)
        assert all(found[k].dtype is t.dtype and found[k].tolist() == t.tolist() for k, t in given.items())
    torch = pytest.importorskip("torch", reason="reads and writes PyTorch's files")
    found = torch.load(tmp_path / "a.pt", weights_only=True)
    assert all(found[k].dtype is getattr(torch, k) and found[k].tolist() == t.tolist() for k, t in given.items())
    file = io.BytesIO()
    torch.save(found, file)
    file.seek(0)
    again = load(file)
    assert all(again[k].dtype is t.dtype and again[k].tolist() == t.tolist() for k, t in given.items())


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32"])
def test_integers_beside_tensors_wrap(name, device):
    """From 64 bits, as in PyTorch, in what it has tensors without dimensions for."""
    x, bits = volta.tensor([1, 7, 3], dtype=getattr(volta, name), device=device), 8 * getattr(volta, name).itemsize
    for number in (300, -300, 1 << 31, (1 << 40) + 5, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1):
        held = volta.tensor(number if number < 1 << 63 else number - (1 << 64)).to(x.dtype).item()
        assert (x + number).equal(x + held) and (number - x).equal(held - x) and (x == number).equal(x == held)
        assert (x & number).equal(x & held) and x.clone().mul_(number).equal(x * held)
    assert (x + (1 << bits)).tolist() == [1, 7, 3]
