"""Bad input: the text names the op, what was given and what is needed, and tensors stay as they were.

Errors of the graph are in test_autograd.py, of devices in test_devices.py, of layers and optimizers in the tests of nn.
"""
import numpy as np
import pytest

import volta
from volta._kernels.core.record import Composed
from volta.errors import (
    ArgumentError,
    CallError,
    DTypeError,
    IndexRangeError,
    IndexTypeError,
    NumberError,
    ShapeError,
    TransferError,
    TypeNameError,
    VoltaError,
)


def make(*shape, device="cpu", dtype=volta.float32):
    return volta.ones(shape, device=device, dtype=dtype)


def labels(*values, device="cpu"):
    return volta.tensor(list(values), dtype=volta.int64, device=device)


CASES = [
    # shapes
    (lambda d: make(3, 4, device=d) + make(3, 5, device=d), ShapeError,
     r"add: shapes \(3, 4\) and \(3, 5\) do not broadcast: sizes 4 and 5 at dimension -1 differ and neither is 1"),
    (lambda d: volta.where(make(2, device=d) > 0, make(3, device=d), 0.0), ShapeError,
     r"where: shapes \(2,\) and \(3,\) do not broadcast"),
    (lambda d: make(3, 4, device=d).add_(make(2, 3, 4, device=d)), ShapeError,
     r"add_: the result has shape \(2, 3, 4\) but the tensor changed in place has \(3, 4\); use the out-of-place add"),
    (lambda d: make(3, 4, device=d) @ make(5, 2, device=d), ShapeError, r"matmul: inner sizes differ, got \(3, 4\) @ \(5, 2\)"),
    (lambda d: make(2, 3, 4, device=d) @ make(3, 4, 5, device=d), ShapeError,
     r"matmul: batch sizes do not broadcast, got \(2, 3, 4\) @ \(3, 4, 5\)"),
    (lambda d: make(device=d) @ make(3, device=d), ShapeError,
     r"matmul: both operands need at least 1 dimension, got \(\) @ \(3,\); use \*"),
    (lambda d: volta.mm(make(3, device=d), make(3, 3, device=d)), ShapeError, r"mm: needs two matrices, got \(3,\) @ \(3, 3\)"),
    (lambda d: volta.bmm(make(2, 3, 4, device=d), make(3, 4, 5, device=d)), ShapeError,
     r"bmm: needs \(b, m, k\) @ \(b, k, n\), got \(2, 3, 4\) @ \(3, 4, 5\)"),
    (lambda d: volta.dot(make(3, 1, device=d), make(3, device=d)), ShapeError, r"dot: needs two vectors, got \(3, 1\) and \(3,\)"),
    (lambda d: make(2, 3, device=d).reshape(4, 2), ShapeError, r"reshape: 6 elements do not fit shape \(4, 2\)"),
    (lambda d: make(2, 3, device=d).reshape(-1, 4), ShapeError, r"reshape: 6 elements do not fit shape \(-1, 4\)"),
    (lambda d: make(2, 3, device=d).reshape(-1, -1), ShapeError, r"reshape: only one size may be -1, got \(-1, -1\)"),
    (lambda d: make(2, 3, device=d).t().view(6), ShapeError,
     r"view: shape \(3, 2\) with strides \(1, 3\) cannot be seen as \(6,\) without a copy; use reshape"),
    (lambda d: make(2, 3, device=d).expand(2, 4), ShapeError,
     r"expand: \(2, 3\) cannot become \(2, 4\): size 3 at dimension 1 is not 1"),
    (lambda d: make(2, 3, device=d).expand(3), ShapeError, r"expand: shape \(3,\) has fewer dimensions than the tensor's \(2, 3\)"),
    (lambda d: volta.cat([make(2, 3, device=d), make(2, 4, device=d)]), ShapeError,
     r"cat: tensor 1 has shape \(2, 4\), which differs from \(2, 3\) outside dimension 0"),
    (lambda d: volta.stack([make(2, device=d), make(3, device=d)]), ShapeError, r"stack: shapes differ: \(2,\), \(3,\)"),
    (lambda d: make(2, 3, 4, device=d).t(), ShapeError, r"t: needs rank 2 or less, got shape \(2, 3, 4\); use transpose"),
    (lambda d: make(2, 3, device=d).repeat(2), ShapeError, r"repeat: 1 counts for a tensor of rank 2"),
    (lambda d: volta.conv2d(make(1, 3, 8, 8, device=d), make(4, 2, 3, 3, device=d)), ShapeError,
     r"conv2d: input \(1, 3, 8, 8\) has 3 channels; weight \(4, 2, 3, 3\) with groups=1 needs 2"),
    (lambda d: volta.conv2d(make(1, 3, 2, 2, device=d), make(4, 3, 3, 3, device=d)), ShapeError,
     r"conv2d: an input of 2x2 with padding \(0, 0\) is smaller than the kernel 3x3 with dilation \(1, 1\)"),
    (lambda d: volta.conv2d(make(1, 3, 8, 8, device=d), make(4, 3, 3, 3, device=d), make(5, device=d)), ShapeError,
     r"conv2d: bias must have shape \(4,\), got \(5,\)"),
    (lambda d: volta.max_pool2d(make(8, 8, device=d), 2), ShapeError,
     r"max_pool2d: needs an input \(N, C, H, W\) or \(C, H, W\), got \(8, 8\)"),
    (lambda d: volta.nn.functional.batch_norm(make(4, 3, device=d), None, None, make(2, device=d), training=True), ShapeError,
     r"batch_norm: weight must have shape \(3,\) for input \(4, 3\), got \(2,\)"),
    (lambda d: volta.nn.functional.batch_norm(make(1, 3, device=d), None, None, training=True), ShapeError,
     r"batch_norm: training needs more than one value per channel, got input \(1, 3\)"),
    (lambda d: volta.nn.functional.linear(make(2, 3, device=d), make(4, 5, device=d)), ShapeError,
     r"linear: input \(2, 3\) does not fit weight \(4, 5\): the last size of the input must be 5"),
    (lambda d: volta.nn.functional.mse_loss(make(2, device=d), make(3, device=d)), ShapeError,
     r"mse_loss: input \(2,\) and target \(3,\) must have the same shape"),
    (lambda d: volta.nn.functional.cross_entropy(make(2, 3, device=d), labels(1, 2, 0, device=d)), ShapeError,
     r"cross_entropy: target must have shape \(2,\) for input \(2, 3\), got \(3,\)"),
    (lambda d: volta.gather(make(2, 3, device=d), 1, labels(0, device=d)), ShapeError,
     r"gather: index has shape \(1,\), the input \(2, 3\); their ranks must be the same"),
    (lambda d: make(2, 3, device=d).__setitem__(0, make(4, device=d)), ShapeError,
     r"setitem: a value of shape \(4,\) does not broadcast to the indexed shape \(3,\)"),
    (lambda d: make(2, device=d).item(), ShapeError, r"item: needs one element, got shape \(2,\); use tolist\(\) or index it"),
    (lambda d: bool(make(2, device=d)), ShapeError,
     r"bool: a tensor of shape \(2,\) is neither true nor false; use \.any\(\) or \.all\(\)"),
    (lambda d: len(make(device=d)), DTypeError, "len: a 0-d tensor has no length"),
    (lambda d: list(make(device=d)), DTypeError, "iter: a 0-d tensor cannot be iterated"),
    (lambda d: volta.zeros(2, -1, device=d), ShapeError, r"shape: sizes must not be negative, got \(2, -1\)"),
    (lambda d: volta.tensor([[1, 2], [3]], device=d), ShapeError, "tensor: the sequences differ in length"),
    # dtypes
    (lambda d: make(2, 2, device=d) @ make(2, 2, device=d, dtype=volta.int64), DTypeError,
     r"matmul: other must be float32, got int64; convert it with \.to\(volta.float32\)"),
    (lambda d: make(2, device=d, dtype=volta.int64).mean(), DTypeError,
     r"mean: input must be floating point, got int64; convert it with"),
    (lambda d: make(2, device=d, dtype=volta.int64).softmax(0), DTypeError,
     r"softmax: input must be floating point, got int64"),
    (lambda d: make(2, device=d, dtype=volta.int64).add_(1.5), DTypeError,
     r"add_: the result is volta.float32 and cannot be stored in place in volta.int64"),
    (lambda d: volta.where(make(2, device=d), 1.0, make(2, device=d)), DTypeError,
     r"where: condition must be bool, got float32; convert it with .bool\(\)"),
    (lambda d: volta.bitwise_and(make(2, device=d), 1), DTypeError,
     r"bitwise_and: needs integer or bool tensors, got float32; convert them"),
    (lambda d: make(2, device=d, dtype=volta.int64) ** -1, DTypeError,
     r"pow: integers \(volta.int64\) to the negative power -1 are no integers; convert to float first"),
    (lambda d: volta.nn.functional.cross_entropy(make(2, 3, device=d), make(2, device=d)), DTypeError,
     r"cross_entropy: target must hold class indices \(int64\), or probabilities of the input's shape \(2, 3\), got volta.float32 of "
     r"shape \(2,\); convert it with \.long\(\)"),
    (lambda d: make(4, device=d)[make(2, device=d)], DTypeError,
     r"indexing: the index must be an integer tensor \(int64 or int32\), got volta.float32"),
    (lambda d: volta.index_select(make(4, device=d), 0, make(2, device=d)), DTypeError,
     r"index_select: the index must be int64 or int32"),
    (lambda d: volta.conv2d(make(1, 1, 3, 3, device=d, dtype=volta.bool), make(1, 1, 1, 1, device=d, dtype=volta.bool)),
     DTypeError,
     r"conv2d: input must be floating point or integer, got bool; convert it with \.float\(\)"),
    (lambda d: volta.rand(2, dtype=volta.int64, device=d), DTypeError, "rand: needs a floating point dtype, got volta.int64"),
    (lambda d: make(2, device=d) + "a", TypeError, r"unsupported operand type\(s\) for \+: 'Tensor' and 'str'"),
    (lambda d: make(2, device=d).add("a"), (DTypeError, TypeError), "add: other must be a tensor or a number, got str"),
    (lambda d: volta.add("a", make(2, device=d)), DTypeError, "add: input must be a tensor or a number, got str"),
    (lambda d: make(2, device=d).sum().__index__(), DTypeError, r"index: needs one integer, got volta.float32 of shape \(\)"),
    (lambda d: volta.tensor("text", device=d), CallError, "tensor: needs numbers, got str"),
    (lambda d: volta.tensor([None], device=d), CallError, "tensor: needs numbers, got NoneType"),
    (lambda d: volta.tensor([[1], 2], device=d), CallError, "tensor: numbers and sequences side by side: setting an array element"),
    (lambda d: volta.tensor([1 << 70], device=d), NumberError, "tensor: 1180591620717411303424 does not fit into volta.int64; pass dtype="),
    (lambda d: volta.tensor([1 + 2j], device=d), DTypeError, "tensor: NumPy dtype complex128 has no counterpart"),
    (lambda d: volta.tensor(np.ones(2, ">f4"), device=d), TypeNameError, "tensor: NumPy dtype >f4 has another byte order than this"),
    (lambda d: volta.zeros((2,), (3,), device=d), CallError, r"shape: sizes must be integers, got \(\(2,\), \(3,\)\)"),
    (lambda d: volta.zeros(2, dtype="float128x", device=d), DTypeError, "dtype: 'float128x' is no element type; use volta.float32"),
    # dims and indices
    (lambda d: make(2, 3, device=d).sum(2), IndexRangeError, r"sum: dim 2 is out of range for a tensor of rank 2; use -2 to 1"),
    (lambda d: make(2, 3, device=d).transpose(0, -3), IndexRangeError, "transpose: dim -3 is out of range for a tensor of rank 2"),
    (lambda d: make(2, 3, device=d).sum((0, -2)), ArgumentError, r"sum: dim \(0, -2\) names a dimension twice"),
    (lambda d: make(2, 3, device=d).sum(1.0), DTypeError,
     "sum: dim must be an integer or a sequence of integers or None, got 1.0"),
    (lambda d: make(2, 3, device=d).permute(0, 0), ArgumentError,
     r"permute: dims \(0, 0\) must name each of the 2 dimensions once"),
    (lambda d: make(2, 3, device=d)[2], IndexRangeError, "indexing: index 2 is out of range for dimension 0 of size 2"),
    (lambda d: make(2, 3, device=d)[0, -4], IndexRangeError, "indexing: index -4 is out of range for dimension 1 of size 3"),
    (lambda d: make(2, 3, device=d)[0, 0, 0], IndexRangeError, r"indexing: 3 indices for a tensor of shape \(2, 3\)"),
    (lambda d: make(2, 3, device=d)["a"], IndexTypeError, "indexing: str is no index; use ints, slices, None, ..."),
    (lambda d: make(2, 3, device=d)[volta.tensor([True], device=d)], IndexRangeError,
     r"indexing: a mask of shape \(1,\) does not fit \(2, 3\) at dimension 0"),
    (lambda d: make(2, 3, device=d).narrow(1, 2, 2), IndexRangeError, "narrow: 2:4 lies outside dimension 1 of size 3"),
    (lambda d: volta.shrink(make(2, 3, device=d), ((0, 3), (0, 1))), IndexRangeError,
     r"shrink: bounds \(0, 3\) lie outside dimension 0 of size 2"),
    (lambda d: make(0, 3, device=d).amax(0), IndexRangeError,
     r"amax: cannot reduce \(0,\) of shape \(0, 3\): there are no elements"),
    (lambda d: make(0, 3, device=d).argmax(0), IndexRangeError,
     r"argmax: dimension 0 of shape \(0, 3\) is empty and has no maximum"),
    # other arguments
    (lambda d: volta.cat([]), ArgumentError, "cat: needs at least one tensor"),
    (lambda d: make(4, device=d).split(0), ArgumentError, "split: the size must be positive, got 0"),
    (lambda d: make(4, device=d).split([1, 2]), ArgumentError, r"split: the sections \[1, 2\] add up to 3, dimension 0 has 4"),
    (lambda d: volta.pad(make(2, device=d), (1,)), ArgumentError, "pad: needs two sizes for each of up to 1 dimensions"),
    (lambda d: volta.pad(make(2, device=d), (1, 1), "mirror"), ArgumentError,
     "pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got 'mirror'"),
    (lambda d: volta.pad(make(2, device=d), (-3, 0)), ShapeError, r"pad: \(-3, 0\) cuts more than shape \(2,\) has"),
    (lambda d: volta.dropout(make(2, device=d), 1.5), ArgumentError, r"dropout: p must be a probability in \[0, 1\], got 1.5"),
    (lambda d: volta.nn.functional.gelu(make(2, device=d), "fast"), ArgumentError,
     "gelu: approximate must be 'none' or 'tanh', got 'fast'"),
    (lambda d: volta.div(make(2, device=d), 2, rounding_mode="up"), ArgumentError,
     "div: rounding_mode must be None, 'floor' or 'trunc', got 'up'"),
    (lambda d: make(2, device=d).clamp(), ArgumentError, "clamp: give min, max or both"),
    (lambda d: make(2, device=d).norm('inf'), ArgumentError, "norm: p must be a number, 'fro' or 'nuc', got 'inf'"),
    (lambda d: make(2, device=d).norm('nuc'), ShapeError, "matrix_norm: needs a tensor of at least 2 dimensions and two of these"),
    (lambda d: volta.arange(0, 5, 0, device=d), ArgumentError, "arange: from 0 to 5 cannot be walked in steps of 0"),
    (lambda d: volta.arange(5, 0, device=d), ArgumentError, "arange: from 5 to 0 cannot be walked in steps of 1"),
    (lambda d: volta.randint(5, 5, (2,), device=d), ArgumentError, "randint: needs integers low < high"),
    (lambda d: volta.conv2d(make(1, 1, 4, 4, device=d), make(1, 1, 2, 2, device=d), stride=0), ArgumentError,
     "conv2d: stride must be an int or a pair of ints >= 1, got 0"),
    (lambda d: volta.max_pool2d(make(1, 1, 4, 4, device=d), 2, padding=2), ArgumentError,
     r"max_pool2d: padding \(2, 2\) must be at most half of the kernel \(2, 2\)"),
    (lambda d: volta.nn.functional.mse_loss(make(2, device=d), make(2, device=d), reduction="avg"), ArgumentError,
     "mse_loss: reduction must be 'mean', 'sum' or 'none', got 'avg'"),
    (lambda d: volta.Generator().manual_seed("1"), ArgumentError, "manual_seed: seed must be an integer, got '1'"),
    (lambda d: volta.set_default_dtype(volta.int64), DTypeError,
     "set_default_dtype: needs a floating point dtype such as volta.float32, got volta.int64"),
]


