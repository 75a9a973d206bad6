"""Which arguments and dtypes are taken, and what of nothing is: differences from PyTorch that comparisons found."""
import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
import volta.optim
from volta.errors import ArgumentError, AutogradError, DTypeError, OutOfMemoryError, ShapeError
from volta.ops.records.conv import conv2d_op


def test_batches_of_different_sizes_are_an_error_of_values():
    with pytest.raises(ValueError, match="different sizes"):
        F.cross_entropy(volta.ones(2, 3), volta.ones(4, 3))


def test_weights_of_another_dtype_are_added_up_in_theirs():
    """1 and 2**-25 are 1 in float32."""
    weights = volta.tensor([1.0, 2.0**-25])
    found = volta.cov(volta.tensor([0.0, 1.0], dtype=volta.float64), aweights=weights, correction=0).item()
    mean = 2.0**-25
    assert found == pytest.approx(mean**2 + mean * (1 - mean)**2, rel=1e-12, abs=0)


def test_factors_in_tensors_have_no_part_in_the_dtype(device):
    x, half = volta.tensor([3, 4], device=device), volta.tensor(0.5, device=device)
    for call in (lambda: volta.add(x, x, alpha=half), lambda: volta.sub(x, 3, alpha=half), lambda: volta.rsub(x, x, alpha=half)):
        with pytest.raises(DTypeError, match="is no integer, but the tensors are"):
            call()
    with pytest.raises(DTypeError, match="a bool alpha is for bool tensors"):
        volta.add(x, x, alpha=half > 0)
    two = volta.tensor(2.5, device=device)
    assert volta.addcmul(x, x, x, value=two).tolist() == [21, 36] and x.clone().addcmul_(x, x, value=two).dtype is volta.int64
    wide = volta.tensor(2.0, dtype=volta.float64)
    one = volta.tensor(1.0)
    for found in (volta.add(one, one, alpha=wide), volta.addcmul(one, one, one, value=wide), volta.addcdiv(one, one, one, value=wide)):
        assert found.dtype is volta.float32 and found.item() == 3.0


def test_dimensions_and_orders_in_tensors(device):
    x, one = volta.tensor([[1.0, 5.0], [4.0, 2.0]], device=device), volta.tensor(1)
    assert volta.max(x, one, True).values.tolist() == [[5.0], [4.0]] and x.min(one, True).indices.tolist() == [[0], [1]]
    np.testing.assert_array_equal(volta.polygamma(one, x).numpy(), volta.polygamma(1, x).numpy())
    np.testing.assert_array_equal(x.polygamma(one).numpy(), volta.polygamma(1, x).numpy())


def test_norms_of_an_order_that_is_no_number(device):
    x = volta.tensor([[1.0, 2.0]], device=device, requires_grad=True)
    for found in (x.norm(math.nan), volta.linalg.vector_norm(x, math.nan, 1), F.normalize(x, math.nan), volta.dist(x, x * 2, math.nan)):
        assert volta.isnan(found).all().item() and volta.isnan(volta.autograd.grad(found.sum(), x)[0]).all().item()
    assert volta.norm(x[:, 1:], math.nan).item() == 2.0


def test_what_refuses_a_dtype_is_not_implemented_for_it():
    with pytest.raises(NotImplementedError, match="floating point"):
        volta.softmax(volta.ones(2, dtype=volta.int64), 0)


@pytest.mark.parametrize("dtype", [volta.int64, volta.bool])
def test_nothing_is_left_of_integers_whose_elements_all_drop(dtype):
    x = volta.tensor([[1, 2]]).to(dtype)
    for drop in (F.dropout, F.alpha_dropout, F.feature_alpha_dropout):
        out = drop(x, 1.0, True)
        assert out.dtype is dtype and not out.any()


