"""Mixed precision: dtypes under autocast as PyTorch's, gradients, the scaler's steps, and training that stays near float32's."""
import math
import threading
import warnings

import numpy as np
import pytest

import volta
from volta.amp import GradScaler, mode
from volta.errors import ArgumentError
from volta.ops import table
from volta.utils.checkpoint import checkpoint

F = volta.nn.functional
WIDE = ["exp", "log", "sum", "prod", "norm", "logsumexp", "softmax", "log_softmax", "cumsum", "rsqrt", "pow", "layer_norm", "rms_norm",
        "kl_div"]
CALLS = {
    "matmul": lambda m, f, x, i: x @ x, "mm": lambda m, f, x, i: m.mm(x, x), "bmm": lambda m, f, x, i: m.bmm(i[0], i[0]),
    "linear": lambda m, f, x, i: f.linear(x, x), "conv2d": lambda m, f, x, i: f.conv2d(i, i[:, :, :3, :3]),
    "addmm": lambda m, f, x, i: m.addmm(x, x, x), "einsum": lambda m, f, x, i: m.einsum("ij,jk->ik", x, x),
    "attention": lambda m, f, x, i: f.scaled_dot_product_attention(i, i, i), "relu": lambda m, f, x, i: f.relu(x @ x),
    "add": lambda m, f, x, i: (x @ x) + x, "in place": lambda m, f, x, i: x.clone().add_(x @ x),
    "cat": lambda m, f, x, i: m.cat([x, x @ x]),
    "mean": lambda m, f, x, i: (x @ x).mean(), "var": lambda m, f, x, i: (x @ x).var(), "gelu": lambda m, f, x, i: f.gelu(x @ x),
    "mse": lambda m, f, x, i: f.mse_loss(x @ x, x),
    "cross entropy": lambda m, f, x, i: f.cross_entropy(x, m.tensor([0, 1, 2, 3], device=x.device)),
    "pool": lambda m, f, x, i: f.max_pool2d(f.conv2d(i, i), 1), "bilinear": lambda m, f, x, i: f.bilinear(x, x, x[None].repeat(2, 1, 1)),
    "batch norm": lambda m, f, x, i: f.batch_norm(i.half(), m.zeros(4, device=x.device), m.ones(4, device=x.device), None, None, True),
    "prelu": lambda m, f, x, i: f.prelu(x @ x, m.ones(1, device=x.device)),
    "embedding": lambda m, f, x, i: f.embedding(m.tensor([1], device=x.device), x),
    "attention layer": lambda m, f, x, i: m.nn.MultiheadAttention(4, 2).to(x.device)(x, x, x)[0],
    "encoder": lambda m, f, x, i: m.nn.TransformerEncoderLayer(4, 2).to(x.device)(x)}


def result(name, package, place, rng):
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (2, 4, 6, 6))]
    tensors = [package.tensor(a, device=place, requires_grad=True) for a in arrays]
    with package.autocast("cpu" if place == "cpu" else "cuda", dtype=package.float16):
        return CALLS[name](package, package.nn.functional, *tensors), tensors


@pytest.mark.parametrize("name", CALLS)
def test_dtypes_as_pytorchs(name, device, rng):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    (found, tensors), (wanted, _) = result(name, volta, device, rng), result(name, torch, "cpu", rng)
    assert str(found.dtype).split(".")[-1] == str(wanted.dtype).split(".")[-1]
    found.float().sum().backward()
    assert all(t.grad is None or t.grad.dtype is volta.float32 for t in tensors) and any(t.grad is not None for t in tensors)


