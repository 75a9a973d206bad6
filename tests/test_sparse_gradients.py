"""Sparse gradients of embeddings, and the optimizers that take them: as the dense ones, and as PyTorch has them where it is installed."""
import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError, DTypeError
from volta.nn.functional import embedding, embedding_bag

ROWS, PLACES = 7, [[1, 3, 1, 0], [2, 2, 6, 1], [5, 3, 1, 2]]


def table(device, **options):
    return volta.linspace(-1, 1, 3 * ROWS, device=device).reshape(ROWS, 3).requires_grad_(**options)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"max_norm": 0.5}], ids=str)
@pytest.mark.parametrize("mode", [None, "sum", "mean"])
def test_as_the_dense_gradient(device, mode, options):
    found, at = [], volta.tensor(PLACES, device=device)
    for sparse in (True, False):
        weight = table(device)
        for factor in (1, 2):
            y = embedding(at, weight, sparse=sparse, **options) if mode is None else embedding_bag(at, weight, mode=mode, sparse=sparse,
                                                                                                   **options)
            (factor * y ** 2).sum().backward()
        assert weight.grad.is_sparse is sparse
        found.append(weight.grad.to_dense().cpu().numpy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_where_gradients_meet(device):
    """Of a sparse and a dense one the sum is dense, in the place of the dense one; what is no leaf gets a dense one."""
    at, weight = volta.tensor(PLACES[0], device=device), table(device)
    (embedding(at, weight, sparse=True).sum() + weight.sum()).backward()
    held = weight.grad
    assert not held.is_sparse and held[:, 0].tolist() == [2.0, 3.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    embedding(at, weight, sparse=True).sum().backward()
    assert weight.grad is held and held[:, 0].tolist() == [3.0, 5.0, 1.0, 3.0, 1.0, 1.0, 1.0]
    weight.grad = None
    embedding(at, 2 * weight, sparse=True).sum().backward()
    assert weight.grad[:, 0].tolist() == [2.0, 4.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    g, = volta.autograd.grad(embedding(at, weight, sparse=True).pow(3).sum(), weight, create_graph=True)
    second, = volta.autograd.grad(g.to_dense().sum(), weight)
    np.testing.assert_allclose(second.to_dense().cpu().numpy()[3], 6 * weight[3].detach().cpu().numpy(), rtol=1e-5)
    volta.optim.SGD([weight]).zero_grad(set_to_none=False)
    assert not weight.grad.to_dense().any()
    seen = []
    weight.register_hook(lambda g: seen.append(g.is_sparse))
    loss = embedding(at, weight, sparse=True).sum()
    at += 1
    with pytest.raises(AutogradError, match="changed in place"):
        loss.backward()
    embedding(at, weight, sparse=True).sum().backward()
    assert seen == [True]


STEPS = [("SGD", {"lr": 0.5}), ("SGD", {"lr": 0.5, "maximize": True}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
         ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}), ("Adagrad", {"lr": 0.1, "maximize": True}),
         ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.3}), ("SparseAdam", {"lr": 0.1}),
         ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.9), "maximize": True})]


def _trained(library, device, name, options):
    layer = library.nn.Embedding(ROWS, 3, padding_idx=2, sparse=True, device=device)
    layer.weight.data.copy_(library.linspace(-1, 1.3, 3 * ROWS).reshape(ROWS, 3).to(device))
    optimizer = getattr(library.optim, name)(layer.parameters(), **options)
    for _ in range(2):
        for at in PLACES:
            optimizer.zero_grad()
            at = library.tensor(at).to(device)
            with volta.gpu.forbid_transfers():
                (layer(at) ** 3).sum().backward()
                optimizer.step()
    return layer.weight.detach().cpu().numpy(), optimizer


@pytest.mark.parametrize("name, options", STEPS, ids=str)
def test_steps_against_torch(device, name, options):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    (found, ours), (expected, theirs) = _trained(volta, device, name, options), _trained(torch, "cpu", name, options)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert set(ours.state_dict()["state"].get(0, {})) == set(theirs.state_dict()["state"].get(0, {}))


def test_refusals():
    at, weight = volta.tensor(PLACES[0]), table("cpu")
    embedding(at, weight, sparse=True).sum().backward()
    for name in ("Adam", "RMSprop", "Adadelta", "Rprop", "ASGD", "Adafactor"):
        with pytest.raises(DTypeError, match=f"{name}: takes no sparse gradients; use SparseAdam"):
            getattr(volta.optim, name)([weight]).step()
    for name in ("SGD", "Adagrad"):
        with pytest.raises(DTypeError, match=f"{name}: weight_decay is that of all rows"):
            getattr(volta.optim, name)([weight], weight_decay=0.1).step()
    for clip in (volta.nn.utils.clip_grad_norm_, volta.nn.utils.clip_grad_value_):
        with pytest.raises(DTypeError, match="takes no sparse gradients"):
            clip([weight], 1.0)
    with pytest.raises(ArgumentError, match="embedding_bag: mode='max' does not take sparse=True"):
        embedding_bag(at[None], weight, mode="max", sparse=True)
    with pytest.raises(ArgumentError, match="SparseAdam: lr must be a number above 0"):
        volta.optim.SparseAdam([weight], lr=0.0)
    weight.grad = volta.ones(ROWS, 3)
    with pytest.raises(DTypeError, match="SparseAdam: the gradient of a parameter of shape .* is dense"):
        volta.optim.SparseAdam([weight]).step()


def test_a_schedule_of_sparse_adam_may_end_in_no_step():
    weight = table("cpu")
    optimizer = volta.optim.SparseAdam([weight], lr=0.1)
    schedule = volta.optim.lr_scheduler.PolynomialLR(optimizer, 1)
    for _ in range(2):
        before = weight.detach().clone()
        optimizer.zero_grad()
        embedding(volta.tensor(PLACES[0]), weight, sparse=True).sum().backward()
        optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [0.0] and volta.equal(weight, before)