@pytest.mark.parametrize("dtype", [volta.int64, volta.bool])
def test_nothing_to_compute_is_taken_of_any_dtype(dtype):
    x = volta.zeros(2, 0, dtype=dtype)
    for op in (volta.softmax, volta.log_softmax, F.softmax):
        out = op(x, -1)
        assert out.shape == (2, 0) and out.dtype is dtype
    assert volta.bucketize(x, volta.zeros(3, dtype=dtype)).dtype is volta.int64
    assert volta.linspace(1, 2, 0, dtype=dtype).tolist() == [] and volta.linspace(1, 2, 1, dtype=dtype).tolist() == [1]
    if dtype is volta.bool:
        with pytest.raises(DTypeError, match="searchsorted: sorted must be floating point or integer"):
            volta.searchsorted(x[0], volta.ones(3, dtype=dtype))
        with pytest.raises(DTypeError, match="linspace: needs a dtype of numbers"):
            volta.linspace(0, 1, 2, dtype=dtype)


def test_tolerances_of_each_matrix():
    x = volta.tensor([[2.0, 0.0], [0.0, 0.5]]).expand(2, 2, 2)
    for got in (volta.linalg.pinv(x, volta.tensor([0.1, 0.5])), volta.linalg.pinv(x[0], atol=volta.tensor([0.1, 1.0]))):
        assert got.tolist() == [[[0.5, 0.0], [0.0, 2.0]], [[0.5, 0.0], [0.0, 0.0]]]
    assert volta.linalg.pinv(x[:0], volta.ones(0)).shape == (0, 2, 2)


def test_names_and_numbers_as_pytorch_takes_them():
    x = volta.tensor([1.0, 2.0])
    assert volta.polygamma(1, input=x).tolist() == x.polygamma(n=1).tolist() == volta.polygamma(1, x).tolist()
    with pytest.warns(UserWarning, match="deprecated"):
        assert volta.range(0.5, 3, dtype=volta.int8).tolist() == [0, 1, 2, 3]
    with pytest.warns(UserWarning, match="deprecated"), pytest.raises(DTypeError, match="bool has no numbers"):
        volta.range(0, 1, dtype=volta.bool)
    assert [tuple(m.shape) for m in volta.svd(volta.ones(2, 3), compute_uv=False)] == [(2, 2), (2,), (3, 3)]
    with pytest.raises(ArgumentError, match="dims must name each dimension once"):
        volta.linalg.tensorsolve(volta.eye(2), volta.ones(2), (0, 0))
    with pytest.raises(AutogradError, match="leaf"):
        volta.embedding_renorm_(volta.ones(2, 2, requires_grad=True), volta.tensor([0]), 1.0, 2.0)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_no_channels(rank, bias, device):
    """They ended the process. PyTorch gives no channels then; gradients are zeros."""
    size = (3,) * rank
    x = volta.ones(2, 0, *size, device=device, requires_grad=True)
    weight, b = volta.ones(4, 0, *(2,) * rank, device=device, requires_grad=True), volta.ones(4, device=device) if bias else None
    out = getattr(F, f"conv{rank}d")(x, weight, b)
    assert out.shape == (2, 0, *(2,) * rank)
    assert [g.shape for g in volta.autograd.grad(out.sum(), (x, weight))] == [x.shape, weight.shape]
    y, none = volta.ones(2, 3, *size, device=device, requires_grad=True), volta.ones(3, 0, *(2,) * rank, device=device)
    out = getattr(F, f"conv_transpose{rank}d")(y, none)
    assert out.shape == (2, 0, *(4,) * rank) and volta.autograd.grad(out.sum(), y)[0].abs().sum().item() == 0


def test_a_convolution_of_no_channels_is_its_bias():
    for dtype in (volta.float32, volta.float64):
        out = conv2d_op(volta.ones(2, 0, 3, 3, dtype=dtype), volta.ones(2, 0, 2, 2, dtype=dtype), volta.tensor([1.0, 2.0], dtype=dtype),
                        stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)
        assert out[:, 0].tolist() == [[[1.0] * 2] * 2] * 2 and out[:, 1].tolist() == [[[2.0] * 2] * 2] * 2


