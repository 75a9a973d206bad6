"""Sparse tensors by coordinates: values, gradients and refusals; against PyTorch where it is installed."""
import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, DTypeError, ShapeError

AT, OF, SHAPE = [[0, 2, 1, 2], [1, 0, 2, 0]], [1.0, 2.0, -3.0, 4.0], (3, 4)
DENSE = np.zeros(SHAPE, np.float32)
np.add.at(DENSE, tuple(np.array(AT)), OF)


def made(device="cpu", **options):
    return volta.sparse_coo_tensor(AT, OF, SHAPE, device=device, **options)


def test_forms(device):
    x = made(device)
    assert (x.shape, x.dtype, x.device.type, x._nnz(), x.is_coalesced(), x.is_sparse) == (SHAPE, volta.float32, volta.device(device).type,
                                                                                      4, False, True)
    np.testing.assert_array_equal(x.to_dense().cpu().numpy(), DENSE)
    once = x.coalesce()
    assert once.indices().tolist() == [[0, 1, 2], [1, 2, 0]] and once.values().tolist() == [1.0, -3.0, 6.0]
    again = x.to_dense().to_sparse()
    assert again.is_coalesced() and again.indices().tolist() == once.indices().tolist() and again.values().tolist() == [1.0, -3.0, 6.0]
    np.testing.assert_array_equal(x.t().to_dense().cpu().numpy(), DENSE.T)
    np.testing.assert_array_equal(volta.sparse.sum(x, 0).to_dense().cpu().numpy(), DENSE.sum(0))
    assert x.sum().item() == 4 and x.long().dtype is volta.int64 and x.cpu().device.type == "cpu" and "nnz=4" in repr(x)
    blocks = volta.sparse_coo_tensor([[2, 0]], [[1.0, 2.0], [3.0, 4.0]], device=device)
    assert blocks.shape == (3, 2) and (blocks.sparse_dim(), blocks.dense_dim()) == (1, 1)
    assert blocks.to_dense().tolist() == [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    assert volta.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0.0] * 3] * 2


def test_arithmetic(device):
    x, other = made(device), volta.arange(12.0, device=device).reshape(SHAPE)
    for found, expected in ((x + other, DENSE + other.cpu().numpy()), (other + x, DENSE + other.cpu().numpy()),
                            ((x + x.coalesce()).to_dense(), 2 * DENSE), ((x * other).to_dense(), DENSE * other.cpu().numpy()),
                            ((2 * x / 4).to_dense(), DENSE / 2), ((x - -x).to_dense(), 2 * DENSE),
                            (volta.mm(x, other.T), DENSE @ other.T.cpu().numpy()), (other.T @ x, other.T.cpu().numpy() @ DENSE),
                            (volta.spmm(x, other.T), DENSE @ other.T.cpu().numpy()), (x @ other[0], DENSE @ other[0].cpu().numpy()),
                            (volta.sparse.addmm(volta.ones(3, 3, device=device), x, other.T), 1 + DENSE @ other.T.cpu().numpy())):
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-5)


def test_gradients_reach_both_factors(device):
    values = volta.tensor(OF, device=device, requires_grad=True)
    b = volta.arange(8.0, device=device).reshape(4, 2).requires_grad_()
    (volta.sparse.mm(volta.sparse_coo_tensor(AT, values, SHAPE), b) ** 2).sum().backward()
    dense = volta.tensor(DENSE, device=device, requires_grad=True)
    c = b.detach().clone().requires_grad_()
    ((dense @ c) ** 2).sum().backward()
    np.testing.assert_allclose(b.grad.cpu().numpy(), c.grad.cpu().numpy())
    np.testing.assert_allclose(values.grad.cpu().numpy(), dense.grad.cpu().numpy()[tuple(np.array(AT))])


@pytest.mark.parametrize("call, error, text", [
    (lambda x: x.values(), ArgumentError, "values: places may have several entries; call coalesce"),
    (lambda x: volta.relu(x), DTypeError, "relu"), (lambda x: volta.softmax(x, 0), DTypeError, "softmax: takes no sparse tensor"),
    (lambda x: x @ x.t(), DTypeError, "one must be dense"), (lambda x: x @ volta.ones(3, 2), ShapeError, "inner sizes agree"),
    (lambda x: x @ volta.ones(4, 2, dtype=volta.float64), DTypeError, "must have one dtype"),
    (lambda x: volta.sparse_coo_tensor(AT, OF, (3, 2)), ArgumentError, "lie outside size"),
    (lambda x: volta.sparse_coo_tensor([[0, -1]], [1.0, 1.0], (3,)), ArgumentError, "lie outside size"),
    (lambda x: volta.sparse_coo_tensor(AT, [1.0], SHAPE), ShapeError, "must have shape"),
    (lambda x: volta.sparse_coo_tensor(AT, OF, (3,)), ShapeError, "does not fit"),
    (lambda x: x.transpose(0, 2), IndexError, "transpose"), (lambda x: x * volta.ones(3, 1), ShapeError, "shapes differ")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call(made())


def test_against_torch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x, theirs = made(), torch.sparse_coo_tensor(AT, OF, SHAPE)
    for f in (lambda x: x.coalesce().indices(), lambda x: x.coalesce().values(), lambda x: x.t().to_dense(), lambda x: x.sum(),
              lambda x: x.to_dense().to_sparse().indices(), lambda x: (x + x).coalesce()._nnz(), lambda x: (x * 3).coalesce().values(),
              lambda x: x.sum(1).to_dense(), lambda x: x.double().to_dense(), lambda x: x.size(-1), lambda x: len(x)):
        np.testing.assert_array_equal(np.asarray(f(x)), np.asarray(f(theirs)))


def test_a_number_as_a_sparse_tensor(device):
    x = volta.tensor(5.0, device=device, requires_grad=True)
    held = x.to_sparse()
    assert held.indices().shape == (0, 1) and held.values().tolist() == [5.0] and held.shape == ()
    assert volta.autograd.grad(held.to_dense() * 2, x)[0].item() == 2.0
    assert volta.tensor(0.0, device=device).to_sparse().values().shape == (0,)
    twice = volta.sparse_coo_tensor(volta.zeros(0, 2, dtype=volta.int64), volta.ones(2), (), device=device)
    assert twice.to_dense().item() == 2.0 and twice.coalesce().values().tolist() == [2.0]
