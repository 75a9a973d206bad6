"""`vmap`: every op over batches as sample by sample, compositions of transforms, what is refused; against PyTorch where it is installed."""
import threading

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta._kernels.core.call import Observer
from volta.errors import ArgumentError, AutogradError
from volta.func import functional_call, grad, jacrev, jvp, stack_module_state, vjp, vmap
from volta.ops.table import Derived
from volta.selftest import cases
from volta.testing import assert_close
from volta.trees import flatten

RECORDS = cases.records()       # before other tests make some of their own

# Functions that read values, draw numbers or give no tensors: refused by name.
REFUSED = ("reads values", "draws random numbers", "must give tensors")


def _batched_as_looped(op, case, device, rng):
    """Compare for all inputs batched, and for the first alone and the others alone. Gives how many were compared."""
    compared, samples = 0, [cases.as_precision(cases.sample(op, case, rng, volta.float32), volta.float32) for _ in range(3)]
    places = [i for i, x in enumerate(samples[0]) if isinstance(x, np.ndarray)]
    if any(isinstance(x, list) for x in samples[0]):
        return 0
    apart = not any(isinstance(spec, Derived) for spec in case.inputs)          # what is derived from another input comes with it
    for mapped in {tuple(places), *((tuple(places[:1]), tuple(places[1:])) if apart else ())} - {()}:
        given = [[x if i in mapped or not isinstance(x, np.ndarray) else samples[0][i] for i, x in enumerate(s)] for s in samples]
        each = [[volta.tensor(x, device=device) if isinstance(x, np.ndarray) else x for x in s] for s in given]
        try:
            wanted = [flatten(op(*s, **case.params))[0] for s in each]
        except volta.errors.DeviceError:
            return 0
        whole = [volta.stack([s[i] for s in each]) if i in mapped else each[0][i] for i in range(len(each[0]))]
        try:
            dims = tuple([0 if i in mapped else None for i in range(len(whole))])
            found = flatten(vmap(lambda *args: op(*args, **case.params), dims)(*whole))[0]
        except ArgumentError as error:
            assert any(text in str(error) for text in REFUSED), (op.name, str(error))
            return 0
        for k, y in enumerate(found):
            assert y.dtype is wanted[0][k].dtype, op.name
            np.testing.assert_allclose(y.cpu().numpy(), np.stack([w[k].cpu().numpy() for w in wanted]), rtol=2e-4, atol=2e-4,
                                       err_msg=f"{op.name} {mapped}")
        compared += 1
    return compared


@pytest.mark.filterwarnings("ignore:vmap. .* has no rule:UserWarning")
def test_every_op_over_batches(device):
    rng, compared = np.random.default_rng(0), 0
    for op in RECORDS + (cases.composed() if device == "cpu" else []):
        if "f" in op.details.kinds:
            compared += sum(_batched_as_looped(op, case, device, rng) for case in op.details.cases[:3])
    assert compared > (1200 if device == "cpu" else 200), compared


# ---------------------------------------------------------------- dimensions
def test_dimensions(device):
    x = volta.arange(6.0, device=device).reshape(3, 2)
    assert vmap(volta.sum, in_dims=-1)(x).tolist() == [6.0, 9.0]
    assert vmap(lambda a: 2 * a, out_dims=1)(x).tolist() == (2 * x).T.tolist()
    assert vmap(lambda a: {"a": a, "b": (a, a.sum())}, out_dims={"a": 1, "b": (0, 0)})(x)["a"].shape == (2, 3)
    found = vmap(lambda d, y: d["a"] * d["b"] + y, in_dims=({"a": 0, "b": None}, None))({"a": x, "b": x[0]}, 1.0)
    assert found.tolist() == (x * x[0] + 1).tolist()
    assert vmap(lambda a: volta.ones(2))(x).shape == (3, 2)
    found = vmap(lambda a: (2 * a, volta.ones(2)), out_dims=(0, None), chunk_size=2)(x)
    assert found[0].tolist() == (2 * x).tolist() and found[1].shape == (2,)
    assert vmap(vmap(volta.dot, (None, 0)), (0, None))(x, x).tolist() == (x @ x.T).tolist()
    assert vmap(lambda a, b: a * b)(x, b=x).shape == (3, 3, 2)                     # what is given by name is the same for all
    assert volta.vmap is vmap