def test_integers_wrap_before_they_meet_halves():
    y, x = volta.tensor([200, 100, 3], dtype=volta.uint8), volta.tensor([1.0, 2.0, 4.0], dtype=volta.float16)
    assert volta.cumulative_trapezoid(y, x).tolist() == [22.0, 125.0]
    assert volta.trapezoid(y, x).item() == 125.0


def test_replication_may_cut_more_than_there_was(device):
    x = volta.arange(4.0, device=device).reshape(1, 1, 4)
    assert F.pad(x, (4, -5), mode="replicate").tolist() == [[[0.0, 0.0, 0.0]]]
    assert F.pad(x, (-5, 4), mode="replicate").tolist() == [[[3.0, 3.0, 3.0]]]
    with pytest.raises(ShapeError, match="cannot extend dimension 2 of size 4"):
        F.pad(x, (-2, -2), mode="replicate")


@pytest.mark.parametrize("half", [volta.float16, volta.bfloat16])
def test_instance_norm_of_halves_takes_weights_of_float32(half):
    x, weight, bias = volta.randn(2, 3, 4), volta.rand(3), volta.rand(3)
    out = F.instance_norm(x.to(half), weight=weight, bias=bias)
    assert out.dtype is half
    expected = F.instance_norm(x.to(half).float(), weight=weight, bias=bias).to(half)
    np.testing.assert_array_equal(out.float().numpy(), expected.float().numpy())


