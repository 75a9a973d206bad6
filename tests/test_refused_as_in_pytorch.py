"""What is refused, taken and passed on in corners, as in PyTorch 2.13 on the CPU: dtypes, `out=`, empty tensors, 0-d tensors, NaN."""
import math

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, AutogradError, DTypeError, IndexRangeError, RankError, ShapeError

F = nn.functional
NAN, INF = math.nan, math.inf


def gradients(function, *values, dtype=volta.float64):
    """Of the sum of what a function gives, by each of its tensors."""
    leaves = [volta.tensor(v, dtype=dtype, requires_grad=True) for v in values]
    return volta.autograd.grad(function(*leaves).sum(), leaves, allow_unused=True)


# ---------------------------------------------------------------- dtypes
@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
@pytest.mark.parametrize("name", "cholesky det eigh inv inv_ex ldl_factor lu lu_factor matrix_rank pinv qr slogdet svd".split())
def test_decompositions_refuse_halves(name, dtype):
    """As PyTorch does on every device; what it takes, it takes on."""
    x = volta.eye(2, dtype=dtype)
    with pytest.raises(DTypeError, match=f"takes float32 and float64, got {dtype}; convert it with .float\\(\\)"):
        getattr(volta.linalg, name)(x)
    getattr(volta.linalg, name)(x.float())


def test_others_that_refuse_halves():
    x = volta.eye(2).half()
    for call in (lambda: volta.quantile(x, 0.5), lambda: volta.nanquantile(x, 0.5), lambda: volta.linalg.vander(x),
                 lambda: volta.linalg.matrix_norm(x, "nuc"), lambda: x.norm("nuc"), lambda: volta.linalg.solve(x, x)):
        with pytest.raises(DTypeError, match="takes float32 and float64, got volta.float16"):
            call()
    with pytest.raises(DTypeError, match="x must be floating point or integer, got bool"):
        volta.linalg.vander(x > 0)
    assert volta.linalg.matrix_norm(x).dtype is volta.linalg.matrix_norm(x, 1).dtype is volta.float16
    assert volta.matrix_exp(x).dtype is volta.float16


# ---------------------------------------------------------------- keywords
def test_keywords_of_other_forms(device):
    x = volta.ones(2, 3, device=device)
    assert x.norm(2, 1, True, volta.float32).shape == volta.norm(x, 2, 1, True, None, volta.float32).shape == (2, 1)
    assert volta.repeat_interleave(repeats=volta.tensor([1, 2], device=device)).tolist() == [0, 1, 1]
    assert x.sum_to_size(size=(1, 3)).tolist() == [[2.0, 2.0, 2.0]]
    assert volta.result_type(tensor=x, scalar=1) is volta.result_type(scalar=1, tensor=x) is volta.result_type(x, other=1) is volta.float32
    assert volta.result_type(scalar1=1, scalar2=2.0) is volta.float32
    with pytest.raises(TypeError, match="result_type\\(\\) takes two arguments, by name tensor and other"):
        volta.result_type(x, scalar=1)
    with pytest.raises(DTypeError, match="repeat_interleave: needs a tensor"):
        volta.repeat_interleave()
    with pytest.raises(ArgumentError, match="repeats must be an integer >= 0"):
        volta.repeat_interleave(x, 2 ** 62)


def test_sizes_that_make_no_sense():
    for make in (nn.RNN, nn.LSTM, nn.GRU):
        with pytest.raises(ArgumentError, match="num_layers must be at most 1048576, got 4294967296"):
            make(1, 1, 2 ** 32)
    for call in (lambda: nn.RNNCell(3, 2 ** 70), lambda: nn.LSTM(2 ** 70, 3), lambda: nn.MultiheadAttention(2 ** 70, 1)):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            call()
    with pytest.raises(DTypeError, match="DataParallel: module must be a Module, got int"):
        nn.DataParallel(1, [0])
    log_probs = volta.zeros(3, 1, 4).log_softmax(-1)
    with pytest.raises(ShapeError, match="input_lengths must hold 1 integers, one for each sequence, got volta.bool"):
        F.ctc_loss(log_probs, volta.tensor([[1]]), volta.tensor([True]), volta.tensor([1]))


