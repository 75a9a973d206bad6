"""What random calls of the public functions found, each with PyTorch's answer or with the error that it is on both devices."""
import ctypes
import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, DTypeError, OutOfMemoryError, RankError, ShapeError


def test_a_logit_of_minus_infinity_and_a_target_above_1(device):
    def loss(x, target):
        return F.binary_cross_entropy_with_logits(volta.tensor(x, device=device), volta.tensor(target, device=device)).item()
    assert loss(-math.inf, 2.0) == loss(-math.inf, math.inf) == math.inf
    assert math.isnan(loss(-math.inf, 1.0)) and math.isnan(loss(-math.inf, 0.0))


@pytest.mark.parametrize("name", ["scatter_add_", "index_add_"])
def test_what_is_added_must_be_a_tensor(device, name):
    x, at = volta.zeros(3, device=device), volta.tensor([0], device=device)
    for source in (None, 1, [1.0]):
        with pytest.raises(DTypeError, match="must be a tensor"):
            getattr(x, name)(0, at, source)
    assert x.tolist() == [0.0] * 3


def test_a_step_beyond_the_dtype_that_is_never_made(device):
    assert volta.arange(0.5, 5.0, 1e300, device=device).tolist() == [0.5]


def test_as_many_shifts_as_dims_of_nothing_too():
    with pytest.raises(ArgumentError, match="1 shifts for 2 dims"):
        volta.roll(volta.empty(0, 2), 1, (0, 0))


def test_a_limit_of_logit_need_not_fit_into_integers():
    assert volta.logit(volta.tensor([0, 2], dtype=volta.uint8), -1).tolist()[0] == -math.inf


def test_the_exponential_of_a_matrix_of_one_element_is_the_elements():
    assert volta.matrix_exp(volta.tensor([[[-math.inf]], [[math.inf]], [[0.0]]])).flatten().tolist() == [0.0, math.inf, 1.0]


@pytest.mark.parametrize("call", [
    volta.tensor, volta.from_numpy, volta.where, volta.zeros, volta.stack, volta.ones(3).sum, volta.ones(3).new_tensor,
    volta.ones(3).__getitem__, lambda data: volta.ones(3).__setitem__(0, data), lambda data: volta.full((2,), data)])
@pytest.mark.parametrize("loop", [True, False])
def test_lists_that_contain_themselves_or_many_others(call, loop):
    """The first ended the process."""
    data = [1.0]
    if loop:
        data.append(data)
    else:
        for _ in range(5000):
            data = [data]
    with pytest.raises((TypeError, ValueError, IndexError)):
        call(data)


@pytest.mark.parametrize("call", [
    lambda: volta.bincount(volta.tensor([1, 2]), minlength=2 ** 60), lambda: volta.zeros(2 ** 60, dtype=volta.int64),
    lambda: volta.ones(1, dtype=volta.float64).expand(2 ** 60).clone(), lambda: volta.arange(2 ** 60),
    lambda: volta.empty(2 ** 30, 2 ** 30, dtype=volta.float64)])
def test_as_many_elements_as_a_shape_may_have(call):
    """Their bytes are one more than can be counted, which was taken for none."""
    with pytest.raises(OutOfMemoryError, match="cannot allocate"):
        call()


@pytest.mark.parametrize("dim", [1, -1])
@pytest.mark.parametrize("dtype", [volta.float32, volta.bool])
def test_joining_matrices_and_vectors(dtype, dim, device):
    """It read beyond the vector's shape, which ended the process."""
    matrix, vector = volta.ones(5, 5, dtype=dtype, device=device), volta.ones(5, dtype=dtype, device=device)
    for tensors in ((matrix, vector), (vector, matrix), (matrix[None], matrix), (matrix, volta.ones((), dtype=dtype, device=device))):
        with pytest.raises((ShapeError, IndexError)):
            volta.cat(tensors, dim)
    with pytest.raises(ShapeError, match="cat: tensor 1 has shape"):
        volta.hstack((matrix, vector))
    assert volta.cat((matrix, volta.ones(0, dtype=dtype, device=device)), dim).shape == (5, 5)


@pytest.mark.parametrize("shapes", [((2,), None), ("ab",), ((1.5,),), ((5, [1]), 5)])
def test_shapes_to_broadcast_are_integers(shapes):
    with pytest.raises(DTypeError, match="broadcast_shapes: needs ints and tuples of ints"):
        volta.broadcast_shapes(*shapes)