@pytest.mark.parametrize("call, error, text", CASES, ids=[text.split(":")[0] + str(i) for i, (_, _, text) in enumerate(CASES)])
def test_text(call, error, text, device):
    with pytest.raises(error, match="^" + text):
        call(device)


# ---------------------------------------------------------------- labels and indices
def test_uploaded_labels_and_indices_are_checked_without_a_transfer(gpu):
    x, wrong, right = make(3, 4, device=gpu), labels(0, 4, 1, device=gpu), labels(0, 3, 1, device=gpu)
    with volta.gpu.forbid_transfers():
        with pytest.raises(IndexRangeError, match=r"cross_entropy: label 4 is outside the 4 classes \(0 to 3\)"):
            volta.nn.functional.cross_entropy(x, wrong)
        with pytest.raises(IndexRangeError, match="index_select: index 4 is out of range for a dimension of size 3"):
            x.index_select(0, wrong)
        assert volta.nn.functional.cross_entropy(x, right).shape == x.index_select(1, right).sum().shape
        unseen = volta.nn.functional.cross_entropy(x, wrong + 0)             # computed labels: nobody on the host knows them
    assert np.isnan(unseen.item())


def test_label_out_of_range():
    x = make(3, 4)
    for wrong, at in ((4, 1), (-1, 2)):
        target = labels(0, 0, 0)
        target[at] = wrong
        with pytest.raises(IndexRangeError,
                           match=rf"cross_entropy: label {wrong} at position {at} is outside the 4 classes \(0 to 3\)"):
            volta.nn.functional.cross_entropy(x, target)
    assert volta.nn.functional.cross_entropy(x, labels(0, -100, 3)).item() == pytest.approx(np.log(4))