# ---------------------------------------------------------------- out=
def test_out_that_takes_no_part_in_gradients():
    """Of functions without a derivative it is not asked whether one is wanted."""
    x = volta.ones(3, requires_grad=True)
    out = volta.empty(3)
    for name in ("airy_ai", "bessel_j0", "spherical_bessel_j0"):
        assert getattr(volta.special, name)(x, out=out) is out and not out.requires_grad
    with pytest.raises(AutogradError, match="out= is not differentiable"):
        volta.exp(x, out=out)


def test_out_that_repeats_an_element():
    out = volta.zeros(1, 1).expand(2, 3)
    assert volta.full((2, 3), 7.0, out=out).tolist() == [[7.0] * 3] * 2
    assert volta.cummax(volta.arange(6.0).reshape(2, 3), 0, out=(out, volta.zeros(2, 3, dtype=volta.int64))).values[0, 0].item() == 5.0
    with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
        volta.add(volta.ones(2, 3), 1, out=out)


def test_out_that_repeats_an_element_is_reduced_to_it():
    x = volta.arange(6.0).reshape(2, 3)
    assert volta.sum(x, 1, out=volta.zeros(1).expand(2)).tolist() == [15.0, 15.0]
    assert volta.amax(x, 1, out=volta.zeros(1).expand(2)).tolist() == [5.0, 5.0]
    assert volta.norm(x, INF, 1, out=volta.zeros(1).expand(2)).tolist() == [5.0, 5.0]
    assert volta.all(x > -1, 1, out=volta.zeros(1, dtype=volta.bool).expand(2)).tolist() == [True, True]
    repeated = volta.zeros(1, dtype=volta.int64).expand(2)
    assert volta.argmax(x, 1, out=repeated).tolist() == [5, 5]                  # the place among all elements
    assert volta.argmax(x[:, :1], 1, out=repeated).tolist() == [0, 0]
    assert volta.linalg.matrix_rank(volta.ones(2, 3, 3), out=repeated).tolist() == [2, 2]
    assert volta.histc(x, 2, 0, 5, out=volta.zeros(1).expand(2)).tolist() == [6.0, 6.0]
    assert volta.eye(2, out=volta.zeros(1, 1).expand(2, 2)).tolist() == [[1.0, 1.0]] * 2
    rows = volta.zeros(2, 1).expand(2, 3)
    for call in (lambda: volta.argmax(x[..., None].expand(2, 3, 2), 2, out=rows.long().contiguous()[:, :1].expand(2, 3)),
                 lambda: volta.linalg.vector_norm(x[..., None], 3, 2, out=rows),
                 lambda: volta.bmm(volta.ones(1, 2, 100), volta.ones(1, 100, 3), out=rows[None])):
        with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
            call()


def test_out_by_arguments():
    x = volta.arange(6.0).reshape(2, 3)
    double = volta.empty(2, 3, dtype=volta.float64)
    assert volta.lerp(x, x, 0.5, out=double) is double and volta.inner(volta.tensor(2.0), x, out=double)[1, 2].item() == 10.0
    for call in (lambda: volta.lerp(x, x, x, out=double), lambda: volta.diff(x, 0, out=double),
                 lambda: volta.inner(x, x, out=volta.empty(2, 2, dtype=volta.float64)),
                 lambda: volta.normal(0.0, 1.0, (2, 3), dtype=volta.float32, out=double)):
        with pytest.raises(DTypeError, match="cannot be stored in out of volta.float64"):
            call()
    for name in ("std", "var"):
        with pytest.raises(TypeError, match="out= and unbiased need dim to be given too"):
            getattr(volta, name)(x, True, out=volta.empty(()))
    assert volta.cumsum(volta.tensor(2.0), 0, out=volta.empty((), dtype=volta.bool)).item() is True
    line = volta.arange(1.0, 8.0)
    with pytest.raises(ArgumentError, match="some elements of the input tensor and the written-to tensor"):
        F.normalize(line[:6], dim=0, out=line[1:])
    with pytest.raises(ArgumentError, match="some elements of the input tensor and the written-to tensor"):
        volta.linalg.cross(line[:3], line[3:6], out=line[:3])