@pytest.mark.parametrize("call, text", [
    (lambda x: vmap(volta.dot)(x, x[:2]), r"must have one size, got \[2, 3\]"),
    (lambda x: vmap(volta.dot, (None, None))(x, x), "at least one tensor"),
    (lambda x: vmap(volta.dot, (0,))(x, x), "does not have the structure"),
    (lambda x: vmap(lambda a: 3)(x), "must give tensors, got int"),
    (lambda x: vmap(lambda a: a, 2)(x), "in_dim 2 is outside the 2 dimensions"),
    (lambda x: vmap(lambda a, b: a * b)(x, 2.0), "in_dims is 0 for an argument that is float"),
    (lambda x: vmap(lambda a: a, out_dims=None)(x), "differs from sample to sample"),
    (lambda x: vmap(lambda a: a, chunk_size=0)(x), "chunk_size must be None or above 0"),
    (lambda x: vmap(lambda a: a, randomness="x")(x), "randomness must be"),
    (lambda x: vmap(lambda a: a if a.sum() > 0 else -a)(x), "reads values"),
    (lambda x: vmap(lambda a: a[a > 0])(x), "reads values"),
    (lambda x: vmap(lambda a: a.sum().item())(x), "reads values"),
    (lambda x: vmap(lambda a: volta.rand(2) + a)(x), "uniform draws random numbers"),
    (lambda x: vmap(lambda a: F.dropout(a))(x), "dropout draws random numbers")])
def test_refusals(call, text):
    with pytest.raises(ArgumentError, match=text):
        call(volta.arange(6.0).reshape(3, 2))


def test_refused_gradients():
    x = volta.ones(3, 2, requires_grad=True)
    for call in (lambda a: a.sum().backward(), lambda a: a.requires_grad_()):
        with pytest.raises(AutogradError, match="not inside vmap"):
            vmap(call)(x)


def test_randomness():
    x = volta.ones(4, 1000)
    assert (vmap(F.dropout, randomness="different")(x).std(0) > 0).any()
    assert (vmap(F.dropout, randomness="same")(x).std(0) == 0).all()
    assert (vmap(lambda a: volta.rand(1000) + a, randomness="same")(x).std(0) == 0).all()


def test_samples_draw_differently():
    x = volta.ones(3, 8)
    for draws in (lambda a: volta.rand(50), lambda a: volta.randn(50), lambda a: volta.randperm(50), lambda a: volta.randint(0, 9, (50,)),
                  lambda a: volta.bernoulli(volta.full((50,), 0.5)), lambda a: F.dropout(volta.ones(50)),
                  lambda a: volta.rand_like(volta.ones(50)), lambda a: volta.normal(volta.ones(50), 1.0),
                  lambda a: a.sum() + volta.rand(50)):
        drawn = vmap(draws, randomness="different")(x)
        assert drawn.shape == (3, 50) and len({tuple(row) for row in drawn.tolist()}) == 3
        assert len({tuple(row) for row in vmap(draws, randomness="same")(x).tolist()}) == 1
        with pytest.raises(ArgumentError, match="draws random numbers; pass randomness='same' or 'different'"):
            vmap(draws)(x)
    nested = vmap(vmap(lambda a: volta.rand(6), randomness="different"), randomness="different")(volta.ones(2, 3))
    assert nested.shape == (2, 3, 6) and len({tuple(row) for rows in nested.tolist() for row in rows}) == 6
    for randomness in ("different", "error"):
        with pytest.raises(ArgumentError, match="draw_into draws random numbers that all samples share"):
            vmap(lambda a: a + volta.empty(8).normal_(), randomness=randomness)(x)


def test_what_is_drawn_later_is_no_part_of_what_was_drawn():
    first, second = vmap(lambda a: (F.dropout(a, 0.5), F.dropout(a, 0.5)), randomness="different")(volta.ones(4, 64))
    masks = [tuple(row) for row in (*first.tolist(), *second.tolist())]
    assert len(set(masks)) == 8
    one, two = vmap(lambda a: (volta.rand(64), volta.rand(64)), randomness="different")(volta.ones(4))
    assert len(volta.cat((one, two)).flatten().unique()) > 500


def test_threads():
    """What another thread does meanwhile is not mapped."""
    inside, done, found = threading.Event(), threading.Event(), []

    def other():
        inside.wait()
        found.append((volta.rand(3) * 2).sum().item())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def function(a):
        inside.set()
        done.wait()
        return a * 2
    assert vmap(function)(volta.ones(2)).tolist() == [2.0, 2.0] and len(found) == 1
    thread.join()


# ---------------------------------------------------------------- with derivatives
def _network(library):
    nn = library.nn
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.GroupNorm(2, 4), nn.MaxPool2d(2),
                         nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.GELU(), nn.Flatten(), nn.Linear(24, 16), nn.LayerNorm(16), nn.Tanh(),
                         nn.Linear(16, 10))