def test_index_out_of_range():
    x = make(4, 5)
    with pytest.raises(IndexRangeError, match="indexing: index 4 is out of range for a dimension of size 4"):
        x[labels(0, 4)]
    with pytest.raises(IndexRangeError, match="gather: index -6 is out of range for a dimension of size 5"):
        x.gather(1, labels(-6).reshape(1, 1))
    with pytest.raises(IndexRangeError, match="index_select: index 9"):
        volta.index_select(x, 1, labels(9))
    with pytest.raises(IndexRangeError, match="one_hot: index 3"):
        volta.one_hot(labels(3), 3)


def test_bad_indices_do_no_harm_on_a_gpu(gpu):
    """Computed ones are not read back for a check; the kernel stays inside the data."""
    x = volta.arange(6.0, device=gpu).reshape(2, 3)
    assert set(x[labels(1, 5, device=gpu) + 0].flatten().tolist()) <= set(range(6))
    loss = volta.nn.functional.cross_entropy(x, labels(0, 7, device=gpu) + 0, reduction="none")
    assert loss.shape == (2,)
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_what_a_gpu_cannot_hold(gpu):
    with pytest.raises(DTypeError, match="float64 is not available on the GPU; use float32"):
        volta.zeros(2, dtype=volta.float64, device=gpu)
    with pytest.raises(VoltaError, match="int64 on the GPU holds 32 bits, got 2147483648"):
        volta.tensor([1, 2**31], device=gpu)