@pytest.mark.parametrize("dtype", [volta.float32, volta.float64])
@pytest.mark.parametrize("channels", [2, 300])
def test_statistics_of_channels_without_pixels(channels, dtype):
    """The kernel wrote as if there were one pixel, beyond the result: into what lies behind it."""
    mean, var, weight = (volta.ones(channels, dtype=dtype) for _ in range(3))
    beside = [volta.zeros(16, dtype=dtype) for _ in range(200)]
    for _ in range(50):
        assert F.batch_norm(volta.ones(30, channels, 0, dtype=dtype), mean, var, weight, weight).shape == (30, channels, 0)
    assert not any(x.any().item() for x in beside)


@pytest.mark.parametrize("sizes", [6.0, 6, [6.0]])
def test_sizes_of_packed_batches_are_a_vector_of_integers(sizes):
    x = volta.ones(6, 2)
    with pytest.raises(ShapeError, match="batch_sizes must be a vector of integers"):
        volta.gru(x, volta.tensor(sizes), x, (x,), True, 1, 0.0, False, False)


@pytest.mark.parametrize("factor", [1e300, 2.0 ** 31])
def test_images_beyond_all_sizes(factor, device):
    with pytest.raises(ArgumentError, match="makes more of"):
        F.interpolate(volta.ones(1, 1, 2, 2, device=device), scale_factor=factor)


@pytest.mark.parametrize("size, error", [(2 ** 63 - 1, ShapeError), (2 ** 50, OutOfMemoryError)])
def test_windows_beyond_all_sizes(size, error):
    """NumPy has no numbers up to the first."""
    with pytest.raises(error):
        volta.signal.windows.gaussian(size)


