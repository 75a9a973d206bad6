"""Arguments of kinds that PyTorch refuses are refused: None for what may only be left out, NumPy's bool for bool, arrays for tensors."""
import inspect

import numpy as np
import pytest

import volta
from volta._kernels.core.record import Composed
from volta.errors import DTypeError
from volta.ops import particular, table

X = volta.ones(2, 3)


def refuses(words, call):
    with pytest.raises(DTypeError, match=words):
        call()


def test_none_for_what_may_only_be_left_out(each):
    def check(name, arguments, options):
        refuses(f"{name}: \\w+ must be .*, got NoneType", lambda: getattr(volta, name)(X, *arguments, **options))

    for name in ("max", "min", "median", "nanmedian", "prod", "squeeze", "squeeze_copy"):
        each(check, [name], [()], [{"dim": None}])
    each(check, ["max", "min", "median", "prod", "squeeze", "trapezoid", "cumulative_trapezoid"], [(None,)], [{}])
    each(check, ["max", "min", "median", "sum", "mean", "amax", "any", "argmax", "std"], [(0,)], [{"keepdim": None}])
    each(check, ["std", "var", "std_mean", "var_mean"], [(0,)], [{"unbiased": None}])
    refuses("eye: m must be an integer, got NoneType", lambda: volta.eye(2, None))
    assert volta.sum(X, None).item() == X.sum(dim=None).item() == 6 and X.std(dim=None).item() == 0


def test_dimensions_of_a_product():
    refuses("prod: dim must be an integer, got \\(0, 1\\)", lambda: X.prod((0, 1)))
    refuses("prod: dim must be an integer, got \\[\\]", lambda: X.prod([]))
    assert X.prod().item() == 1 and X.prod(-1, True).shape == (2, 1)


def test_truths_of_numpy(each):
    def check(call):
        refuses("must be True or False, got numpy.bool", call)
    yes = np.bool_(True)
    each(check, [lambda: X.sum(0, yes), lambda: volta.sort(X, descending=yes), lambda: volta.linalg.svd(X, full_matrices=yes),
                 lambda: X.nonzero(as_tuple=yes), lambda: volta.nn.functional.avg_pool1d(X, 2, ceil_mode=yes)])
    assert volta.nn.functional.relu(X, inplace=np.bool_(False)).shape == (2, 3)         # a function of Python's in PyTorch, too


def test_arrays_for_tensors(each):
    """An operator takes them, as in PyTorch; of one number, functions do, too."""
    array = np.ones((2, 3), np.float32)

    def check(call):
        refuses("must be a tensor or a number, got ndarray", call)
    each(check, [lambda: volta.add(X, array), lambda: volta.exp(array), lambda: X.clone().mul_(array), lambda: X.eq(array),
                 lambda: volta.pow(array, X)])
    assert (X + array).tolist() == (array + X).tolist() == [[2.0] * 3] * 2 and volta.add(X, np.float32(1)).tolist() == [[2.0] * 3] * 2


def test_numbers_for_sequences(each):
    def check(make, number):
        refuses(f"the data must be a sequence, got {type(number).__name__}; write tensor\\(\\) of a number", lambda: make(number))
    each(check, [volta.Tensor, volta.FloatTensor, volta.LongTensor], [2.5, np.float32(2.5), "2"])
    assert volta.Tensor([2.5]).tolist() == [2.5] and volta.Tensor(2).shape == (2,)


def test_keepdim_goes_with_a_dimension(each):
    def check(name, options):
        with pytest.raises(TypeError, match=f"{name}: keepdim goes with a dimension; give dim, too"):
            getattr(volta, name)(X, **options)
    each(check, ["sum", "mean", "prod", "max", "min", "median", "nanmedian"], [{"keepdim": True}, {"keepdim": False}, {"keepdims": True}])
    with pytest.raises(TypeError, match="sum: keepdim goes with"):
        X.sum(keepdim=True, dtype=volta.float64)
    assert X.sum(None, True).shape == X.sum(None, keepdim=True).shape == X.mean(dim=None, keepdim=True).shape == (1, 1)
    assert X.amax(keepdim=True).shape == X.all(keepdim=True).shape == X.argmax(keepdim=True).shape == (1, 1)
    assert X.sum(axis=1, keepdims=True).shape == X.sum(keepdim=True, dim=1).shape == (2, 1)


