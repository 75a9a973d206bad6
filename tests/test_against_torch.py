"""Extra: layers, losses and optimizers beside PyTorch's own, where it is installed. It is no dependency: elsewhere this file skips.

The same module is built in both libraries and the state dict carried over, so that key names and layouts are compared too.
"""
import numpy as np
import pytest
from test_float16 import EPS, halves, network

import volta

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")

LAYERS = [
    ("Linear", lambda nn: nn.Linear(6, 4), (3, 6)),
    ("Conv2d", lambda nn: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 7, 6)),
    ("same", lambda nn: nn.Conv2d(2, 3, (3, 5), padding="same", dilation=(2, 1)), (2, 2, 7, 6)),
    ("same even", lambda nn: nn.Conv2d(2, 3, (2, 4), padding="same"), (2, 2, 7, 6)),
    ("reflect", lambda nn: nn.Conv2d(2, 3, 3, stride=2, padding=(1, 2), padding_mode="reflect", bias=False), (2, 2, 7, 6)),
    ("circular", lambda nn: nn.Conv2d(2, 3, (2, 3), padding="same", padding_mode="circular"), (2, 2, 7, 6)),
    ("replicate", lambda nn: nn.Conv2d(2, 3, 3, padding="valid", padding_mode="replicate"), (2, 2, 7, 6)),
    ("BatchNorm1d", lambda nn: nn.BatchNorm1d(5), (6, 5)),
    ("BatchNorm2d", lambda nn: nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), (4, 3, 5, 5)),
    ("BatchNorm cumulative", lambda nn: nn.BatchNorm2d(3, momentum=None), (4, 3, 5, 5)),
    ("BatchNorm untracked", lambda nn: nn.BatchNorm1d(3, track_running_stats=False), (4, 3, 5)),
    ("LayerNorm", lambda nn: nn.LayerNorm((4, 5)), (3, 4, 5)),
    ("MaxPool2d", lambda nn: nn.MaxPool2d(3, 2, padding=1), (2, 3, 7, 8)),
    ("MaxPool2d ceil", lambda nn: nn.MaxPool2d(3, 2, ceil_mode=True), (2, 3, 6, 8)),
    ("cnn", lambda nn: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(),
                                     nn.Linear(64, 5), nn.LogSoftmax(dim=1)), (3, 1, 8, 8)),
    ("mlp", lambda nn: nn.Sequential(nn.Linear(5, 8), nn.SiLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2), nn.LeakyReLU(0.2)),
     (4, 5)),
]


def both(make, device):
    theirs = make(torch.nn)
    ours = make(volta.nn).to(device)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    return ours, theirs


def close(ours, theirs, rtol=1e-4, atol=1e-5, text=""):
    np.testing.assert_allclose(ours.detach().cpu().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol, err_msg=text)


@pytest.mark.parametrize("make, shape", [row[1:] for row in LAYERS], ids=[row[0] for row in LAYERS])
def test_layers(device, rng, make, shape):
    ours, theirs = both(make, device)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours).replace(", bias=True", "") == repr(theirs).replace(", bias=True", "")     # some versions name it for norms
    a = rng.standard_normal(shape).astype(np.float32)
    x, y = volta.tensor(a, device=device, requires_grad=True), torch.tensor(a, requires_grad=True)
    out, expected = ours(x), theirs(y)
    close(out, expected)
    g = rng.standard_normal(expected.shape).astype(np.float32)
    out.backward(volta.tensor(g, device=device))
    expected.backward(torch.tensor(g))
    close(x.grad, y.grad, text="input")
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        close(p.grad, q.grad, 1e-3, 1e-4, name)
    for (name, b), c in zip(ours.named_buffers(), theirs.buffers()):
        close(b, c, text=name)
    close(ours.eval()(x), theirs.eval()(y), text="eval")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"ignore_index": 2}, {"label_smoothing": 0.1}, {"weight": [1.0, 2.0, 0.5, 1.5]},
                                     {"weight": [1.0, 2.0, 0.5, 1.5], "label_smoothing": 0.1, "ignore_index": 1}])
@pytest.mark.parametrize("shape", [(6, 4), (2, 4, 3)])
def test_cross_entropy(device, rng, shape, options, reduction):
    a, labels = rng.standard_normal(shape).astype(np.float32), rng.integers(0, 4, shape[:1] + shape[2:])
    x, y = volta.tensor(a, device=device, requires_grad=True), torch.tensor(a, requires_grad=True)

    def loss(lib, input, target, **place):
        weight = {"weight": lib.tensor(options["weight"], **place)} if "weight" in options else {}
        return lib.nn.CrossEntropyLoss(**{**options, **weight}, reduction=reduction)(input, target)
    ours, theirs = loss(volta, x, volta.tensor(labels, device=device), device=device), loss(torch, y, torch.tensor(labels))
    close(ours, theirs)
    ours.sum().backward()
    theirs.sum().backward()
    close(x.grad, y.grad)


@pytest.mark.parametrize("make", [
    lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    lambda o, p: o.SGD(p, lr=0.1, momentum=0.5, dampening=0.2), lambda o, p: o.Adam(p, lr=0.01, weight_decay=0.1),
    lambda o, p: o.AdamW(p, lr=0.01), lambda o, p: o.Adam(p, lr=0.01, maximize=True),
    lambda o, p: o.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1), lambda o, p: o.AdamW(p, lr=0.01, amsgrad=True)],
    ids=["nesterov", "dampening", "adam", "adamw", "maximize", "amsgrad", "adamw amsgrad"])