class Endless:
    """A sequence by its length and items alone, which are there beyond its length too."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return 1.5


def test_a_sequence_is_as_long_as_it_says(device):
    assert volta.tensor(Endless(), device=device).tolist() == volta.as_tensor(Endless(), device=device).tolist() == [1.5] * 3
    assert volta.tensor((ctypes.c_int32 * 2)(1, 2)).dtype is volta.int32


@pytest.mark.parametrize("labels, loss", [([1, 0, 2], 8.565207481384277), ([1, 0, 1], 9.082094192504883), ([0, 1, 2], 7.952234268188477)])
def test_labels_that_are_the_blank_may_follow_others_at_once(labels, loss, device):
    """As in PyTorch, whose losses these are; its gradients are others where the last label is the blank."""
    chances = np.random.default_rng(0).dirichlet(np.ones(5), (8, 1)).astype(np.float32)
    given = (volta.tensor(x, device=device) for x in (np.log(chances), [labels], [8], [3]))
    found = F.ctc_loss(*given, reduction="none")
    assert found.item() == pytest.approx(loss, rel=1e-5)


def test_too_much_memory_is_an_error_that_pytorch_users_catch(device):
    with pytest.raises(RuntimeError) as caught:
        volta.diagflat(volta.ones(2, device=device), offset=1_000_000)
    assert isinstance(caught.value, OutOfMemoryError) and isinstance(caught.value, MemoryError)


_BEYOND_FLOAT32 = {
    "clamp": lambda x, n: x.clamp(n), "threshold": lambda x, n: F.threshold(x, n, 1),
    "addcmul": lambda x, n: volta.addcmul(x, x, x, value=n),
    "addcdiv": lambda x, n: x.addcdiv_(x, x, value=n), "sub": lambda x, n: x.sub(x, alpha=n), "lerp": lambda x, n: x.lerp(x, n),
    "leaky_relu": lambda x, n: F.leaky_relu(x, n), "elu": lambda x, n: F.elu(x, n), "hardtanh": lambda x, n: F.hardtanh(x, -3, n),
    "hardshrink": lambda x, n: F.hardshrink(x, n), "softplus": lambda x, n: F.softplus(x, n)}


@pytest.mark.parametrize("name", _BEYOND_FLOAT32)
def test_numbers_beyond_float32_are_refused_where_a_tensor_cannot_stand(device, name):
    for dtype in volta.float32, volta.float16:
        with pytest.raises(ArgumentError, match="1e[+]300 does not fit into volta.float(32|16)"):
            _BEYOND_FLOAT32[name](volta.ones(3, dtype=dtype, device=device), 1e300)
        _BEYOND_FLOAT32[name](volta.ones(3, dtype=dtype, device=device), math.inf)
    assert volta.where(volta.tensor(True, device=device), volta.ones(1, device=device).half(), 1e300).dtype is volta.float16


def test_powers_and_products_by_numbers_beyond_float32_are_infinite(device):
    x = volta.full((2,), 2.0, device=device)
    assert (x ** 1e300).tolist() == (x * 1e300).tolist() == [math.inf] * 2


@pytest.mark.parametrize("call", [
    lambda x, n: x + n, lambda x, n: x.clamp(n), lambda x, n: x ** n, lambda x, n: volta.where(x > 0, x, n), lambda x, n: x.fill_(n),
    lambda x, n: volta.full_like(x, n), lambda x, n: x.lerp(x, n), lambda x, n: volta.addmm(x, x, x, beta=n),
    lambda x, n: x.masked_fill(x > 0, n)],
    ids="add clamp pow where fill full_like lerp addmm masked_fill".split())
def test_integers_beyond_64_bits_are_refused_beside_floats_too(device, call):
    for n in 1 << 64, -(1 << 63) - 1:
        with pytest.raises(OverflowError):
            call(volta.ones(2, 2, device=device), n)
    call(volta.ones(2, 2, device=device), (1 << 64) - 1)


def test_numbers_that_have_to_fit_among_integers(device):
    x = volta.tensor([1, 2], dtype=volta.uint8, device=device)
    for call in lambda n: x.clamp(n), lambda n: volta.addcmul(x, x, x, value=n), lambda n: volta.where(x > 1, x, n), lambda n: x ** n:
        with pytest.raises(ArgumentError, match="300 does not fit into volta.uint8"):
            call(300)
    assert (x + 300).tolist() == [45, 46]
    with pytest.raises(ArgumentError, match="fill: 1e[+]300 does not fit into volta.int32") as raised:
        volta.zeros(2, dtype=volta.int32, device=device).fill_(1e300)
    assert not isinstance(raised.value, OverflowError)


def test_shapes_beyond_all_memory_are_refused_as_shapes(device):
    with pytest.raises(ShapeError, match=r"2\*\*60"):
        volta.diagflat(volta.ones(2, device=device), (1 << 63) - 1)


@pytest.mark.parametrize("call", [
    lambda a, i: volta.linalg.lu_factor(a[0]), lambda a, i: volta.lu_unpack(a, a[0]), lambda a, i: volta.cholesky_inverse(a[:2]),
    lambda a, i: volta.linalg.lu_solve(a, i[0], i), lambda a, i: volta.orgqr(a, i[0]), lambda a, i: volta.geqrf(i),
    lambda a, i: volta.linalg.ldl_factor(a[0]), lambda a, i: volta.linalg.ldl_solve(a, a[0], a), lambda a, i: volta.svd_lowrank(i),
    lambda a, i: volta.pca_lowrank(i), lambda a, i: volta.normal(0.5, -i)],
    ids="lu_factor lu_unpack cholesky_inverse lu_solve orgqr geqrf ldl_factor ldl_solve svd_lowrank pca_lowrank normal".split())
def test_ranks_and_dtypes_are_refused_alike_on_all_devices(device, call):
    with pytest.raises((RankError, ShapeError, DTypeError)):
        call(volta.eye(3, device=device), volta.ones(3, 3, dtype=volta.int32, device=device))


def test_vectors_of_two_dtypes_are_compared_in_the_wider(device):
    if device == "gpu":
        narrow, wide = volta.float16, volta.float32
    else:
        narrow, wide = volta.float32, volta.float64
    x, number = volta.ones(3, 5, dtype=narrow, device=device), volta.tensor(-1.5, dtype=wide, device=device)
    assert volta.cosine_similarity(x, number, 0).dtype is volta.cosine_similarity(number, x, 0).dtype is wide
    assert volta.cosine_similarity(x, number, 0).tolist() == pytest.approx([-1.0] * 5, rel=1e-6)


def test_orders_of_matrix_norms_in_tensors():
    x = volta.tensor([[4.0, -1.0], [1.0, 3.0]])
    for order in (1, -1, math.inf):
        for norm in (volta.linalg.norm, volta.linalg.matrix_norm, volta.linalg.cond):
            assert norm(x, volta.tensor(order)).item() == norm(x, order).item()


@pytest.mark.parametrize("dtype", [volta.int64, volta.bool])
def test_cosines_of_integers_beside_floats(dtype):
    whole, x = volta.tensor([[0, 1], [1, 1]], dtype=dtype), volta.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=volta.float64)
    expected = volta.cosine_similarity(whole.double(), x)
    for found in (volta.cosine_similarity(whole, x), volta.cosine_similarity(x, whole)):
        assert found.dtype is volta.float64 and found.tolist() == expected.tolist()
    with pytest.raises(DTypeError, match="cosine_similarity: needs floating point tensors, got"):
        volta.cosine_similarity(whole, whole)