def test_forbidden_transfers(gpu):
    x = volta.ones(2, device=gpu)
    for call in (x.tolist, x.item if x.numel() == 1 else x[0].item, x.cpu, lambda: repr(x), lambda: volta.ones(2).to(gpu),
                 lambda: bool(x[0] > 0), lambda: volta.tensor([1.0], device=gpu)):
        with volta.gpu.forbid_transfers(), pytest.raises(TransferError, match="forbid_transfers"):
            call()
    assert x.tolist() == [1.0, 1.0]


# ---------------------------------------------------------------- nothing is changed by a refused call
def test_tensors_stay_as_they_were(device):
    calls = (lambda x: x.add_(make(2, 3, 4, device=device)), lambda x: x.add_(make(5, device=device)),
             lambda x: x.__setitem__(9, 1.0),
             lambda x: x.__setitem__(0, make(7, device=device)), lambda x: x.copy_(make(7, device=device)),
             lambda x: x.__setitem__("a", 1.0), lambda x: x.masked_fill_(make(2, 9, device=device) > 0, 1.0))
    for call in calls:
        x = volta.arange(12.0, device=device).reshape(3, 4)
        version = x.storage.version
        with pytest.raises((VoltaError, TypeError)):
            call(x)
        assert x.tolist() == np.arange(12.0).reshape(3, 4).tolist() and x.storage.version == version and x.shape == (3, 4)


