"""Arguments of kinds that PyTorch refuses are refused: None for what may only be left out, NumPy's bool for bool, arrays for tensors."""
import numpy as np
import pytest

import volta
from volta.errors import DTypeError

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