def test_out_of_another_shape_without_a_warning(recwarn):
    x, out = volta.ones(2, 2), volta.empty(3)
    volta.addbmm(x, x[None], x[None], out=out)
    assert out.shape == (2, 2) and not recwarn.list
    outs = volta.empty(3), volta.empty(3, dtype=volta.int64)
    with pytest.warns(UserWarning, match="kthvalue: out of shape"):
        volta.kthvalue(x, 1, 1, out=outs)
    assert outs[0].shape == (2,)


# ---------------------------------------------------------------- nothing, and numbers
def test_numbers_are_matrices_of_none(device):
    x = volta.tensor(3.0, device=device)
    assert x.mT.item() == x.mH.item() == 3.0
    with pytest.raises(ShapeError, match="needs a matrix, or a batch of them"):
        volta.transpose(volta.ones(3, device=device).mT, 0, 0)
    with pytest.raises(IndexRangeError, match="take_along_dim: a number has no dimension 0"):
        volta.take_along_dim(x, volta.tensor(0, device=device), 0)
    with pytest.raises(RankError, match="index_reduce: source"):
        volta.index_reduce(x, 0, volta.tensor([0], device=device), volta.ones(1, device=device), "mean")
    with pytest.raises(IndexRangeError, match="topk: dim 1 is out of range"):
        volta.topk(x, 3, 1)
    assert volta.kthvalue(volta.tensor(True), 1).values.item() is True


@pytest.mark.parametrize("call", [
    lambda: F.adaptive_max_pool2d(volta.ones(3, 0, 4, 4), 2), lambda: F.adaptive_avg_pool3d(volta.ones(0, 0, 4, 4, 4), 2),
    lambda: F.pad(volta.ones(3, 0, 4), (1, 2), "reflect"), lambda: F.pad(volta.ones(0, 4), (1, 2), "replicate"),
    lambda: F.conv1d(volta.ones(1, 3, 0), volta.ones(3, 3, 3), padding=2),
    lambda: F.conv2d(volta.ones(1, 3, 0, 4), volta.ones(3, 3, 3, 3), padding=2),
    lambda: F.multilabel_margin_loss(volta.ones(10, 0), volta.zeros(10, 0, dtype=volta.int64)),
    lambda: F.binary_cross_entropy_with_logits(volta.ones(5), volta.ones(5), weight=volta.ones(2, 5)),
    lambda: volta.linalg.tensorinv(volta.ones(1, 1), ind=3), lambda: volta.cumulative_trapezoid(volta.ones(2, 0), volta.ones(2, 3))])
def test_empty_tensors_that_are_refused(call):
    with pytest.raises(ShapeError):
        call()


def test_average_of_a_volume_smaller_than_its_kernel():
    for batch in ((), (2,)):
        with pytest.raises(ShapeError, match="avg_pool3d: an input of 3x5x5 is smaller than the kernel 4x2x2, whatever its padding"):
            F.avg_pool3d(volta.ones(*batch, 2, 3, 5, 5), (4, 2, 2), padding=(2, 0, 0))
    assert F.avg_pool2d(volta.ones(1, 3, 5), (4, 2), padding=(2, 0)).shape == (1, 1, 2)