@pytest.mark.parametrize("name", WIDE)
def test_functions_in_float32(name, device):
    """On a GPU as PyTorch's autocast on CUDA has them; also of float16 inputs, by method, and inside functions that are not listed."""
    x = (volta.rand(3, 4, device=device) + 0.5).half()
    more = {"softmax": (-1,), "log_softmax": (-1,), "logsumexp": (0,), "cumsum": (0,), "pow": (2,), "layer_norm": ((4,),),
            "rms_norm": ((4,),), "kl_div": (x,)}.get(name, ())
    function = getattr(volta, name, None) or getattr(F, name)
    assert function(x, *more).dtype is volta.float16
    with volta.autocast(device):
        assert function(x, *more).dtype is (volta.float32 if device == "gpu" or name in ("prod", "kl_div") else volta.float16)
        assert function(x.float(), *more).dtype is volta.float32
        if device == "cpu":
            assert function(x.double(), *((x.double(),) if name == "kl_div" else more)).dtype is volta.float64
    assert function(x, *more).dtype is volta.float16


PLACES = {  # a matrix x and labels -> a result
    "softmax": lambda m, x, k: m.softmax(x, -1), "softmax of F": lambda m, x, k: m.nn.functional.softmax(x, -1),
    "softmax of a product": lambda m, x, k: (x @ x).softmax(-1), "log_softmax": lambda m, x, k: m.nn.functional.log_softmax(x, -1),
    "layer_norm": lambda m, x, k: m.nn.functional.layer_norm(x, (4,)), "rms_norm": lambda m, x, k: m.nn.functional.rms_norm(x, (4,)),
    "group_norm": lambda m, x, k: m.nn.functional.group_norm(x[..., None], 2), "exp": lambda m, x, k: x.exp(),
    "batch_norm": lambda m, x, k: m.nn.functional.batch_norm(x, None, None, training=True), "pow": lambda m, x, k: x.pow(2),
    "cross_entropy": lambda m, x, k: m.nn.functional.cross_entropy(x, k), "mse_loss": lambda m, x, k: m.nn.functional.mse_loss(x, x),
    "nll_loss": lambda m, x, k: m.nn.functional.nll_loss(x, k), "kl_div": lambda m, x, k: m.nn.functional.kl_div(x, x),
    "bce": lambda m, x, k: m.nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid()), "sum": lambda m, x, k: x.sum(),
    "logits": lambda m, x, k: m.nn.functional.binary_cross_entropy_with_logits(x, x), "mean": lambda m, x, k: x.mean(),
    "smooth_l1_loss": lambda m, x, k: m.nn.functional.smooth_l1_loss(x, x), "huber_loss": lambda m, x, k: m.nn.functional.huber_loss(x, x),
    "prod": lambda m, x, k: x.prod(), "norm": lambda m, x, k: x.norm(), "cumsum": lambda m, x, k: x.cumsum(0),
    "var": lambda m, x, k: x.var(),
    "cdist": lambda m, x, k: m.cdist(x, x), "logsumexp": lambda m, x, k: x.logsumexp(0), "trace": lambda m, x, k: x.trace(),
    "normalize": lambda m, x, k: m.nn.functional.normalize(x), "svdvals": lambda m, x, k: m.linalg.svdvals(x),
    "cosine_similarity": lambda m, x, k: m.nn.functional.cosine_similarity(x, x), "cat": lambda m, x, k: m.cat([x, x.float()]),
    "grid_sample": lambda m, x, k: m.nn.functional.grid_sample(x[None, None], m.zeros(1, 2, 2, 2).to(x.dtype)),
    "prelu": lambda m, x, k: m.nn.functional.prelu(x, m.ones(1)), "einsum": lambda m, x, k: m.einsum("ij,kj->ik", x, x),
    "addmm": lambda m, x, k: m.addmm(m.ones(4, 4), x, x), "conv1d": lambda m, x, k: m.nn.functional.conv1d(x[None], m.ones(3, 4, 2)),
    "linear": lambda m, x, k: m.nn.functional.linear(x, x), "gelu": lambda m, x, k: m.nn.functional.gelu(x),
    "multi_margin_loss": lambda m, x, k: m.nn.functional.multi_margin_loss(x, k),
    "triplet_margin_loss": lambda m, x, k: m.nn.functional.triplet_margin_loss(x, x, x),
    "attention": lambda m, x, k: m.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", PLACES)