def test_optimizers_and_their_state(device, rng, make):
    """Three steps in each library, then PyTorch's state is carried over and two more are taken."""
    ours, theirs = both(lambda nn: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), device)
    mine, other = make(volta.optim, ours.parameters()), make(torch.optim, theirs.parameters())
    a = rng.standard_normal((16, 4)).astype(np.float32)

    def step(model, optimizer, x):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
    for i in range(5):
        step(ours, mine, volta.tensor(a, device=device))
        step(theirs, other, torch.tensor(a))
        for p, q in zip(ours.parameters(), theirs.parameters()):
            close(p, q, 1e-3, 1e-4)
        if i == 2:
            state = other.state_dict()
            assert set(mine.state_dict()["state"]) == set(state["state"])
            state["state"] = {n: {k: volta.tensor(v.numpy()) for k, v in s.items()} for n, s in state["state"].items()}
            for group in state["param_groups"]:
                for key in set(group) - set(mine.param_groups[0]):
                    del group[key]
            mine.load_state_dict(state)


@pytest.mark.parametrize("make", [
    lambda s, o: s.StepLR(o, 2), lambda s, o: s.CosineAnnealingLR(o, 5, 0.01), lambda s, o: s.LinearLR(o),
    lambda s, o: s.ExponentialLR(o, 0.7), lambda s, o: s.LambdaLR(o, lambda e: 0.5 ** e), lambda s, o: s.MultiStepLR(o, [2, 2, 5]),
    lambda s, o: s.ConstantLR(o), lambda s, o: s.PolynomialLR(o, 6, 0.5), lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    lambda s, o: s.OneCycleLR(o, 2.0, 12, three_phase=True), lambda s, o: s.OneCycleLR(o, 2.0, 12, anneal_strategy="linear"),
    lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 9)], [3]),
    lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1), s.LinearLR(o), s.CosineAnnealingWarmRestarts(o, 2)], [2, 5]),
    lambda s, o: s.ChainedScheduler([s.LinearLR(o), s.CosineAnnealingLR(o, 3)])])
def test_schedules(make):
    def rates(lib):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.5, momentum=0.9)
        schedule, out = make(lib.optim.lr_scheduler, optimizer), []
        for _ in range(10):
            out += [optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]]
            optimizer.step()
            schedule.step()
        return out
    assert rates(volta) == pytest.approx(rates(torch), rel=1e-9)


def _put(x, index, value):
    x = x.clone()
    x[index] = value
    return x


INDEXING = {
    "gather": lambda lib, x, y, full, rows, mask: lib.gather(x, 0, full),
    "scatter_add": lambda lib, x, y, full, rows, mask: lib.scatter_add(x, 0, full, y),
    "index_select": lambda lib, x, y, full, rows, mask: lib.index_select(x, 0, rows),
    "take_along_dim": lambda lib, x, y, full, rows, mask: lib.take_along_dim(x, full[:, :1] % 5, 1),
    "take_along_no_dim": lambda lib, x, y, full, rows, mask: lib.take_along_dim(x, full),
    "rows": lambda lib, x, y, full, rows, mask: x[rows],
    "columns": lambda lib, x, y, full, rows, mask: x[:, rows % 5],
    "mask": lambda lib, x, y, full, rows, mask: x[mask],
    "masked_select": lambda lib, x, y, full, rows, mask: lib.masked_select(x, mask),
    "masked_fill": lambda lib, x, y, full, rows, mask: lib.masked_fill(x, mask, 1),
    "nonzero": lambda lib, x, y, full, rows, mask: lib.nonzero(x),
    "set rows": lambda lib, x, y, full, rows, mask: _put(x, rows, y[0]),
    "set mask": lambda lib, x, y, full, rows, mask: _put(x, mask, 1),
}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("op", INDEXING.values(), ids=INDEXING)
def test_indexing_of_every_dtype(device, rng, op, dtype):
    if device == "gpu" and (dtype == "float64" or dtype == "float16" and not volta.gpu.context().has_f16):
        with pytest.raises(volta.errors.DTypeError, match=f"{dtype} is not available on"):
            volta.tensor([1], dtype=getattr(volta, dtype), device=device)
        return
    top = 2 if dtype == "bool" else 200
    arrays = [rng.integers(0, top, (6, 5)).astype(dtype), rng.integers(0, top, (6, 5)).astype(dtype), rng.integers(0, 6, (6, 5)),
              rng.integers(0, 6, 6), rng.random((6, 5)) < 0.5]
    theirs = op(torch, *map(torch.tensor, arrays)).numpy()
    ours = op(volta, *[volta.tensor(a, device=device) for a in arrays]).numpy()
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


# ---------------------------------------------------------------- float16
def test_half_precision_model(device, rng):
    if device == "gpu" and not volta.gpu.context().has_f16:
        pytest.skip("this GPU has no float16")
    torch.manual_seed(5)
    theirs = network(torch.nn).half()
    ours = network(volta.nn).half().to(device)
    ours.load_state_dict({k: volta.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x, labels = halves(rng, 16, 1, 8, 8), rng.integers(0, 5, 16)
    a, b = theirs(torch.tensor(x)), ours(volta.tensor(x, device=device))
    np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=4 * EPS, atol=4 * EPS)
    torch.nn.functional.cross_entropy(a, torch.tensor(labels)).backward()
    volta.nn.functional.cross_entropy(b, volta.tensor(labels, device=device)).backward()
    for p, q in zip(ours.parameters(), theirs.parameters()):
        top = float(q.grad.abs().max())
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=0.02, atol=0.02 * top + 1e-4)
    for name, v in theirs.state_dict().items():
        if "running" in name:
            np.testing.assert_allclose(ours.state_dict()[name].numpy(), v.numpy(), rtol=2 * EPS, atol=EPS)