def test_errors_are_what_pytorch_users_catch():
    for call, error in ((lambda: make(2) + make(3), RuntimeError), (lambda: make(2)[5], IndexError),
                        (lambda: make(2) @ make(3), RuntimeError),
                        (lambda: volta.zeros(2, dtype="no"), TypeError), (lambda: make(2).reshape(3), RuntimeError)):
        with pytest.raises(error) as caught:
            call()
        assert isinstance(caught.value, VoltaError)


def test_all_errors_are_runtime_errors():
    """As most of PyTorch's are: a program that catches these goes on."""
    kinds = [kind for kind in vars(volta.errors).values() if isinstance(kind, type) and issubclass(kind, VoltaError)]
    assert len(kinds) > 30 and all(issubclass(kind, RuntimeError) for kind in kinds)


def test_running_statistics_stay_when_batch_norm_refuses(device):
    mean, var = volta.zeros(3, device=device), volta.ones(3, device=device)
    with pytest.raises(ShapeError):
        volta.nn.functional.batch_norm(make(1, 3, device=device), mean, var, training=True)
    assert mean.tolist() == [0.0] * 3 and var.tolist() == [1.0] * 3


@pytest.mark.parametrize("make_it", [
    lambda d: volta.empty(2 ** 40, 2 ** 40, device=d), lambda d: volta.zeros(2 ** 62, device=d), lambda d: volta.rand(2 ** 61, device=d),
    lambda d: volta.rand(2 ** 31, 2 ** 31, device=d), lambda d: volta.zeros(0, 2 ** 62, 2 ** 62, device=d),
    lambda d: volta.ones(*[1] * 33, device=d), lambda d: volta.ones(1, device=d).expand(2 ** 40, 2 ** 40),
    lambda d: volta.ones(0, device=d).reshape(2 ** 62, 0), lambda d: volta.ones(4, device=d).repeat(2 ** 62)])