def test_lists_of_the_cpu(name, half):
    """Other functions are kept from half precision than on GPUs."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")

    def found(lib, dtype):
        x, labels = lib.arange(16.0).reshape(4, 4).div(10).to(dtype(lib)), lib.tensor([0, 1, 2, 3])
        with lib.autocast("cpu", dtype=getattr(lib, half)):
            return str(PLACES[name](lib, x, labels).dtype).split(".")[-1]
    for dtype in (lambda lib: lib.float32, lambda lib: getattr(lib, half)):
        assert found(volta, dtype) == found(torch, dtype)


def test_dtypes_that_are_set():
    assert volta.get_autocast_dtype("cpu") is volta.bfloat16 and volta.get_autocast_dtype("cuda") is volta.float16
    x = volta.ones(2, 2)
    with volta.autocast("cpu", volta.float16):
        assert volta.get_autocast_dtype("cpu") is volta.float16
        with volta.autocast("cpu"):
            assert (x @ x).dtype is volta.float16
        volta.amp.mode.set_autocast_dtype("cpu", volta.bfloat16)
        assert (x @ x).dtype is volta.bfloat16
    assert volta.get_autocast_dtype("cpu") is volta.bfloat16
    with pytest.raises(ArgumentError, match="set_autocast_dtype: needs float16 or bfloat16, got volta.float32"), pytest.warns(UserWarning):
        volta.amp.mode.set_autocast_dtype("cpu", volta.float32)


def test_regions(device):
    """Off inside, again after an error, as a decorator, and of one kind of device and one thread alone."""
    x, kind = volta.ones(2, 2, device=device), "cuda" if device == "gpu" else "cpu"
    other, seen, half = {"cuda": "cpu", "cpu": "cuda"}[kind], [], volta.float16 if device == "gpu" else volta.bfloat16
    with volta.autocast(kind):
        with volta.autocast(kind, enabled=False):
            assert (x @ x).dtype is volta.float32
        assert (x @ x).dtype is half and volta.is_autocast_enabled(kind) and not volta.is_autocast_enabled(other)
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
        assert volta.mm(x, x, out=volta.zeros(2, 2, device=device)).dtype is volta.float32
    assert seen == [volta.float32]
    with volta.autocast(other):
        assert (x @ x).dtype is volta.float32
    with pytest.raises(RuntimeError, match="inside"), volta.autocast(kind):
        raise RuntimeError("inside")
    assert (x @ x).dtype is volta.float32 and not volta.is_autocast_enabled(kind)
    assert volta.autocast(kind)(lambda: x @ x)().dtype is half
    mode_of = volta.cuda.amp.autocast if kind == "cuda" else volta.amp.cpu.autocast
    with mode_of():
        assert (x @ x).dtype is half
    with pytest.raises(ArgumentError, match="device_type must be"):
        volta.autocast("tpu")


def test_parameters_are_converted_once(device):
    layer, x = volta.nn.Linear(3, 3).to(device), volta.ones(2, 3, device=device)
    with volta.autocast(device):
        first = layer(x)
        count = len(mode._state.cache)
        second = layer(first)
        assert len(mode._state.cache) == count == 2
        with volta.no_grad():
            layer.weight.zero_()
        assert float(volta.no_grad(layer)(x).float().sum() - 2 * layer.bias.sum()) == pytest.approx(0, abs=1e-2)
    assert not mode._state.cache
    (first.float().sum() + second.float().sum()).backward()
    assert layer.weight.grad.dtype is volta.float32


def test_backward_has_the_dtypes_of_forward(device):
    layer, x = volta.nn.Linear(4, 4).to(device), volta.randn(5, 4, device=device)
    gradients = []
    for inside in (True, False):
        layer.zero_grad()
        with volta.autocast(device):
            loss = layer(x).softmax(1).pow(2).sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        gradients.append(layer.weight.grad)
    assert gradients[0].dtype is volta.float32 and volta.equal(*gradients)


def test_checkpoints_run_again_as_they_ran(device):
    layers = volta.nn.Sequential(volta.nn.Linear(4, 4), volta.nn.Tanh(), volta.nn.Linear(4, 4)).to(device)
    x, gradients = volta.randn(5, 4, device=device), []
    for call in (layers, lambda x: checkpoint(layers, x, use_reentrant=False)):
        layers.zero_grad()
        with volta.autocast(device):
            out = call(x)
        out.float().sum().backward()
        gradients.append(layers[0].weight.grad)
    assert volta.equal(*gradients)


def test_what_cannot_be_had_warns(device, monkeypatch):
    monkeypatch.setattr(mode, "_warned", set())
    if device == "gpu":
        with pytest.warns(UserWarning, match="bfloat16 is computed as float16"), volta.autocast(device, dtype=volta.bfloat16):
            assert (volta.ones(2, 2, device=device) @ volta.ones(2, 2, device=device)).dtype is volta.float16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        volta.autocast(device, dtype="bfloat16")
    with pytest.warns(UserWarning, match="autocast is off"), volta.autocast(device, dtype=volta.float32):
        assert not volta.is_autocast_enabled(device)
    monkeypatch.setattr(volta.gpu, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="no GPU that has shader-f16"), volta.autocast("cuda"):
        assert not volta.is_autocast_enabled("cuda")


def test_functions_of_users(device):
    seen = []

    class Doubled(volta.autograd.Function):
        @staticmethod
        @volta.amp.custom_fwd(device_type=device, cast_inputs=volta.float32)
        def forward(ctx, x):
            seen.append((x.dtype, volta.is_autocast_enabled(device)))
            return x * 2

        @staticmethod
        @volta.amp.custom_bwd(device_type=device)
        def backward(ctx, g):
            seen.append(volta.is_autocast_enabled(device))
            return g * 2

    class Product(Doubled):
        @staticmethod
        @volta.amp.custom_fwd(device_type=device)
        def forward(ctx, x):
            seen.append(volta.is_autocast_enabled(device))
            return x * 2

    x = volta.ones(2, 2, device=device, requires_grad=True)
    with volta.autocast(device):
        y, z = Doubled.apply(x @ x), Product.apply(x)
    (y.sum() + z.sum()).backward()
    assert seen == [(volta.float32, False), True, True, False] and x.grad.dtype is volta.float32


@pytest.mark.parametrize("clip", [False, True])
def test_training_stays_near_float32(clip, device):
    """The scaler begins with a factor that overflows, leaves steps out until it fits, and the losses follow float32's."""
    volta.manual_seed(0)
    x, y = volta.randn(64, 8, device=device), volta.randint(0, 3, (64,), device=device)
    losses = {}
    for mixed in (False, True):
        volta.manual_seed(1)
        net = volta.nn.Sequential(volta.nn.Linear(8, 32), volta.nn.BatchNorm1d(32), volta.nn.ReLU(), volta.nn.Linear(32, 3)).to(device)
        optimizer, scaler = volta.optim.Adam(net.parameters(), lr=1e-2), GradScaler(device, init_scale=2.0 ** 24, enabled=mixed)
        losses[mixed], skipped = [], 0
        while len(losses[mixed]) < 30:
            optimizer.zero_grad()
            with volta.autocast(device, volta.float16, enabled=mixed):
                loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            if clip:
                scaler.unscale_(optimizer)
                volta.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            if scaler.get_scale() < before:
                skipped += 1
            else:
                losses[mixed].append(loss.item())
        assert bool(skipped) == mixed and losses[mixed][-1] < 0.7 * losses[mixed][0]
    assert np.abs(np.subtract(losses[True], losses[False])).max() < 0.02


