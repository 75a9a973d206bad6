"""Host memory: which freed blocks serve which requests."""
import pytest

import volta
from volta._kernels import core


@pytest.fixture(autouse=True)
def nothing_cached():
    core.empty_host_cache()


def freed(size: int) -> int:
    """Where a tensor of so many float32 lay, whose block is free now."""
    return volta.empty(size)._address


def test_a_smaller_request_takes_a_larger_free_block():
    place, before = freed(1_000_000), core.host_memory_stats()["cached"]
    smaller = volta.empty(600_000)
    assert smaller._address == place
    assert core.host_memory_stats()["cached"] == 0 and before >= 4_000_000
    del smaller
    assert core.host_memory_stats()["cached"] == before                 # the block is as large as it was
    assert volta.empty(1_000_000)._address == place


@pytest.mark.parametrize("size, other", [(1_000_000, 100_000), (10_000, 6_000)])
def test_a_much_smaller_or_small_request_does_not(size, other):
    place = freed(size)
    assert volta.empty(other)._address != place


def test_what_is_live_is_what_was_asked_for():
    freed(1_000_000)
    before = core.host_memory_stats()["live"]
    smaller = volta.empty(600_000)
    assert 2_400_000 <= core.host_memory_stats()["live"] - before < 4_000_000
    del smaller
    assert core.host_memory_stats()["live"] == before


def test_work_space_of_many_sizes_lies_in_one_block():
    before = core.host_memory_stats()["live"]
    for size in range(1_000_000, 500_000, -10_000):
        freed(size)
    stats = core.host_memory_stats()
    assert stats["live"] + stats["cached"] - before <= 4_200_000


def test_sizes_whose_bytes_no_class_holds_are_refused():
    """Looking for the class of 2**62 bytes or more never ended."""
    for count in (1 << 59, (1 << 59) + (1 << 58), (1 << 60) - 1, 1 << 60):
        with pytest.raises(volta.errors.OutOfMemoryError, match="cpu: cannot allocate"):
            volta.empty(count, dtype=volta.int64)
    with pytest.raises(volta.errors.OutOfMemoryError):
        volta.ones(1).expand(1 << 60).clone()