def test_empty_tensors_that_are_taken():
    assert F.adaptive_max_pool2d(volta.ones(0, 4, 4), 2).shape == (0, 2, 2)
    assert F.interpolate(volta.ones(2, 0, 4), 3, mode="area").shape == (2, 0, 3)
    assert volta.bincount(volta.zeros(0, dtype=volta.int64), weights=volta.ones(5), minlength=3).tolist() == [0, 0, 0]
    assert volta.ones(0, 5).index_add(0, volta.tensor([0, 7]), volta.ones(2, 5)).shape == (0, 5)
    assert volta.linalg.matrix_rank(volta.ones(0, 5), hermitian=True).item() == 0
    assert volta.linalg.pinv(volta.ones(0, 5), hermitian=True).shape == (5, 0)
    assert F.dropout2d(volta.ones(2, 3, 4, 4, dtype=volta.int64), 1.0, True).dtype is volta.int64
    assert F.feature_alpha_dropout(volta.tensor(2.0), 1.0, True).item() == 0.0


def test_gradients_of_nothing():
    """Zeros, where there is a way to the tensor; none at all where PyTorch makes a new one."""
    empty = np.zeros((0, 5))
    assert gradients(lambda a, b: a.masked_scatter(volta.ones(0, 5, dtype=volta.bool), b), empty, empty)[1].shape == (0, 5)
    nowhere = volta.zeros(0, dtype=volta.int64)
    assert gradients(lambda a, b: a.index_reduce(0, nowhere, b, "amax"), np.zeros(0), np.zeros(0))[1].shape == (0,)
    x = volta.ones(2, 0, requires_grad=True)
    assert not volta.trapezoid(x).requires_grad and not volta.linalg.matrix_norm(x, 1).requires_grad
    y = volta.eye(2).requires_grad_()
    assert volta.slogdet(y).sign.requires_grad and volta.linalg.lstsq(y, y).residuals.requires_grad
    assert volta.autograd.grad(volta.slogdet(y).sign, [y])[0].tolist() == [[0.0, 0.0], [0.0, 0.0]]


# ---------------------------------------------------------------- NaN, infinity and overflow
def test_gradients_of_extremes_at_nan():
    """amax and amin give NaN to all; max and min of all elements, and norms of infinite order, give their gradient to the NaN."""
    for values in ([1.0, NAN], [NAN, 1.0, NAN], NAN):
        for extreme in (volta.amax, volta.amin, lambda x: volta.aminmax(x).max):
            assert np.isnan(gradients(extreme, values)[0].numpy()).all()
    assert gradients(volta.max, [NAN, 1.0, NAN])[0].tolist() == gradients(volta.min, [NAN, 1.0, NAN])[0].tolist() == [0.5, 0.0, 0.5]
    assert gradients(volta.amax, [2.0, 2.0, 1.0])[0].tolist() == [0.5, 0.5, 0.0]
    assert gradients(volta.median, NAN)[0].item() == 1.0
    assert gradients(lambda x: volta.norm(x, INF, 0, True), [1.0, NAN])[0].tolist() == [0.0, 0.0]
    place = volta.tensor([0, 0])
    for reduce in ("amax", "amin"):
        own, source = gradients(lambda x, y, r=reduce: x.scatter_reduce(0, place, y, r), [1.0, 5.0], [2.0, NAN])
        assert np.isnan(own.numpy()[0]) and own.numpy()[1] == 1.0 and np.isnan(source.numpy()).all()


def test_gradients_of_special_functions_at_their_corners():
    assert gradients(volta.special.i1, [NAN, 0.0])[0].tolist() == gradients(volta.special.i1e, [NAN, 0.0])[0].tolist() == [0.5, 0.5]
    assert gradients(volta.sinc, [1e-40, 0.0], dtype=volta.float32)[0].tolist() == [0.0, 0.0]
    assert gradients(lambda x: volta.logcumsumexp(x, 0), NAN)[0].item() == 1.0
    with volta.enable_grad():
        assert volta.norm(volta.tensor([INF, INF], requires_grad=True), -2).item() == volta.norm(volta.tensor([INF, INF]), -2).item() == INF