def test_sizes_and_ranks_beyond_what_can_be_counted(make_it, device):
    with pytest.raises(ShapeError, match=r"at most 32 dimensions and 2\*\*60 elements"):
        make_it(device)


@pytest.mark.parametrize("sizes", [(None,), (2.0,), ("ab",), ([2, 2.5],), ((2, (3,)),)])
def test_sizes_of_a_wrong_type(sizes):
    with pytest.raises(DTypeError, match="zeros: sizes must be an integer or a sequence of integers, got"):
        volta.zeros(*sizes)


@pytest.mark.parametrize("call, error, text", [
    (lambda d: volta.full((2,), "a", device=d), DTypeError, "full: fill_value must be a number, got 'a'"),
    (lambda d: volta.full((2,), float("nan"), dtype=volta.int64, device=d), ArgumentError, "nan does not fit into volta.int64"),
    (lambda d: volta.full((2,), float("inf"), dtype=volta.int32, device=d), ArgumentError, "inf does not fit into volta.int32"),
    (lambda d: volta.full((2,), 2 ** 40, dtype=volta.int32, device=d), ArgumentError, "1099511627776 does not fit into volta.int32"),
    (lambda d: make(2, device=d, dtype=volta.int32) + 2 ** 64, NumberError, "18446744073709551616 is beyond 64 bits"),
    (lambda d: volta.arange(float("inf"), device=d), ArgumentError, "arange: end must be a finite number, got inf"),
    (lambda d: volta.arange("a", device=d), DTypeError, "arange: start must be a number or None, got 'a'"),
    (lambda d: volta.linspace(0, 1, 2.5, device=d), DTypeError, "linspace: steps must be an integer, got 2.5"),
    (lambda d: volta.randperm(-1, device=d), ShapeError, r"shape: sizes must not be negative, got \(-1,\)"),
    (lambda d: volta.randint(2 ** 63, 2 ** 63 + 5, (2,), device=d), NumberError, "randint: bounds must be .*, got one of more than 64"),
    (lambda d: volta.tensor(2 ** 63, device=d), NumberError, "tensor: 9223372036854775808 does not fit into volta.int64"),
    (lambda d: volta.tensor([None], dtype=volta.float32, device=d), CallError, "tensor: needs numbers, got NoneType"),
    (lambda d: volta.tensor("3", dtype=volta.float32, device=d), CallError, "tensor: needs numbers, got str"),
    (lambda d: ~make(2, device=d), DTypeError, "bitwise_not: needs integer or bool tensors, got float32"),
    (lambda d: "a" in make(2, device=d), ArgumentError, "in: a tensor holds numbers, got str"),
    (lambda d: volta.masked_select(make(2, device=d), make(2, device=d)), DTypeError, "masked_select: the mask must be bool")])
