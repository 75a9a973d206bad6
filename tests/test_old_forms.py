"""Calls as older programs and today's loaders write them: factors by position, dimensions without a tuple, words for storage."""
import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError, IndexTypeError, RankError


def test_factors_by_position(device):
    x, y, z = (volta.tensor(v, device=device) for v in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]))
    assert volta.add(x, 10, y).tolist() == x.add(10, y).tolist() == x.clone().add_(10, y).tolist() == [31.0, 42.0]
    assert volta.sub(x, 10, y).tolist() == x.clone().sub_(10, y).tolist() == [-29.0, -38.0]
    assert volta.addcmul(x, 2, y, z).tolist() == x.clone().addcmul_(2, y, z).tolist() == [31.0, 50.0]
    np.testing.assert_allclose(x.clone().addcdiv_(-1, y, z).tolist(), [0.4, 4 / 3], rtol=1e-6)
    with pytest.raises(TypeError):
        volta.add(x, 10, y, alpha=2)
    with pytest.raises(TypeError):
        volta.mul(x, 10, y)


@pytest.mark.parametrize("name, shapes", [("addmm", ((2, 2), (2, 3), (3, 2))), ("addmv", ((2,), (2, 3), (3,))),
                                          ("addr", ((2, 3), (2,), (3,))), ("addbmm", ((2, 2), (4, 2, 3), (4, 3, 2))),
                                          ("baddbmm", ((4, 2, 2), (4, 2, 3), (4, 3, 2)))])
def test_factors_of_products_by_position(name, shapes, device):
    x, a, b = (volta.arange(float(np.prod(s)), device=device).reshape(s) for s in shapes)
    function, both, one = getattr(volta, name), dict(beta=0.5, alpha=2), dict(beta=0.5)
    for given, factors in ((both, (0.5, 2)), (one, (0.5,))):
        expected, method, in_place = function(x, a, b, **given).numpy(), getattr(x, name), getattr(x.clone(), name + "_")
        for made in (function(factors[0], x, *factors[1:], a, b), method(*factors, a, b), in_place(*factors, a, b)):
            np.testing.assert_array_equal(made.numpy(), expected)
    with pytest.raises(TypeError):
        function(0.5, x, 2, a, b, beta=1)


def test_dimensions_without_a_tuple(device):
    x = volta.ones(1, 2, 1, device=device)
    assert x.squeeze(0, 2).shape == x.clone().squeeze_(0, 2).shape == (2,)
    assert x.count_nonzero(0, 1).tolist() == [2]
    assert [part.shape for part in volta.ones(2, 3, device=device).hsplit(1, 2)] == [(2, 1)] * 3


def test_words_for_storage(device):
    x = volta.ones(2, device=device)
    for made in (volta.zeros(2, layout=volta.strided, pin_memory=False, device=device), x.new_zeros(2, pin_memory=False),
                 volta.zeros_like(x, layout=volta.strided), volta.tensor([0.0, 0.0], pin_memory=False, device=device)):
        assert made.tolist() == [0.0, 0.0] and made.device == x.device
    with pytest.raises(ArgumentError, match="zeros: tensors are strided, layout=volta.sparse_coo is not available; leave it out"):
        volta.zeros(2, layout=volta.layout.sparse_coo)
    with pytest.raises(ArgumentError, match="ones: there is no pinned memory, pin_memory=True is not available; leave it out"):
        volta.ones(2, pin_memory=True)
    with pytest.raises(TypeError, match="pin_memory"):
        volta.exp(x, pin_memory=False)


def test_keywords_of_overloads(device):
    x = volta.tensor([4.0, 2.0], device=device)
    assert [part.tolist() for part in volta.split(tensor=x, split_size_or_sections=1)] == [[4.0], [2.0]]
    assert volta.zeros(2, device=device).copy_(other=x).tolist() == [4.0, 2.0]
    assert volta.histogram(volta.arange(4.0)).hist.shape == (100,)
    assert volta.meshgrid(x, x, indexing=None)[0].shape == (2, 2)
    eye = volta.eye(2)
    assert volta.cholesky_inverse(input=eye).tolist() == volta.lu_solve(input=eye, LU_data=eye, LU_pivots=volta.tensor(
        [1, 2], dtype=volta.int32)).tolist() == volta.triangular_solve(input=eye, A=eye).solution.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_tables_of_integers(device):
    table, at = volta.arange(6, device=device).reshape(3, 2), volta.tensor([2, 0], device=device)
    assert volta.nn.functional.embedding(at, table).tolist() == [[4, 5], [0, 1]]
    assert volta.nn.functional.embedding(at, table > 2).tolist() == [[True, True], [False, False]]
    with pytest.raises(TypeError, match="embedding: weight must be floating point"):
        volta.nn.functional.embedding(at, table, max_norm=1.0)


