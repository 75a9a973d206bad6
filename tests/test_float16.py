"""float16: stored in half precision, computed in float32. Layers, losses, optimizers and whole models, beside PyTorch's float16.

The records one by one are in test_op_table.py; here is what is made of them.
"""
import numpy as np
import pytest

import volta
from volta.nn import functional as F
from volta.ops.table import RECORDS, create

EPS = 2.0 ** -10            # distance of neighbours in float16, relative to the lower one at most


@pytest.fixture(autouse=True)
def _available(request):
    if "device" in request.fixturenames and request.getfixturevalue("device") == "gpu" and not volta.gpu.context().has_f16:
        pytest.skip("this GPU has no float16")


def halves(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float16)


def exact(function, arrays, weight, device):
    """(value, gradients) in `device`'s float16 and in float64 on the CPU, of the same float16 numbers."""
    found = []
    for dtype, place in ((volta.float16, device), (volta.float64, "cpu")):
        inputs = [volta.tensor(a, dtype=dtype if a.dtype.kind == "f" else None, device=place) for a in arrays]
        for t in inputs:
            t.requires_grad_(t.is_floating_point())
        out = function(*inputs)
        assert out.dtype is dtype and out.device == volta.device(place)
        (out * volta.tensor(weight(out.shape), dtype=dtype, device=place)).sum().backward()
        assert all(t.grad is None or t.grad.dtype is dtype for t in inputs)
        found.append([out.detach().numpy()] + [t.grad.numpy() for t in inputs if t.grad is not None])
    return list(zip(*found))