def test_scaler_as_pytorchs(device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    seen = []
    for package, place in ((torch, "cpu"), (volta, device)):
        p = package.ones(3, device=place, requires_grad=True)
        optimizer = package.optim.SGD([p], lr=0.5)
        scaler, found = package.amp.GradScaler(place, init_scale=8.0, growth_interval=2), []
        for value in (1.0, 2.0, math.inf, 0.5, math.nan, 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((p * value).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append((scaler.get_scale(), p.tolist()))
        copy = package.amp.GradScaler(place)
        copy.load_state_dict(scaler.state_dict())
        seen.append((found, copy.state_dict(), package.amp.GradScaler(place, enabled=False).state_dict()))
    assert seen[0] == seen[1]


def test_scaler_refuses_a_wrong_order():
    p = volta.ones(1, requires_grad=True)
    optimizer, scaler = volta.optim.SGD([p], lr=0.1), GradScaler("cpu")
    with pytest.raises(ArgumentError, match="call step, or unscale_, first"):
        scaler.update()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(ArgumentError, match="has been called for this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(ArgumentError, match="step: has been called"):
        scaler.step(optimizer)
    with pytest.raises(ArgumentError, match="growth_factor > 1"):
        GradScaler(growth_factor=1.0)
    assert volta.cuda.amp.GradScaler(4.0).get_scale() == 4.0 and [float(t) for t in GradScaler(init_scale=2.0).scale([p, p])] == [
        pytest.approx(1.8)] * 2


def switched(package, log):
    """A program that switches autocast without a region of its own."""
    x = package.ones(2, 2)

    def note():
        log.append([package.is_autocast_enabled("cpu"), str((x @ x).dtype).split(".")[-1]])
    package.set_autocast_enabled("cpu", True)
    log.append([package.autocast_increment_nesting(), package.autocast_increment_nesting(), package.autocast_decrement_nesting()])
    note()
    with package.autocast("cpu", enabled=False):
        note()
        package.set_autocast_enabled("cpu", True)
        note()
    note()
    with package.autocast("cpu", dtype=package.float16):
        package.set_autocast_enabled("cpu", False)
        note()
    note()
    log.append(package.autocast_decrement_nesting())
    package.clear_autocast_cache()
    package.set_autocast_enabled("cpu", False)
    note()
    with package.autocast("cpu"):
        package.set_autocast_enabled("cpu", False)
        package.set_autocast_enabled("cpu", True)
        note()
        log.append([package.autocast_increment_nesting(), package.autocast_decrement_nesting()])
    note()


def test_autocast_that_is_switched_on_outside_of_regions():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    found, wanted = [], []
    switched(volta, found)
    switched(torch, wanted)
    assert found == wanted
    assert not mode._state.holds and not mode._state.depth


def test_the_older_names_of_each_device():
    with pytest.warns(DeprecationWarning, match="write is_autocast_enabled"):
        assert volta.is_autocast_cpu_enabled() is False
    with pytest.warns(DeprecationWarning, match="write get_autocast_dtype"):
        assert volta.get_autocast_cpu_dtype() is volta.bfloat16
    with pytest.warns(DeprecationWarning, match="write set_autocast_dtype"):
        volta.set_autocast_cpu_dtype(volta.float16)
    assert volta.get_autocast_dtype("cpu") is volta.float16
    volta.set_autocast_dtype("cpu", volta.bfloat16)
    with pytest.warns(DeprecationWarning, match="write set_autocast_enabled"):
        volta.set_autocast_cpu_enabled(True)
    assert volta.is_autocast_enabled("cpu") and (volta.ones(2, 2) @ volta.ones(2, 2)).dtype is volta.bfloat16
    volta.set_autocast_enabled("cpu", False)
    volta.set_autocast_enabled(False)                   # of GPUs, as in PyTorch
    with pytest.raises(TypeError, match="enabled must be True or False, got 1"):
        volta.set_autocast_enabled("cpu", 1)


def test_what_is_listed_is_there():
    declared = {op.__name__ for op in table.FUNCTIONS.values()} | {op.name for op in table.RECORDS.values()}
    assert not {name for policies in mode.POLICIES.values() for name in policies} - declared