def test_polynomials_of_huge_degrees():
    """Degrees beyond int64 count as negative ones; in float32 the recurrences overflow, also where a later value would be small again."""
    for name in ("chebyshev_polynomial_t", "hermite_polynomial_h", "laguerre_polynomial_l", "legendre_polynomial_p"):
        polynomial = getattr(volta.special, name)
        assert polynomial(volta.tensor([0.3, 2.0]), volta.tensor([1e30, -1e30])).tolist() == [0.0, 0.0]
    assert math.isnan(volta.special.chebyshev_polynomial_t(volta.tensor(2.0), volta.tensor(200.0)).item())
    assert math.isfinite(volta.special.chebyshev_polynomial_t(volta.tensor(2.0, dtype=volta.float64), volta.tensor(200.0)).item())


def test_infinite_weights_of_no_loss():
    scores, weight = volta.tensor([[9.0, 0.0], [0.0, 9.0]]), volta.tensor([INF, 1.0])
    losses = F.multi_margin_loss(scores, volta.tensor([0, 0]), weight=weight, reduction="none")
    assert losses.tolist() == [0.0, INF]


def test_triangles_that_are_not_read_have_gradients_of_zero():
    """Beside NaN, too."""
    a, b = volta.tensor([[1.0, NAN], [0.0, 2.0]], requires_grad=True), volta.ones(2, 1)
    volta.linalg.solve_triangular(a, b, upper=True).sum().backward()
    assert a.grad[1, 0].item() == 0.0


def test_degenerate_arguments_of_mvlgamma():
    assert gradients(lambda x: volta.mvlgamma(x, 1), [-0.0])[0].item() == gradients(lambda x: volta.mvlgamma(x, 1), [0.0])[0].item() == -INF
    with pytest.raises(DTypeError, match="mvlgamma: needs a floating point or integer tensor, got bool"):
        volta.mvlgamma(volta.tensor([True]), 1)


def test_empty_halves_where_nothing_is_decomposed():
    assert volta.linalg.svd(volta.empty(0, 0).half()).S.shape == (0,)
    with pytest.raises(DTypeError, match="takes float32 and float64"):
        volta.linalg.inv(volta.empty(0, 0).half())


def test_variances_that_are_negative_beside_nan():
    with pytest.raises(ArgumentError, match="gaussian_nll_loss: var must not be negative"):
        F.gaussian_nll_loss(volta.ones(2), volta.ones(2), volta.tensor([NAN, -1.0]))


@pytest.mark.parametrize("call", [
    lambda x: x.fill_(-1.0), lambda x: volta.full((1,), -0.5, dtype=volta.uint8, device=x.device), lambda x: x.masked_fill(x == 0, -1.0),
    lambda x: volta.full_like(x, -1.0), lambda x: F.pad(x, (1, 1), value=-1.0), lambda x: F.threshold(x, 3, -1.0),
    lambda x: x.index_add(0, volta.tensor([0], device=x.device), x[:1], alpha=-1.0),
    lambda x: x.scatter(0, volta.tensor([0], device=x.device), -1.0)])
def test_negative_floats_in_bytes(call, device):
    """Negative integers wrap."""
    x = volta.zeros(2, dtype=volta.uint8, device=device)
    with pytest.raises(ArgumentError, match="does not fit into volta.uint8"):
        call(x)
    assert x.tolist() == [0, 0] and x.fill_(-1).tolist() == [255, 255]