def test_classes_of_errors(device):
    x, matrix = volta.tensor(1.0, device=device), volta.ones(2, 2, device=device)
    for call in (lambda: x.select(0, 0), lambda: volta.bmm(matrix, matrix), lambda: volta.mv(x, x),
                 lambda: volta.nn.functional.embedding(x.long(), x), lambda: volta.index_select(matrix, 0, matrix.long())):
        with pytest.raises(RankError):
            call()
        with pytest.raises(IndexError):
            call()
    for index in (volta.ones(1, device=device), 1.0, "a"):
        with pytest.raises(IndexTypeError):
            matrix[index]
    with pytest.raises(IndexError, match="dim 2 is out of range"):
        volta.linalg.tensorsolve(matrix, matrix, dims=(2,))
    with pytest.raises(ValueError, match="reduction must be a string, got int"):
        volta.nn.functional.mse_loss(matrix, matrix, reduction=1)
    with pytest.raises(TypeError, match="is_contiguous: memory_format must be a memory format"):
        matrix.is_contiguous(memory_format=None)
    with pytest.raises(AutogradError, match="detach_: a view"):
        matrix.view(4).detach_()
    with pytest.raises(ArgumentError, match="one_hot: no elements say how many classes there are"):
        volta.nn.functional.one_hot(volta.empty(0, dtype=volta.int64, device=device))


def test_gradients_that_are_zero(device):
    x = volta.tensor([1.0, float("nan"), -2.0], device=device, requires_grad=True)
    assert volta.autograd.grad(volta.angle(x).sum(), x)[0].tolist() == [0.0, 0.0, 0.0]
    x, other = volta.tensor([1.0, 2.0], device=device, requires_grad=True), volta.tensor([1.0, 3.0], device=device, requires_grad=True)
    volta.nextafter(x, other).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0] and other.grad.tolist() == [0.0, 0.0]
    source = volta.empty(0, device=device, requires_grad=True)
    made = volta.put(volta.ones(2, device=device), volta.empty(0, dtype=volta.int64, device=device), source)
    assert volta.autograd.grad(made.sum(), source)[0].shape == (0,)
    image = volta.ones(1, 1, 4, device=device, requires_grad=True)
    g, = volta.autograd.grad(volta.nn.functional.interpolate(image, 2, mode="area").sum(), image, create_graph=True)
    assert volta.autograd.grad(g.sum(), image)[0].tolist() == [[[0.0] * 4]]


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_numbers_that_integers_cannot_hold(number, device):
    whole, f = volta.ones(2, dtype=volta.int64, device=device), volta.nn.functional
    for call in (lambda: f.hardtanh(whole, 0, number), lambda: f.threshold(whole, 1, number), lambda: f.pad(whole, (0, 1), value=number),
                 lambda: volta.addcmul(whole, whole, whole, value=number), lambda: f.hinge_embedding_loss(whole, whole, number),
                 lambda: whole.masked_fill(whole > 0, number), lambda: volta.index_add(whole, 0, whole - 1, whole, alpha=number)):
        with pytest.raises(ArgumentError, match=f"a tensor of integers cannot hold {number}"):
            call()


def test_calls_that_cannot_be(device):
    with pytest.raises(TypeError, match="numel: input must be a tensor, got float"):
        volta.numel(1.0)
    with pytest.raises(TypeError, match="exp_: takes 0 operands, got 1"):
        volta.ones(1, device=device).exp_(1)
    with pytest.raises(RankError, match="gru cell: the weights must be matrices"):
        volta.gru_cell(volta.ones(1, 1), volta.ones(1, 1), volta.ones(3, 1), volta.ones(3))


@pytest.mark.parametrize("call, dtypes", [(lambda d: volta.triu_indices(2, 2, dtype=d), "bool uint8 int16 float32"),
                                          (lambda d: volta.tril_indices(2, 2, dtype=d), "bool int8 float16"),
                                          (lambda d: volta.arange(2, dtype=d), "bool"), (lambda d: volta.randperm(2, dtype=d), "bool")])
def test_dtypes_that_hold_no_places(call, dtypes):
    for name in dtypes.split():
        with pytest.raises(TypeError, match="indices are int64 or int32|bool has no numbers"):
            call(getattr(volta, name))
    assert call(volta.int32).dtype is volta.int32


def test_hostile_calls_raise(device):
    x = volta.ones(0, 3, dtype=volta.int16, device=device)
    with pytest.raises(ValueError, match=r"bernoulli_: the numbers drawn have shape \(2, 0, 3\), by their parameters"):
        x.bernoulli_(volta.ones(2, 0, 3, device=device))
    tensors, numbers = [volta.ones(2, 2, device=device)], [2.0, None]
    for call in (lambda: volta.addmm(numbers, tensors, tensors[0]), lambda: volta.lerp(numbers, tensors, 0.5),
                 lambda: volta.nn.functional.linear(numbers, tensors), lambda: volta.nn.functional.group_norm(numbers, weight=tensors),
                 lambda: volta.atleast_2d(tensors, tensors[0]), lambda: tensors[0].view(dtype=tensors[0]),
                 lambda: volta.is_signed(volta.int64)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="result_type: needs tensors or numbers, got None alone"):
        volta.result_type(None)
    out = volta.zeros(3, device=device)
    with pytest.raises(TypeError, match=r"add_\(\) got an unexpected keyword argument 'out'"):
        tensors[0].add_(1, out=out)
    assert out.tolist() == [0.0, 0.0, 0.0] and tensors[0].tolist() == [[1.0, 1.0], [1.0, 1.0]]