def test_bounds_are_both_tensors_or_both_numbers(each):
    low, high = volta.zeros(3), volta.ones(3)

    def check(call):
        refuses("clamp_?: min and max must both be tensors or both numbers", call)
    each(check, [lambda: volta.clamp(X, low, 1), lambda: X.clamp(0, high), lambda: volta.clip(X, min=0, max=high),
                 lambda: X.clone().clamp_(0, high), lambda: X.long().clamp(0, high),
                 lambda: X.clamp(volta.tensor(0.0, requires_grad=True), 2)])
    assert X.clamp(low, high).tolist() == X.clamp(volta.tensor(0.0), 1).tolist() == X.clone().clamp_(0, volta.tensor(1.0)).tolist()


def test_numbers_for_tensors_of_gamma_functions(each):
    def check(call):
        refuses("igammac?_?: (input|other) must be a tensor, got (float|int)", call)
    each(check, [lambda: volta.igamma(X, 2.0), lambda: volta.igammac(2, X), lambda: X.igamma(other=2), lambda: X.clone().igammac_(2.0),
                 lambda: volta.special.gammainc(2.0, X)])


def test_a_size_of_one_number_and_bools_of_numpys(each):
    def check(call, words):
        refuses(words, call)
    each(check, [lambda: volta.full(2, 1.0), lambda: X.new_full(2, 1.0), lambda: volta.full(np.int64(2), 1)],
         ["size must be a sequence of integers, got"])
    ints, yes = X.long(), np.bool_(True)
    each(check, [lambda: ints & yes, lambda: yes | ints, lambda: ints ^ yes, lambda: ints << yes],
         ["bitwise_\\w+: \\w+ must be a tensor or a number, got bool"])
    for key in (yes, (0, yes)):
        with pytest.raises(IndexError, match="indexing: bool is no index"):
            X[key]
        with pytest.raises(IndexError, match="indexing: bool is no index"):
            X[key] = 1.0
    assert X[[yes, np.bool_(False)]].shape == (1, 3) and (X + yes).tolist() == [[2.0] * 3] * 2 and (ints & True).tolist() == [[1] * 3] * 2


def test_counts_and_indices_in_tensors_and_arrays(each):
    """What PyTorch calls symbolic integers; dimensions it takes from tensors without dimensions alone."""
    counts = (volta.tensor(2), volta.tensor([2]), np.array(2), np.int64(2))

    def check(call, count):
        assert call(count).shape == call(2).shape
    each(check, [lambda n: volta.eye(n), lambda n: X.topk(n)[0], lambda n: X.kthvalue(n)[0], lambda n: X.narrow(1, 0, n), volta.randperm,
                 lambda n: X.select(1, n), lambda n: X.tril(n), lambda n: X.narrow_copy(1, n, 1), lambda n: X.as_strided((1,), (1,), n),
                 lambda n: volta.randint(n, (3,)), lambda n: volta.zeros(n), lambda n: X.expand(n, 2, 3), lambda n: X.repeat(1, n),
                 lambda n: volta.svd_lowrank(X, n)[1], lambda n: volta.nn.functional.local_response_norm(X[None], n),
                 lambda n: volta.nn.functional.conv1d(X, volta.ones(2, 1, 1), groups=n),
                 lambda n: volta.slice_scatter(X, volta.ones(2, 1), 1, n)], counts)
    assert volta.all(X, dim=volta.tensor(0)).shape == (3,) and [len(p) for p in X.T.split(volta.tensor(2.0))] == [2, 1]
    assert volta.tensordot(X, X.T, volta.tensor(1)).shape == volta.tensordot(X, X.T, True).shape == (2, 2)
    assert volta.tensordot(X, X, volta.tensor([[1], [1]])).shape == (2, 2) and volta.svd_lowrank(X, True)[1].shape == (1,)
    pool = volta.nn.functional.adaptive_avg_pool2d
    for size in (volta.tensor([1, 2]), np.array([1, 2]), (True, 2)[::-1]):
        assert pool(X[None], size).shape == (1, *map(int, size))
    assert volta.sub(X, np.bool_(True)).tolist() == [[0.0] * 3] * 2
    assert volta.renorm(X, 2, 0, volta.tensor(1)).norm(dim=1).tolist() == pytest.approx([1, 1])