@pytest.mark.parametrize("error, match, call", [
    (DTypeError, "alpha=1.0 is no integer", lambda x: volta.add(x.int(), x.int(), alpha=1.0)),
    (ArgumentError, "eps must not be negative", lambda x: volta.cosine_similarity(x, x, eps=-1.0)),
    (ArgumentError, "output_size must be", lambda x: F.adaptive_avg_pool2d(x[None], [1])),
    (ArgumentError, "lambd must be a finite number", lambda x: F.softshrink(x, INF)),
    (ArgumentError, "delta must be positive", lambda x: F.huber_loss(x, x, delta=NAN)),
    (ArgumentError, "beta must be >= 0", lambda x: F.smooth_l1_loss(x, x, beta=NAN)),
    (ArgumentError, "range from min to max must be finite", lambda x: volta.histc(x, 4, 0, INF)),
    (ArgumentError, "the weights add up to 0", lambda x: volta.cov(x, fweights=volta.zeros(2, dtype=volta.int64))),
    (ArgumentError, "must add up to less than", lambda x: volta.ones(1).repeat_interleave(volta.tensor([2 ** 63 - 1]))),
    (DTypeError, "the edges must be", lambda x: volta.histogram(x, volta.ones(2, dtype=volta.float64))),
    (ValueError, "repeats must be a number or a vector", lambda x: x.repeat_interleave(volta.ones(1, 1, dtype=volta.int64))),
    (ValueError, "sizes must be at least 0", lambda x: volta.broadcast_shapes(-1, 1)),
    (ValueError, "at least one size", lambda x: x.unflatten(0, ())),
    (TypeError, "positional", lambda x: x.contiguous(volta.contiguous_format)),
    (TypeError, "positional", lambda x: x.double(volta.contiguous_format)),
    (TypeError, "needs the size", lambda x: x.sum_to_size())])
def test_arguments_without_a_meaning(error, match, call):
    with pytest.raises(error, match=match):
        call(volta.ones(2, 2))


def test_norms_of_one_element_do_not_overflow(device):
    x = volta.tensor([[1e30], [-1e30]], device=device, requires_grad=True)
    for norm in (volta.norm(x, dim=1), volta.linalg.vector_norm(x, 6, dim=1), volta.norm(x, -2, 1)):
        assert norm.tolist() == [volta.tensor(1e30).item()] * 2
    volta.norm(x[0]).backward()
    assert x.grad.tolist() == [[1.0], [0.0]]


def test_dtypes_of_counts_and_of_nothing():
    assert volta.repeat_interleave(volta.tensor([1, 2], dtype=volta.int32)).dtype is volta.int32
    for dtype in (volta.bool, volta.uint8, volta.float16):
        assert volta.trapezoid(volta.empty(2, 0, dtype=dtype)).dtype is dtype
    assert volta.cumulative_trapezoid(volta.empty(2, 0), volta.tensor(1.0)).shape == (2, 0)
    assert volta.dist(volta.tensor([1]), volta.tensor([2.5])).item() == 1.5


def test_identity_kernels_of_tensors_that_repeat_elements():
    out = volta.nn.init.dirac_(volta.zeros(1, 2, 3).expand(2, 2, 3))
    assert out.tolist() == [[[0, 1, 0], [0, 1, 0]]] * 2


@pytest.mark.parametrize("call, wanted", [
    (lambda lib: lib.nn.Module().add_module("a.b", lib.nn.ReLU()), KeyError),
    (lambda lib: lib.nn.Module().add_module("", lib.nn.ReLU()), KeyError),
    (lambda lib: lib.nn.Module().add_module("a", 3), TypeError), (lambda lib: lib.nn.Module().add_module(3, lib.nn.ReLU()), TypeError),
    (lambda lib: lib.nn.Module().add_module("train", lib.nn.ReLU()), KeyError),
    (lambda lib: lib.nn.Linear(2, 2).register_buffer("weight", lib.ones(1)), KeyError),
    (lambda lib: lib.nn.Module().register_buffer("a", 3), TypeError),
    (lambda lib: lib.nn.Module().register_parameter("a", lib.ones(1)), TypeError),
    (lambda lib: lib.nn.Sequential(lib.nn.ReLU(), 3), TypeError), (lambda lib: lib.nn.ModuleList([3]), TypeError)])
