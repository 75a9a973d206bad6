"""Edges of arguments, values and layouts: differences from PyTorch that comparisons found."""
import copy
import math
import pickle

import numpy as np
import pytest

import volta
from volta import nn
from volta.compat import refused
from volta.copying import rebuild
from volta.errors import ArgumentError, DTypeError, VoltaError

NAN, INF = math.nan, math.inf


def test_short_names_of_reductions(device):
    x, index, source = volta.zeros(3, device=device), volta.tensor([0, 1, 1], device=device), volta.tensor([1.0, 2.0, -3.0], device=device)
    for short, own in (("max", "amax"), ("min", "amin")):
        expected = x.scatter_reduce(0, index, source, own).tolist()
        assert x.scatter_reduce(0, index, source, short).tolist() == x.clone().scatter_reduce_(0, index, source, short).tolist() == expected
        lengths = volta.tensor([1, 2], device=device)
        assert volta.segment_reduce(source, own, lengths=lengths).tolist() == volta.segment_reduce(source, short, lengths=lengths).tolist()
        with pytest.raises(ArgumentError, match="index_reduce: reduce must be one of prod, mean, amax, amin, got"):
            x.index_reduce(0, index, source, short)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_places_in_lines_that_end_with_nan(dtype):
    """Where PyTorch's halving leads: it goes on behind NaN that it meets."""
    values = volta.tensor([0.0, 1.0, 1.5, INF, NAN, -INF], dtype=getattr(volta, dtype))
    for line, right, expected in (([1, NAN, NAN], False, [3] * 6), ([1, 2, NAN], False, [0, 0, 1, 3, 3, 0]),
                                  ([1, 2, 3, NAN], True, [0, 1, 1, 4, 4, 0]), ([0, 1, 2, 3, NAN, NAN, NAN], False, [0, 1, 2, 7, 7, 0])):
        line = volta.tensor(line, dtype=values.dtype)
        assert volta.searchsorted(line, values, right=right).tolist() == expected
        many = volta.searchsorted(line, values.repeat(20), right=right)
        assert many.tolist() == expected * 20 and volta.bucketize(values, line, right=right).tolist() == expected


VIEWS = {"columns": lambda x: x[:, 1:, ::2], "turned": lambda x: x.permute(2, 0, 1), "row": lambda x: x[1], "one": lambda x: x[1, 1, 1],
         "expanded": lambda x: x[0, 0].expand(3, 4), "overlapping": lambda x: x.as_strided((3, 3), (1, 1), 2), "none": lambda x: x[:, :0]}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_pickles_keep_strides(view, dtype, device):
    device = "cpu" if dtype == "bfloat16" else device               # which is on the CPU alone
    x = VIEWS[view](volta.arange(24, device=device).reshape(2, 3, 4).to(getattr(volta, dtype)))
    found = pickle.loads(pickle.dumps(x))
    assert found.tolist() == x.tolist() and found.stride() == x.stride() and found.dtype is x.dtype and found.device == x.device
    if x.dtype.is_floating_point:
        kept = pickle.loads(pickle.dumps(nn.Parameter(x)))
        assert kept.stride() == x.stride() and kept.tolist() == x.tolist() and kept.requires_grad and isinstance(kept, nn.Parameter)


@pytest.mark.parametrize("place", [((3,), (1,), 0), ((2,), (1,), 1), ((2,), (2,), 0), ((2,), (-1,), 1), ((1 << 40,) * 2, (1 << 40, 1), 0)])
def test_a_pickle_that_says_more_than_it_holds_is_refused(place):
    with pytest.raises(VoltaError, match="as_strided|at most 32 dimensions"):
        rebuild(np.zeros(2, np.float32), volta.float32, "cpu", False, place)


def test_a_pickle_of_an_element_type_that_is_none_is_refused():
    kept = pickle.dumps(volta.float32, 2)
    assert kept.count(b"K\x05") == 1 and pickle.loads(kept) is volta.float32
    for code in (b"K\x0a", b"K\xff", b"J\xff\xff\xff\xff"):
        with pytest.raises(DTypeError, match="dtype: there is no element type of code -?[0-9]+; codes are 0 to 9"):
            pickle.loads(kept.replace(b"K\x05", code))


def test_what_no_constructor_has_filled_is_empty():
    """As in PyTorch."""
    x = volta.Tensor.__new__(volta.Tensor)
    assert (x.device, x.dtype, x.shape, x.stride(), x.tolist()) == (volta.device("cpu"), volta.float32, (0,), (1,), [])
    assert (x + volta.ones(1)).shape == (0,) and x.resize_(3).fill_(2).tolist() == [2] * 3
    assert volta.Tensor.__new__(volta.Tensor).shape == (0,)
    storage = type(x.storage)()
    assert storage.device is x.device and bytes(memoryview(storage)) == b""


def test_a_pickle_of_a_row_is_small():
    assert len(pickle.dumps(volta.zeros(1000, 1000)[3])) < 5000
    assert len(pickle.dumps(volta.zeros(1).expand(1000, 1000))) < 1000
    for empty in (volta.zeros(0, 2), volta.zeros(3)[3:], volta.zeros(3, 0).t(), volta.zeros(5, 0).expand(2, 5, 0)):
        found = pickle.loads(pickle.dumps(empty))
        assert found.shape == empty.shape and found.stride() == empty.stride() and found.tolist() == empty.tolist()


def test_copies_of_parameters_lie_as_they_do():
    weight = nn.Parameter(volta.arange(6.0).reshape(2, 3).t())
    assert copy.deepcopy(weight).stride() == pickle.loads(pickle.dumps(weight)).stride() == (1, 3)


def test_refused_names_raise_what_programs_catch():
    for kind in (RuntimeError, NotImplementedError):
        with pytest.raises(kind, match="cannot be used in Volta"):
            refused.Refused("DTensor", (), {"name": "torch.distributed.tensor.DTensor", "reason": "none"})()


def test_a_storage_has_its_size_whatever_shows_it():
    x = volta.zeros(2, 3, 4)
    for view in (x[:, 1:, ::2], x[0, 0], x.permute(2, 0, 1)):
        for same in (view, copy.copy(view), copy.deepcopy(view), view.detach()):
            assert same.untyped_storage().nbytes() == 96
    assert volta.zeros(5)[:0].untyped_storage().nbytes() == 20 and volta.zeros(0).untyped_storage().nbytes() == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool", "int16"])
@pytest.mark.parametrize("place", ["device", "meta"])
def test_the_size_of_a_storage_is_that_of_its_memory(place, dtype, device):
    """In the elements of PyTorch, whatever a GPU keeps them in."""
    x = volta.zeros(5, dtype=getattr(volta, dtype), device=device if place == "device" else place)
    for view in (x, x[1:3], x[3:].detach(), x[:0], copy.deepcopy(x)[2:]):
        assert view.untyped_storage().nbytes() == 5 * x.dtype.itemsize