def test_numbers_for_targets():
    f = volta.nn.functional
    assert f.gaussian_nll_loss(X, 2, X).item() == f.gaussian_nll_loss(X, 2 * X, X).item() == 0.5
    assert f.multilabel_soft_margin_loss(X, 2).item() == f.multilabel_soft_margin_loss(X, 2 * X).item()
    assert f.local_response_norm(X[None], 2, volta.tensor(1.0), volta.tensor(1.0)).shape == (1, 2, 3)


def test_integers_of_other_kinds_are_refused(each):
    def check(call, words):
        refuses(words, call)
    f, images, yes = volta.nn.functional, volta.ones(1, 1, 4, 4), volta.tensor(True)
    each(check, [lambda: volta.zeros(np.array([2, 3])), lambda: X.reshape(np.array([6])), lambda: X.sum(np.array([0])),
                 lambda: volta.zeros(yes), lambda: X.repeat(yes, 2), lambda: f.interpolate(images, size=yes),
                 lambda: X.any(dim=volta.tensor([0])), lambda: f.unfold(images, volta.tensor(2)), lambda: X.split(np.int64(2)),
                 lambda: volta.unsafe_split(X, [1, 1])], ["must be an integer"])
    each(check, [lambda: X.std(dim=True), lambda: X.var(dim=False), lambda: volta.std_mean(X, dim=True)], ["dim must be .* got bool"])
    for mode in ("nearest", "bilinear", "bicubic"):
        refuses("scale_factor must be a number", lambda mode=mode: f.interpolate(images, scale_factor=volta.tensor(2), mode=mode))
    assert X.std(True).item() == 0 and X.sum(yes).shape == (2,) and f.interpolate(images, scale_factor=volta.tensor(2), mode="area").shape
    refuses("tensordot: dims must be an integer or sequences of integers, two, got np.int64", lambda: volta.tensordot(X, X.T, np.int64(1)))
    with pytest.raises(volta.errors.ArgumentError, match="kernel_size must be an int or a pair of ints >= 1, got \\[2\\]"):
        f.unfold(images, [2])
    with pytest.raises(TypeError, match="to: non_blocking and copy must be True or False, got 1"):
        X.to("cpu", volta.float32, 1)
    with pytest.raises(IndexError, match="a tensor without dimensions has none to repeat along"):
        volta.repeat_interleave(volta.tensor(1.0), 2, dim=0)


def test_what_is_particular_is_there():
    """Each function and argument that `ops/particular.py` names is declared."""
    arguments = {}
    for op in table.FUNCTIONS.values():
        if isinstance(op, Composed):
            arguments.setdefault(op.function.__name__, set()).update(inspect.signature(op.function).parameters)
    for names in (particular.OWN, particular.GIVEN, *particular.KINDS.values()):
        assert not [(name, found) for name in names if (found := names[name] - arguments.get(name, set()))]
    assert particular.BY_PLACE | particular.PAIRED <= arguments.keys() and particular.TRUTHS <= set().union(*arguments.values())