def test_gradients_per_sample(device):
    """Of a network with weights of every kind, by one call; and the outputs of an ensemble."""
    volta.manual_seed(0)
    model = _network(volta).to(device)
    images, labels = volta.randn(4, 1, 12, 12).to(device), volta.tensor([1, 0, 3, 9]).to(device)
    weights = dict(model.named_parameters())

    def loss(weights, image, label):
        return F.cross_entropy(functional_call(model, weights, (image[None],)), label[None])
    found = vmap(grad(loss), (None, 0, 0))(weights, images, labels)
    for i in range(4):
        model.zero_grad()
        F.cross_entropy(model(images[i:i + 1]), labels[i:i + 1]).backward()
        for name, p in model.named_parameters():
            np.testing.assert_allclose(found[name][i].detach().cpu().numpy(), p.grad.cpu().numpy(), rtol=1e-3, atol=1e-5, err_msg=name)
    models = [_network(volta).to(device) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    outputs = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), (0, 0, None))(parameters, buffers, images)
    for model, output in zip(models, outputs):
        np.testing.assert_allclose(output.detach().cpu().numpy(), model(images).detach().cpu().numpy(), rtol=1e-3, atol=1e-5)
    outputs.sum().backward()
    assert all(p.grad.shape == p.shape for p in parameters.values())


def test_compositions_against_torch(device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 3), (3, 4))]

    def results(library, transforms, device):
        x, w = (library.tensor(a).to(device) for a in arrays)
        t, tanh = transforms, library.tanh

        def square(x):
            return (tanh(x @ w) ** 2).sum()

        yield t.vmap(t.grad(lambda w, x: (tanh(x @ w) ** 2).sum()), (None, 0))(w, x)
        yield t.grad(lambda w: t.vmap(lambda x: (tanh(x @ w) ** 3).sum())(x).sum())(w)
        yield t.vmap(t.jacrev(lambda x: tanh(x @ w)))(x)
        yield t.vmap(t.jacfwd(lambda x: tanh(x @ w)))(x)
        yield t.vmap(t.hessian(square))(x)
        yield t.vmap(t.grad(lambda v: t.grad(square)(v).pow(2).sum()))(x)
        yield t.jacrev(lambda w: t.vmap(lambda x: library.sin(x @ w).sum())(x))(w)
        yield t.vmap(t.vjp(lambda x: tanh(x @ w), x[0])[1])(library.eye(4).to(device))[0]
        yield t.vmap(lambda v: t.jvp(lambda x: tanh(x @ w), (x[0],), (v,))[1])(x)
        yield t.vmap(lambda x, v: t.vjp(library.sin, x)[1](v)[0])(x, x)
        yield t.vmap(lambda x: t.vmap(t.vjp(lambda x: tanh(x @ w), x)[1])(library.eye(4).to(device))[0])(x)
        yield t.vmap(lambda v: t.vmap(t.vjp(lambda x: tanh(x * v), x[0])[1])(x)[0])(x)
    for ours, theirs in zip(results(volta, volta.func, device), results(torch, torch.func, "cpu")):
        np.testing.assert_allclose(ours.detach().cpu().numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


class Seen(Observer):
    def __init__(self):
        self.names = []

    def before(self, op, device, inputs, params, out):
        self.names.append(op.name)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_distances_of_batches_are_one_call(device, rng, p):
    x, y = (volta.tensor(rng.standard_normal(s).astype("f4"), device=device) for s in ((3, 5, 4), (6, 4)))
    calls = {"one": lambda a: volta.cdist(a, y, p, compute_mode="donot_use_mm_for_euclid_dist"),
             "other": lambda a: volta.cdist(y, a, p, compute_mode="donot_use_mm_for_euclid_dist"), "pairs": lambda a: volta.pdist(a, p)}
    for name, call in calls.items():
        with Seen() as seen:
            found = vmap(call)(x)
        np.testing.assert_allclose(found.cpu().numpy(), np.stack([call(a).cpu().numpy() for a in x]), rtol=1e-6, err_msg=name)
        assert device == "cpu" or seen.names.count("distances") == 1        # on a CPU of operations with rules of their own
        slopes = vmap(grad(lambda a, call=call: (call(a) ** 2).sum()))(x)
        leaf = x.clone().requires_grad_()
        sum((call(a) ** 2).sum() for a in leaf).backward()
        np.testing.assert_allclose(slopes.cpu().numpy(), leaf.grad.cpu().numpy(), rtol=2e-5, atol=1e-5, err_msg=name)


def test_gradients_of_samples_go_back_through_nodes_recorded_outside():
    x, w = volta.linspace(-1.3, 1.3, 72).reshape(2, 1, 6, 6), volta.linspace(-1, 2, 18).reshape(2, 1, 3, 3)

    def net(w, x):                  # a pool's gradient is tied to its input, of which a sample has no values
        return F.max_pool2d(F.conv2d(x[None], w), 2).flatten()

    def kernel(a, b):
        found, pull = vjp(lambda w: net(w, a), w)
        return vmap(lambda v: jvp(lambda w: net(w, b), (w,), pull(v))[1])(volta.eye(found.numel()))

    slopes = vmap(lambda x: jacrev(net)(w, x))(x).flatten(2)
    assert_close(vmap(vmap(kernel, (None, 0)), (0, None))(x, x), volta.einsum("aif,bjf->abij", slopes, slopes), rtol=1e-4, atol=1e-4)
