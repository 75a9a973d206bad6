"""Sums and means of bags by the kernel that makes no rows: as what is recorded gives them."""
import itertools

import numpy as np
import pytest

import volta
from volta.errors import IndexRangeError
from volta.nn.functional import embedding_bag

rng = np.random.default_rng(3)


@pytest.mark.parametrize("mode, padding, listed, width",
                         tuple(itertools.product(("sum", "mean"), (None, 2, -1), (False, True), (1, 5, 64, 130))))
def test_is_what_is_recorded(device, mode, padding, listed, width):
    weight = volta.tensor(rng.standard_normal((9, width)).astype("float32"), device=device)
    at = volta.tensor(rng.integers(0, 9, 24 if listed else (4, 6)), device=device)
    offsets = volta.tensor([0, 3, 3, 10, 20], device=device) if listed else None
    for last, scaled in itertools.product((False, True) if listed else (False,), (False, True) if mode == "sum" else (False,)):
        scales = volta.tensor(rng.standard_normal(at.shape).astype("float32"), device=device) if scaled else None
        options = {"mode": mode, "padding_idx": padding, "per_sample_weights": scales, "include_last_offset": last}
        direct, recorded = (embedding_bag(at, w, offsets, **options) for w in (weight, weight.clone().requires_grad_()))
        assert recorded.requires_grad and direct.shape == recorded.shape and not direct.requires_grad
        np.testing.assert_allclose(direct.numpy(), recorded.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrong", ([0, 9], [-1, 2]))
def test_an_index_outside_is_named(wrong):
    with pytest.raises(IndexRangeError, match=f"embedding_bag: index {[i for i in wrong if not 0 <= i < 9][0]} is out of range"):
        embedding_bag(volta.tensor([wrong]), volta.ones(9, 3))


def test_long_bags_do_not_depend_on_threads():
    weight, at = volta.tensor(rng.standard_normal((500, 70)).astype("float32")), volta.tensor(rng.integers(0, 500, (40, 90)))
    found, threads = [], volta.get_num_threads()
    try:
        for n in (1, 2, 3):
            volta.set_num_threads(n)
            found.append(embedding_bag(at, weight, mode="sum").numpy().tobytes())
    finally:
        volta.set_num_threads(threads)
    assert len(set(found)) == 1


@pytest.mark.parametrize("dtype", (volta.float16, volta.bfloat16))
def test_maxima_of_16_bits_take_the_named_rows_alone(dtype):
    """As float32, rounded once, with their gradients; of a table that has more rows than are named, and fewer."""
    rng = np.random.default_rng(0)
    for rows in (300, 20):
        weight = volta.tensor(rng.standard_normal((rows, 5)).astype("float32")).to(dtype)
        named = volta.tensor(rng.integers(0, rows, 40))
        for given, offsets in ((named.reshape(5, 8), None), (named, volta.tensor([0, 3, 3, 17]))):
            found = []
            for w in (weight.clone(), weight.float()):
                w.requires_grad_()
                out = embedding_bag(given, w, offsets, mode="max")
                out.backward(volta.ones_like(out))
                found.append((out.detach(), w.grad))
            for ours, wide in zip(*found):
                assert ours.dtype is dtype
                np.testing.assert_array_equal(ours.float().numpy(), wide.to(dtype).float().numpy())
        with pytest.raises(IndexRangeError, match=f"^embedding_bag: index {rows} is out of range for a dimension of size {rows}"):
            embedding_bag(volta.tensor([[rows]]), weight, mode="max")