@pytest.mark.parametrize("given", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kept", ["float16", "bfloat16", "float32", "float64"])
def test_instance_norm_moves_statistics_of_another_dtype(given, kept):
    x, kept = volta.randn(2, 3, 4).to(getattr(volta, given)), getattr(volta, kept)
    mean, var = volta.rand(3).to(kept), volta.rand(3).to(kept)
    wide = [v.float() for v in (mean, var)]
    out = F.instance_norm(x, mean, var, momentum=0.25)
    F.instance_norm(x.float(), *wide, momentum=0.25)
    assert out.dtype is x.dtype and mean.dtype is kept is var.dtype
    for v, expected in zip((mean, var), wide):
        np.testing.assert_array_equal(v.float().numpy(), expected.to(kept).float().numpy())


def test_ldexp_takes_negative_powers_beside_small_integers(device):
    x = volta.tensor([5, 80], dtype=volta.uint8, device=device)
    assert volta.ldexp(x, volta.tensor(-4, device=device)).tolist() == [0.3125, 5.0]


@pytest.mark.parametrize("half", [volta.float16, volta.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_halves_takes_weights_of_float32(half, training):
    x, vectors = volta.randn(4, 3, 5).to(half), [volta.rand(3) + 0.5 for _ in range(4)]
    again = [v.clone() for v in vectors]
    out = F.batch_norm(x, *vectors, training=training)
    expected = F.batch_norm(x.float(), *again, training=training).to(half)
    assert out.dtype is half and volta.equal(out, expected) and volta.equal(vectors[0], again[0])


def test_solutions_of_triangles_take_right_sides_of_any_dtype():
    a = volta.tensor([[2.0, 0.0], [1.0, 4.0]])
    for dtype in (volta.float64, volta.int64, volta.float16):
        out = volta.linalg.solve_triangular(a, volta.tensor([[2.0, 4.0], [8.0, 4.0]]).to(dtype), upper=False)
        assert out.dtype is volta.float32 and out.tolist() == [[1.0, 2.0], [1.75, 0.5]]


@pytest.mark.parametrize("call, error", [
    (lambda x: x.masked_fill_(1.5, volta.tensor(1.0)), TypeError), (lambda x: x.masked_fill_(x > 0, x), RuntimeError),
    (lambda x: volta.manual_seed(1 << 64), ValueError), (lambda x: volta.ones(2, device=-1), RuntimeError),
    (lambda x: volta.optim.Adam([x], foreach=True, fused=True), RuntimeError),
    (lambda x: volta.rrelu(x, 0.1, 0.2, False, volta.Generator()), ValueError)])
def test_arguments_that_are_refused(call, error):
    x = volta.ones(2, 2)
    with pytest.raises(error):
        call(x)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("call", [
    lambda flags, x: volta.addcmul(flags, flags, flags), lambda flags, x: flags.geometric_(0.5),
    lambda flags, x: F.pairwise_distance(x, flags),
    lambda flags, x: volta.index_reduce(flags, 0, volta.tensor([0, 1], device=x.device), flags, "amax"),
    lambda flags, x: flags.trace(), lambda flags, x: F.triplet_margin_loss(x, flags, x),
    lambda flags, x: F.multilabel_margin_loss(x.long(), x.long())],
    ids="addcmul geometric pairwise_distance index_reduce trace triplet_margin_loss multilabel_margin_loss".split())
def test_dtypes_that_pytorch_refuses(device, call):
    with pytest.raises(DTypeError, match="bool|int64"):
        call(volta.ones(2, 3, dtype=volta.bool, device=device), volta.ones(2, 3, device=device))


def test_small_edges(device):
    x = volta.tensor(3.0, device=device)
    assert x.H is x and x.t() is not x and x.t().data_ptr() == x.data_ptr()
    assert volta.diff(volta.arange(3, device=device), 0, 100).tolist() == [0, 1, 2]


def test_a_label_beyond_all_sizes():
    with pytest.raises((ShapeError, ArgumentError, OutOfMemoryError)):
        F.one_hot(volta.tensor([2**63 - 1]))


@pytest.mark.parametrize("shape", [(2, 3, 0), (3, 0)])
def test_the_mean_of_nothing_as_one_place(device, shape):
    out = F.adaptive_avg_pool1d(volta.zeros(shape, device=device), 1)
    assert out.shape == (*shape[:-1], 1) and out.isnan().all()
    with pytest.raises(ShapeError, match="only the batch may have a size of 0"):
        F.adaptive_avg_pool1d(volta.zeros(shape, device=device), 2)


def test_what_nothing_is_rolled_along_does_not_matter(device):
    assert volta.roll(volta.ones(0, 2, device=device), 1, 100).shape == (0, 2)
    with pytest.raises(DTypeError, match="no mean of bool"):
        volta.scatter_reduce(volta.ones(2, dtype=volta.bool, device=device), 0, volta.tensor([0], device=device),
                             volta.ones(1, dtype=volta.bool, device=device), "mean")


def test_reflections_and_their_factors_have_one_dtype():
    with pytest.raises(DTypeError, match="the factors must be"):
        volta.ormqr(volta.ones(2, 1), volta.ones(1, dtype=volta.float64), volta.eye(2))


def test_betas_are_two_numbers_or_two_tensors():
    x = [volta.ones(2, requires_grad=True)]
    with pytest.raises(ArgumentError, match="Adam: betas must be two numbers or two tensors"):
        volta.optim.Adam(x, betas=(0.9, volta.tensor(0.99)))
    with pytest.raises(ArgumentError, match="AdamW: lr and betas may be tensors with foreach=True only where capturable"):
        volta.optim.AdamW(x, lr=volta.tensor(0.1), foreach=True)


@pytest.mark.parametrize("name", ["min", "max"])
def test_a_whole_number_in_a_tensor_is_a_dimension_where_keepdim_is_given(device, name):
    x = volta.tensor([[3.0, 1.0], [0.0, 2.0]], device=device)
    function, place = getattr(volta, name), volta.tensor(1)
    for keep in (False, True):
        found, wanted = function(x, place, keep), function(x, 1, keep)
        assert found.values.tolist() == wanted.values.tolist() and found.indices.tolist() == wanted.indices.tolist()
    assert function(x, volta.tensor(1, device=device)).shape == (2, 2)
    for other in (volta.tensor(1.0), volta.tensor([1]), volta.tensor(True)):
        with pytest.raises(TypeError, match=f"{name}: with keepdim goes a dimension"):
            function(x, other, False)


def test_products_of_bool_without_elements_in_layers(device):
    none = volta.zeros(0, 3, dtype=volta.bool, device=device)
    assert F.linear(none, volta.ones(2, 3, dtype=volta.bool, device=device)).shape == (0, 2)
    assert volta.linalg.multi_dot([none, none.T]).shape == (0, 0)
    with pytest.raises(DTypeError, match="linear: input must be floating point or integer, got bool"):
        F.linear(~volta.zeros(1, 3, dtype=volta.bool, device=device), volta.ones(2, 3, dtype=volta.bool, device=device))


def test_dropouts_in_place_leave_a_leaf_that_they_do_not_change(device):
    x = volta.ones(2, 3, device=device, requires_grad=True)
    for op in (volta.dropout_, volta.feature_dropout_, volta.alpha_dropout_, volta.feature_alpha_dropout_):
        assert op(x, 0.0, True) is x and op(x, 0.5, False) is x
        with pytest.raises(RuntimeError, match="a leaf tensor that requires grad"):
            op(x, 0.5, True)
    with pytest.raises(RuntimeError, match="a leaf tensor that requires grad"):
        F.dropout3d(volta.ones(2, 3, 4, 5, device=device, requires_grad=True), 0.0, True, True)


def test_a_vector_may_have_more_than_the_parameters(device):
    x = volta.zeros(2, device=device)
    volta.nn.utils.vector_to_parameters(volta.arange(5.0, device=device), [x])
    assert x.tolist() == [0.0, 1.0]
    with pytest.raises(ShapeError, match="needs a vector of 2 elements at least"):
        volta.nn.utils.vector_to_parameters(volta.ones(1, device=device), [x])


@pytest.mark.parametrize("shape, pad", [((5,), (1, 1)), ((2, 3), (1, 1, 1, 1)), ((2, 3, 4, 5), (1, 1)), ((2, 3), ())])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_of_edges_is_for_some_dimensions(device, mode, shape, pad):
    with pytest.raises(ShapeError, match=f"pad: mode '{mode}' takes 2 sizes for 2 or 3 dimensions"):
        F.pad(volta.ones(shape, device=device), pad, mode=mode)


def test_dtypes_that_must_agree():
    x, pivots = volta.eye(2), volta.tensor([1, 2], dtype=volta.int32)
    with pytest.raises(DTypeError, match=r"linalg\.lu_solve: both must have one dtype"):
        volta.linalg.lu_solve(x.double(), pivots, x)
    with pytest.raises(DTypeError, match="embedding_bag: per_sample_weights must be volta.float64"):
        F.embedding_bag(volta.tensor([[0]]), x.double(), mode="sum", per_sample_weights=volta.ones(1, 1))
    with pytest.raises(DTypeError, match="histogramdd: the edges must be volta.float32"):
        volta.histogramdd(x, [volta.arange(2.0).double()] * 2)
    with pytest.raises(DTypeError, match="cross_entropy: target must be int64 for an input"):
        F.cross_entropy(volta.ones(1, 2, 3), volta.zeros(1, 3, dtype=volta.uint8))
    indices, offsets = volta.tensor([0, 1], dtype=volta.uint8), volta.tensor([0])
    assert F.embedding_bag(indices, x, offsets, mode="sum").tolist() == [[1.0, 1.0]]
    assert volta.lu_unpack(x.bfloat16(), pivots).P.dtype is volta.bfloat16
    assert volta.cov(volta.tensor([1, 2]), aweights=volta.ones(2, dtype=volta.float16)).dtype is volta.float16
    half = volta.native_layer_norm(x.half(), (2,), volta.ones(2), None, 1e-5)
    assert half[0].dtype is volta.float16 and half[1].dtype is half[2].dtype is volta.float32


@pytest.mark.parametrize("call, kind", [
    (lambda: volta.nn.Embedding(3, 4, padding_idx=5), AssertionError),
    (lambda: volta.nn.Embedding(3, 4, _weight=volta.ones(2, 2)), AssertionError),
    (lambda: volta.nn.Embedding.from_pretrained(volta.ones(2)), AssertionError),
    (lambda: volta.nn.MultiheadAttention(4, 3), AssertionError),
    (lambda: volta.nn.Hardtanh(2, 1), AssertionError), (lambda: volta.nn.Linear(2.5, 3), TypeError),
    (lambda: volta.nn.Dropout("a"), TypeError),
    (lambda: volta.nn.Sequential(volta.nn.ReLU()) * 1.5, TypeError), (lambda: volta.nn.Sequential(volta.nn.ReLU()) + 3, ValueError),
    (lambda: volta.nn.Sequential(volta.nn.ReLU()).insert(5, volta.nn.ReLU()), IndexError), (lambda: volta.nn.Unflatten(1, 2), TypeError),
    (lambda: volta.nn.GRU(2, 3, proj_size=1), ValueError), (lambda: volta.nn.TripletMarginLoss(margin=-1), ValueError),
    (lambda: volta.nn.MultiMarginLoss(p=3), ValueError), (lambda: volta.nn.MultiMarginLoss(weight=volta.ones(2, 2)), ValueError),
    (lambda: volta.nn.functional.interpolate(volta.ones(1, 1, 2), 2, mode="foo"), NotImplementedError),
    (lambda: volta.nn.functional.interpolate(volta.ones(1, 1, 2), 2, mode="bilinear"), NotImplementedError),
    (lambda: volta.nn.Linear(2, 3, device="meta").to("cpu"), NotImplementedError),
    (lambda: volta.data.TensorDataset(volta.ones(2), volta.ones(3)), AssertionError),
    (lambda: volta.data.ConcatDataset([]), AssertionError),
    (lambda: volta.nn.init.calculate_gain("leaky_relu", "a"), ValueError),
    (lambda: volta.optim.SGD([{"lr": 1}], lr=0.1), KeyError), (lambda: volta.optim.SGD([volta.ones(1)], lr=1).step(3), TypeError),
    (lambda: volta.optim.LBFGS([volta.ones(1)]).step(), TypeError),
    (lambda: volta.optim.SGD([volta.ones(1)], lr=1).add_param_group({"params": {volta.ones(1)}}), TypeError),
    (lambda: volta.optim.lr_scheduler.StepLR(volta.optim.SGD([volta.ones(1)], lr=1), 2, last_epoch=3), KeyError)])
def test_classes_of_errors_are_pytorchs_too(call, kind):
    with pytest.raises(kind) as raised:
        call()
    assert isinstance(raised.value, (volta.errors.VoltaError, TypeError))


def test_states_of_schedules_hold_what_pytorchs_do():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")

    def states(lib):
        optimizer = lib.optim.SGD([lib.ones(1)], lr=0.5)
        schedules = lib.optim.lr_scheduler
        for make in (lambda: schedules.StepLR(optimizer, 2), lambda: schedules.MultiStepLR(optimizer, [3, 1, 3]),
                     lambda: schedules.CosineAnnealingLR(optimizer, 5), lambda: schedules.LinearLR(optimizer)):
            made = make()
            for _ in range(4):
                optimizer.step()
                made.step()
            yield made, made.state_dict()
    for (ours, state), (_, theirs) in zip(states(volta), states(torch)):
        assert state.keys() == theirs.keys() and state.get("milestones") == theirs.get("milestones")
        ours.load_state_dict(theirs)
        assert ours.get_last_lr() == pytest.approx(theirs["_last_lr"]) and ours.state_dict().keys() == theirs.keys()


def test_a_dict_of_parameters_is_joined():
    a, b = (volta.nn.ParameterDict({name: volta.ones(1)}) for name in "ab")
    assert list(a | b) == list({"a": volta.ones(1)} | b) == ["a", "b"] and list(reversed(a | b)) == ["b", "a"]
    a |= b
    assert list(a) == ["a", "b"] and volta.nn.ModuleList([volta.nn.ReLU()]).insert(0, volta.nn.ReLU()) is None


def test_limits_and_places_are_described_as_in_pytorch():
    assert volta.finfo(volta.float32).resolution == 1e-6 and volta.finfo(volta.float16) == volta.finfo(volta.float16)
    assert repr(volta.iinfo(volta.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    assert volta.device("cpu").index is None and volta.device("meta").index is None and volta.ones(1).device.index is None
    for call in (lambda: volta.finfo(3), lambda: volta.iinfo(volta.float32), lambda: volta.iinfo(3)):
        with pytest.raises(TypeError):
            call()


def test_numbers_of_numpy_count_as_pythons_in_result_types():
    whole, truths = volta.ones(2, dtype=volta.int8), volta.ones(2, dtype=volta.bool)
    for number in (np.int8(2), np.int64(2), np.uint8(2)):
        assert volta.result_type(whole, number) is volta.int8 and volta.result_type(truths, number) is volta.int64
    assert volta.result_type(whole, np.float64(2)) is volta.float32 and volta.result_type(whole, np.bool_(True)) is volta.int8


def test_dimensions_and_sizes_that_are_no_integers():
    """What `__index__` raised was left pending behind a result."""
    x = volta.ones(2, 3)
    for call in (lambda: x.size(volta.tensor(1.5)), lambda: x.size(volta.ones(2)),
                 lambda: x.index_add(volta.ones(2), volta.tensor([0]), x[:1]),
                 lambda: x.view(6.0), lambda: x.view(3.0, 2), lambda: x.view([3.0, 2]), lambda: x.view(None), lambda: x.expand(2.0, 3)):
        with pytest.raises(TypeError):
            call()


def test_what_programs_ask_of_views_and_nodes():
    x = volta.ones(2, requires_grad=True) * 2
    y = x * 3
    assert x[:1]._is_view() and not x._is_view() and y.grad_fn._sequence_nr() > x.grad_fn._sequence_nr()


def test_what_has_an_index_is_an_integer():
    """An object of a program's own, by its `__index__`."""
    class Two:
        def __index__(self):
            return 2

    x = volta.arange(12.0).reshape(3, 4)
    for call in (lambda n: x.triu(n), lambda n: x.topk(n)[0], lambda n: x.diff(n), lambda n: x.rot90(n), lambda n: x.roll(n, 1),
                 lambda n: x.histc(n), lambda n: x.expand([n, 3, 4])):
        assert volta.equal(call(Two()), call(2))


def test_limits_and_buffers_of_what_has_none():
    for given in (volta.ones(2), "float32", 3):
        with pytest.raises(DTypeError, match="finfo: needs a floating point dtype, got"):
            volta.finfo(given)
    with pytest.raises(ArgumentError, match=r"Buffer: needs a tensor, got bool; wrap it with volta\.tensor"):
        volta.nn.Buffer(True)
    assert volta.nn.Buffer().shape == (0,)


def test_windows_of_more_elements_than_can_be_counted_are_refused():
    with pytest.raises(ShapeError, match=r"at most 32 dimensions and 2\*\*60 elements are possible, got \(6442450941, 4294967294\)"):
        F.max_unpool2d(volta.ones(1, 1, 3, 2), volta.zeros(1, 1, 3, 2, dtype=volta.int64), 2**31 - 1)
