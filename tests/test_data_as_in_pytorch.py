"""What of loading data is easily overlooked: functions by type, samplers of nothing, wrong arguments, as in PyTorch."""
from collections import deque

import numpy as np
import pytest

import volta
from volta.data import ChainDataset, DataLoader, RandomSampler, SubsetRandomSampler, default_collate, default_convert, random_split
from volta.errors import CallError


def test_functions_by_type():
    from volta.utils.data._utils.collate import collate, default_collate_fn_map
    assert volta.utils.data._utils.collate.default_collate is default_collate

    class Point:
        pass

    with pytest.raises(TypeError, match="batch must contain tensors"):
        default_collate([Point()])
    default_collate_fn_map[Point] = lambda batch, *, collate_fn_map=None: len(batch)
    try:
        assert default_collate([(Point(), 1), (Point(), 2)])[0] == 2
    finally:
        del default_collate_fn_map[Point]
    assert collate([{"a": 1}, {"a": 2}], collate_fn_map={int: lambda batch, *, collate_fn_map=None: sum(batch)}) == {"a": 3}
    with pytest.raises(TypeError, match="batch must contain tensors"):
        collate([1, 2])


def test_containers_of_arrays_and_mixed_samples():
    assert type(default_convert(deque([np.ones(1), 2]))) is deque
    assert default_collate([np.float64(1.5), 1]).tolist() == [1.5, 1.0]
    with pytest.raises(TypeError, match="default_collate: an array and <class 'list'> do not stack"):
        default_collate([np.ones(2), []])


def test_no_samples_to_draw():
    for replacement in (False, True):
        with pytest.raises(ValueError, match="RandomSampler: there are no samples of which 3 could be drawn"):
            list(RandomSampler([], replacement, num_samples=3))


@pytest.mark.parametrize("make", [lambda g: RandomSampler([1], generator=g), lambda g: SubsetRandomSampler([1], generator=g),
                                  lambda g: DataLoader([1], generator=g)])
def test_generators_are_generators(make):
    with pytest.raises(TypeError, match="generator must be a Generator or None, got int"):
        make(3)


def test_wrong_parts():
    with pytest.raises(CallError, match="random_split: lengths must be integers"):
        random_split([1, 2], [2, 0.0])
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(ChainDataset([[1]]))


def test_a_timeout_is_for_workers():
    loader = DataLoader([1, 2], timeout=5)
    with pytest.raises(AssertionError, match="DataLoader: timeout=5 is for workers"):
        iter(loader)


def test_a_random_sampler_keeps_the_number_that_it_was_given():
    """Packages that put another sampler in its place read it."""
    for given in (None, 3):
        assert volta.data.RandomSampler(range(5), num_samples=given)._num_samples is given