def test_what_modules_cannot_hold(call, wanted):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for lib in (torch, volta):
        with pytest.raises(wanted) as error:
            call(lib)
    assert str(error.value)[0] not in "'\""             # KeyErrors quote their text


def test_a_dict_of_parameters_prints_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    shown = [repr(lib.nn.ParameterDict({"a": lib.nn.Parameter(lib.ones(2, 3)), "b": lib.nn.Parameter(lib.ones(1, dtype=lib.float64))}))
             for lib in (torch, volta)]
    assert shown[0] == shown[1].replace("volta.", "torch.")


def test_weights_have_the_dtype_of_what_they_weigh():
    x = volta.ones(2)
    for weight in (volta.ones(2, dtype=volta.float64), volta.ones(1, dtype=volta.int64)):
        for call in (volta.lerp, volta.Tensor.lerp_):
            with pytest.raises(DTypeError, match="lerp_?: weight must be float32 as input is"):
                call(x, x + 1, weight)
    assert volta.lerp(x, x + 1, volta.tensor(0.5, dtype=volta.float64)).dtype is volta.float32
    half = volta.ones(2, dtype=volta.float16)
    assert volta.lerp(half, half, half).dtype is volta.float16


def test_dimensions_are_looked_at_before_the_kind_of_reduction():
    x, source, index = volta.ones(2), volta.ones(2), volta.zeros(2, dtype=volta.int64)
    for call in (x.scatter_reduce, x.scatter_reduce_):
        with pytest.raises(IndexRangeError, match="dim 5 is out of range"):
            call(5, index, source, "neither")
    for call in (x.scatter, x.scatter_):
        with pytest.raises(IndexRangeError, match="dim 5 is out of range"):
            call(5, index, source, reduce="neither")
    with pytest.raises(IndexRangeError, match="dim 5 is out of range"):
        x.gather(5, index, sparse_grad=True)


def test_forms_of_calls_that_pytorch_takes():
    assert volta.ones(1).broadcast_to(5).shape == volta.ones(1).expand(5, implicit=True).shape == (5,)
    assert volta.view_copy(volta.ones(2), dtype=volta.int32).tolist() == [1065353216] * 2
    for options in ({}, {"size": (1, 2), "dtype": volta.int32}):
        with pytest.raises(TypeError, match="needs a size or a dtype"):
            volta.view_copy(volta.ones(2), **options)
    whole = volta.tensor([1, 2])
    assert whole.sub(1, 2).tolist() == [-1, 0] and whole.subtract(0.5, 2).tolist() == [0.0, 1.0]
    assert volta.margin_ranking_loss(volta.ones(1, 2), volta.tensor(1.0), volta.tensor(-1.0)).shape == (1, 2)
    with pytest.raises(ShapeError, match="as many dimensions"):
        F.margin_ranking_loss(volta.ones(1, 2), volta.tensor(1.0), volta.tensor(-1.0))
    index = volta.zeros(1, dtype=volta.int64)
    assert volta.ones(2).gather(0, index, sparse_grad=True).tolist() == [1.0]
    with pytest.raises(ArgumentError, match="no sparse gradients"):
        volta.ones(2, requires_grad=True).gather(0, index, sparse_grad=True)


def test_histograms_need_two_edges():
    for edges in (volta.ones(1), volta.ones(0)):
        with pytest.raises(ShapeError, match="edges must be a vector of two or more"):
            volta.histogram(volta.ones(3), edges)
    assert volta.histogram(volta.ones(3), volta.tensor([0.0, 2.0])).hist.tolist() == [3.0]


# ---------------------------------------------------------------- integers
def test_sinc_of_integers_whose_squares_wrap(device):
    assert volta.sinc(volta.tensor([0, 16, 255], dtype=volta.uint8, device=device)).abs().lt(1e-6).tolist() == [False, True, True]
    assert volta.sinc(volta.tensor([2 ** 16], dtype=volta.int32, device=device)).abs().item() < 1e-6