FUNCTIONS = {
    "linear": (F.linear, [(8, 16), (5, 16), (5,)]),
    "matmul": (volta.matmul, [(2, 8, 16), (2, 16, 5)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [(2, 3, 8, 8), (4, 3, 3, 3), (4,)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), [(2, 3, 8, 8)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [(4, 3, 8, 8), (3,), (3,)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (16,), w, b), [(4, 16), (16,), (16,)]),
    "softmax": (lambda x: F.softmax(x, 1), [(8, 50)]),
    "log_softmax": (lambda x: F.log_softmax(x, 1), [(8, 50)]),
    "var": (lambda x: x.var(1), [(8, 50)]),
    "std": (lambda x: x.std(1), [(8, 50)]),
    "norm": (lambda x: x.norm(), [(8, 50)]),
    "logsumexp": (lambda x: x.logsumexp(1), [(8, 50)]),
    "mean": (lambda x: x.mean(0), [(8, 50)]),
    "gelu": (F.gelu, [(8, 50)]),
}


@pytest.mark.parametrize("function, shapes", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(function, shapes, device, rng):
    """Each result is the true one, of the same numbers, rounded about once; gradients are chains of a few roundings."""
    cotangent = {}

    def weight(shape):
        return cotangent.setdefault(shape, np.asarray(rng.uniform(0.5, 1.5, shape)).astype(np.float16))
    pairs = exact(function, [halves(rng, *s) for s in shapes], weight, device)
    for i, (ours, true) in enumerate(pairs):
        scale = np.abs(true).max()
        np.testing.assert_allclose(ours, true, rtol=(0.6 if i == 0 else 3) * EPS, atol=(0.3 if i == 0 else 3) * EPS * scale)


@pytest.mark.parametrize("ignore", [-100, 1])
def test_cross_entropy(device, rng, ignore):
    """Of large logits too, where a rounded logsumexp would show in every gradient."""
    x, labels = halves(rng, 300, 7, scale=20), rng.integers(0, 7, 300)
    pairs = exact(lambda x, t: F.cross_entropy(x, t, ignore_index=ignore, reduction="none"), [x, labels], lambda s: np.ones(s), device)
    (loss, true_loss), (slope, true_slope) = pairs
    np.testing.assert_allclose(loss, true_loss, rtol=0.6 * EPS, atol=1e-5)          # float32 cancels there
    np.testing.assert_allclose(slope, true_slope, rtol=0.6 * EPS, atol=1e-5)


def test_what_would_overflow_inside(device):
    """Squares and sums beyond 65,504 are intermediate values, and float32."""
    x = volta.full((70_000,), 8.0, dtype=volta.float16, device=device)
    labels = volta.zeros(70_000, dtype=volta.int64, device=device)
    logits = volta.tensor(np.array([[0.0, 10.0]], np.float16), device=device).expand(70_000, 2)
    assert F.cross_entropy(logits, labels).item() == 10.0
    assert x.mean().item() == 8 and (x * 100).norm(dim=0).isinf().item()
    rows = volta.tensor(np.array([[300.0, -300.0, 900.0, -900.0]], np.float16), device=device)
    np.testing.assert_allclose(F.layer_norm(rows, (4,)).numpy(), [[0.4473, -0.4473, 1.342, -1.342]], rtol=1e-3)
    assert rows[:, :2].var(1).isinf().item() and rows[:, :2].std(1).item() == pytest.approx(424.25, rel=1e-3)


def test_random_numbers(device):
    """Those of float32, rounded, and alike on both devices; uniform ones stay below the bound that they round to."""
    for name in ("uniform", "normal"):
        kwargs = dict(seed=1, offset=0, device=volta.device(device))
        wide = create(RECORDS[name], (100_000,), 0.0, 1.0, dtype=volta.float32, **kwargs).numpy()
        found = create(RECORDS[name], (100_000,), 0.0, 1.0, dtype=volta.float16, **kwargs).numpy()
        rounded = wide.astype(np.float16)
        assert found.dtype == np.float16
        if name == "uniform":
            assert (rounded == 1).any() and found.max() < 1
            rounded = np.minimum(rounded, np.float16(1 - 2 ** -11))
        assert np.array_equal(found, rounded)
    drawn = volta.rand(7, dtype=volta.float16, device=device)
    assert drawn.dtype is volta.float16 and volta.randn(7, dtype=volta.float16, device=device).dtype is volta.float16
    kept = volta.dropout(volta.ones(1000, dtype=volta.float16, device=device), 0.5).numpy()
    assert set(np.unique(kept)) == {0, 2}


def network(nn):
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LayerNorm(64),
                         nn.Linear(64, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 5))


OPTIMIZERS = {"SGD": dict(lr=0.2), "momentum": dict(lr=0.05, momentum=0.9, nesterov=True), "Adam": dict(lr=1e-2, eps=1e-3),
              "AdamW": dict(lr=1e-2, eps=1e-3, weight_decay=0.1)}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_in_half(name, device, rng):
    """`model.half()` trains as the same model does in float32, to float16's precision, with states and buffers of float16."""
    x, labels = halves(rng, 16, 1, 8, 8), rng.integers(0, 5, 16)
    start = {k: v.numpy() for k, v in network(volta.nn).state_dict().items()}
    losses = {}
    for dtype in (volta.float16, volta.float32):
        model = network(volta.nn).to(device)
        model.load_state_dict({k: volta.tensor(v) for k, v in start.items()})
        model = model.half() if dtype is volta.float16 else model
        kind = "SGD" if name == "momentum" else name
        optimizer = getattr(volta.optim, kind)(model.parameters(), **OPTIMIZERS[name])
        batch, target, seen = volta.tensor(x, dtype=dtype, device=device), volta.tensor(labels, device=device), []
        for _ in range(8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch), target)
            loss.backward()
            volta.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            seen.append(loss.item())
        assert loss.dtype is dtype and all(p.dtype is dtype and p.grad.dtype is dtype for p in model.parameters())
        assert all(v.dtype is dtype for v in model.state_dict().values() if v.is_floating_point())
        states = [v for values in optimizer.state.values() for v in values.values() if isinstance(v, volta.Tensor) and v.ndim]
        assert all(v.dtype is dtype for v in states)
        model.eval()
        with volta.no_grad():
            assert model(batch).dtype is dtype
        losses[dtype] = seen
    assert losses[volta.float32][-1] < 0.8 * losses[volta.float32][0]
    np.testing.assert_allclose(losses[volta.float16], losses[volta.float32], rtol=0.05, atol=0.02)


def test_optimizers_take_mixed_lists(device):
    """Parameters of both precisions in one optimizer: the fused step of several takes each in its own."""
    for make in (lambda p: volta.optim.Adam(p, lr=0.5), lambda p: volta.optim.SGD(p, lr=0.5, momentum=0.9)):
        parameters = [volta.nn.Parameter(volta.ones(n, dtype=dtype, device=device))
                      for n in (4, 5) for dtype in (volta.float16, volta.float32)]
        for p in parameters:
            p.grad = volta.ones_like(p)
        make(parameters).step()
        for p in parameters:
            np.testing.assert_allclose(p.detach().numpy(), 0.5, rtol=1e-3)


def test_only_float16_is_widened():
    """Another refusal of a kernel stays one."""
    with pytest.raises(volta.errors.DTypeError, match="softmax"):
        RECORDS["softmax"].cpu(volta.ones(3, dtype=volta.int64), dim=0)


@pytest.mark.gpu
def test_a_gpu_without_it_says_so(gpu, monkeypatch):
    monkeypatch.setattr(volta.gpu.context(), "has_f16", False)
    text = "float16 is not available on this GPU; use float32"
    with pytest.raises(volta.errors.DTypeError, match=text):
        volta.rand(3, dtype=volta.float16, device="gpu")
    with pytest.raises(volta.errors.DTypeError, match=text):
        volta.nn.Linear(2, 2).to("gpu").half()