def test_numbers_that_do_not_fit(call, error, text, device):
    with pytest.raises(error, match=text):
        call(device)


def test_integers_beyond_a_gpus_are_refused(gpu):
    with pytest.raises(ArgumentError, match="1099511627776 does not fit into volta.int64, which a GPU holds in 32 bits"):
        labels(1, device=gpu) + 2 ** 40


@pytest.mark.parametrize("call, text", [
    (lambda x: volta.matmul(x, None), "matmul: other must be a tensor, got NoneType"),
    (lambda x: x @ 3, "matmul: other must be a tensor, got int"), (lambda x: 3 @ x, "matmul: input must be a tensor, got int"),
    (lambda x: volta.sum("abc"), "sum: input must be a tensor, got 'abc'"),
    (lambda x: volta.cat(None), "cat: tensors must be a sequence of tensors, got NoneType"),
    (lambda x: volta.cat([x, 3]), "cat: tensors must be a sequence of tensors, got "),
    (lambda x: x.narrow(0, "a", 1), "narrow: start must be an integer or a tensor, got 'a'"),
    (lambda x: volta.nn.functional.cross_entropy(x, [0, 1]), r"cross_entropy: target must be a tensor, got \[0, 1\]"),
    (lambda x: volta.nn.functional.linear(x, x, 5), "linear: bias must be a tensor or None, got int"),
    (lambda x: volta.nn.functional.dropout(x, "a"), "dropout: p must be a number, got 'a'"),
    (lambda x: x.fill_("a"), "fill_: value must be a tensor or a number, got 'a'"),
    (lambda x: x.expand_as(None), "expand_as: other must be a tensor, got NoneType"),
    (lambda x: volta.zeros_like(2), "zeros_like: input must be a tensor, got int"),
    (lambda x: x.add_(None), "add_: other must be a tensor or a number, got NoneType"),
    (lambda x: x.reshape(2.5, 2), "reshape: sizes must be an integer or a sequence of integers, got 2.5"),
    (lambda x: x.expand(2, "a"), "expand: shape must be an integer or a sequence of integers, got 'a'"),
    (lambda x: volta.autograd.backward("abc"), "backward: needs tensors, got str"),
    (lambda x: volta.autograd.grad(x.sum(), 5), "grad: needs tensors, got int"),
    (lambda x: volta.optim.SGD(None, 0.1), "SGD: params must be a list of tensors or of groups, got NoneType")])
def test_arguments_of_a_wrong_type(call, text, device):
    x = make(2, 2, device=device)
    with pytest.raises(VoltaError, match=text):
        call(x)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_an_error_inside_with_good_arguments_stays_what_it_is():
    """Only a wrong argument is explained; anything else is a bug of Volta's, and must not be disguised."""
    def broken(input: "volta.Tensor", n: "int"):
        return input.no_such_attribute

    with pytest.raises(AttributeError, match="no_such_attribute"):
        Composed("broken", broken)(make(2), 3)


def test_records_want_inputs_by_position():
    for op, text in (("mul", "mul: takes input, other, got 1 of 2"), ("cat", "cat: takes tensors, got 0 of 1")):
        with pytest.raises(ArgumentError, match=text):
            volta.ops.table.RECORDS[op](*[make(2)] * (op == "mul"))


def test_windows_and_outputs_that_no_device_can_take(device):
    """They must be refused at once: planning or walking them would take for ever."""
    x = make(1, 1, 5, 5, device=device)
    with pytest.raises(ArgumentError, match="max_pool2d: a kernel of 1073741824x1073741824 is too large"):
        volta.max_pool2d(x, 2 ** 30, 1, 2 ** 29)
    with pytest.raises(ShapeError, match="conv2d: the kernel must have a size of at least 1, got 0x2"):
        volta.conv2d(x, make(1, 1, 0, 2, device=device))
    with pytest.raises((volta.errors.OutOfMemoryError, ShapeError), match="cannot allocate|larger than this device's largest buffer"):
        volta.conv2d(x, make(1, 1, 2, 2, device=device), padding=2 ** 20)