# ---------------------------------------------------------------- floats that are no probabilities
@pytest.mark.parametrize("target", [2.0, -1.0, NAN])
def test_targets_of_binary_cross_entropy_are_probabilities(target):
    with pytest.raises(ArgumentError, match="binary_cross_entropy: the target must lie in \\[0, 1\\]; got"):
        nn.BCELoss()(volta.tensor([0.5, 0.5]), volta.tensor([1.0, target]))


@pytest.mark.parametrize(("call", "text"), [
    (lambda x: x.uniform_(-INF, 0), "uniform_: high - low must be a number of volta.float32, got -inf to 0"),
    (lambda x: x.half().uniform_(0, 1e5), "uniform_: high - low must be a number of volta.float16"),
    (lambda x: x.cov(aweights=volta.tensor([1.0, NAN, 1.0])), "cov: aweights must not be negative, got nan"),
    (lambda x: volta.addmm(x.long(), x.long(), x.long(), alpha=INF), "addmm: beta and alpha of integer tensors must be finite")])
def test_numbers_that_are_not_finite(call, text):
    with pytest.raises(ArgumentError, match=text):
        call(volta.ones(3, 3))


# ---------------------------------------------------------------- what is not looked at
def test_targets_beyond_their_length_may_be_padding(device):
    """Any number, as in PyTorch."""
    log_probs = volta.arange(60.0, device=device).reshape(5, 2, 6).log_softmax(-1)
    lengths = volta.tensor([5, 5]), volta.tensor([2, 1])
    losses = [F.ctc_loss(log_probs, volta.tensor([[1, 2, pad], [1, pad, pad]], device=device), *(n.to(device) for n in lengths))
              for pad in (0, -1, 100)]
    assert losses[0].item() == losses[1].item() == losses[2].item() < INF
    if device == "cpu":
        with pytest.raises(IndexRangeError, match="ctc_loss: index -1 is out of range for a dimension of size 6"):
            F.ctc_loss(log_probs, volta.tensor([[1, -1, 0], [1, 0, 0]]), *lengths)


def test_histc_of_elements_far_apart(device):
    """Places that overflow count in the first part, as in PyTorch."""
    assert volta.histc(volta.tensor([0.5, -3.0, 3.4e38]), 3).tolist() == [3.0, 0.0, 0.0]
    x = volta.tensor([0.5, 1.0, 2.0], device=device)
    assert volta.histc(x, 2).tolist() == volta.histc(x, 2, x.min(), x.max()).tolist() == [2.0, 1.0]


def test_linear_broadcasts_its_bias(device):
    x, weight = volta.ones(2, 5, 3, device=device), volta.ones(4, 3, device=device)
    for shape in ((), (1,), (5, 1), (2, 5, 4)):
        assert F.linear(x, weight, volta.ones(shape, device=device)).eq(4).all()
    with pytest.raises(ShapeError, match="or one that broadcasts to \\(2, 5, 4\\), got \\(3,\\)"):
        F.linear(x, weight, volta.ones(3, device=device))


def test_bytes_are_no_indices_where_there_are_none_either(device):
    """Though gather and scatter_reduce do not look at what has no elements."""
    x, none = volta.ones(3, device=device), volta.zeros(0, dtype=volta.uint8, device=device)
    for call in (lambda: x.index_select(0, none), lambda: x.take(none), lambda: x.index_add(0, none, x[:0]), lambda: x.put(none, x[:0]),
                 lambda: x.index_fill(0, none, 2), lambda: F.embedding(none, x[:, None]), lambda: F.one_hot(none, 3)):
        with pytest.raises(DTypeError, match="the index must be int64 or int32, got volta.uint8"):
            call()
    for dtype in volta.uint8, volta.bool, volta.float32:
        none = volta.zeros(0, dtype=dtype, device=device)
        assert x.gather(0, none).tolist() == [] and x.scatter_reduce(0, none, x, "sum").tolist() == [1.0, 1.0, 1.0]
