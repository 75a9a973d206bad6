"""Sobol's sequences: the points are PyTorch's, and scrambled ones lie as evenly."""
import copy

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, DTypeError
from volta.quasirandom import SobolEngine, _scrambled
from volta.quasirandom.directions import BITS, DIMENSIONS, directions


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")


def theirs(torch, dimension):
    state = torch.zeros(dimension, BITS, dtype=torch.long)
    torch._sobol_engine_initialize_state_(state, dimension)
    return state


def test_every_direction_number_is_pytorchs(torch):
    assert DIMENSIONS == torch.quasirandom.SobolEngine.MAXDIM == SobolEngine.MAXDIM
    np.testing.assert_array_equal(directions(DIMENSIONS), theirs(torch, DIMENSIONS).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 50, 1000])
def test_points_are_pytorchs_to_the_bit(torch, dimension, dtype):
    ours, reference = SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
    for count in (1, 1, 5, 1, 64, 129):
        given = ours.draw(count, dtype=getattr(volta, dtype))
        assert str(given.dtype) == f"volta.{dtype}"
        np.testing.assert_array_equal(given.numpy(), reference.draw(count, dtype=getattr(torch, dtype)).numpy())
        assert ours.num_generated == reference.num_generated
    for each in (ours, reference):
        each.fast_forward(100_003)
    np.testing.assert_array_equal(ours.draw(3).numpy(), reference.draw(3).numpy())
    assert ours.reset() is ours and ours.num_generated == 0
    np.testing.assert_array_equal(ours.draw(7).numpy(), reference.reset().draw(7).numpy())


def test_going_forward_from_the_start(torch):
    for start in (0, 1, 2, 1000):
        ours, reference = (kind(3).fast_forward(start) for kind in (SobolEngine, torch.quasirandom.SobolEngine))
        np.testing.assert_array_equal(ours.draw(9).numpy(), reference.draw(9).numpy())


def test_powers_of_two(torch):
    ours, reference = SobolEngine(5), torch.quasirandom.SobolEngine(5)
    for m in (2, 2, 3):
        np.testing.assert_array_equal(ours.draw_base2(m).numpy(), reference.draw_base2(m).numpy())
    with pytest.raises(ArgumentError, match=r"power of 2, got 16 \+ 2\*\*1 = 18"):
        ours.draw_base2(1)


def test_the_scrambling_is_pytorchs_for_its_random_numbers(torch):
    below = torch.randint(2, (6, BITS, BITS)).tril()
    state = theirs(torch, 6)
    torch._sobol_engine_scramble_(state, below, 6)
    weights = 1 << np.arange(BITS - 1, -1, -1)              # a word's bit for each column
    np.testing.assert_array_equal(_scrambled(directions(6), (below.numpy() * weights).sum(-1).astype(np.uint32)), state.numpy())


def test_scrambled_points_fall_once_into_each_part():
    engine = SobolEngine(100, scramble=True, seed=3)
    points = engine.draw_base2(8).numpy()
    assert ((points >= 0) & (points < 1)).all()
    np.testing.assert_array_equal(np.sort(np.floor(points * 256), 0), np.repeat(np.arange(256.)[:, None], 100, 1))
    squares = np.floor(points[:, :2] * 16) @ [16, 1]        # the first two dimensions are a net in base 2
    np.testing.assert_array_equal(np.sort(squares), np.arange(256))
    np.testing.assert_array_equal(engine.reset().draw(256).numpy(), points)


def test_seeds():
    def first(**options):
        return SobolEngine(4, scramble=True, **options).draw(8).tolist()
    assert first(seed=1) == first(seed=1) != first(seed=2)
    volta.manual_seed(7)
    one, two = first(), first()
    volta.manual_seed(7)
    assert first() == one != two


def test_out_copies_and_the_default_dtype():
    engine = SobolEngine(2)
    engine.draw(3)
    other = copy.deepcopy(engine)
    out = volta.empty(0)
    assert engine.draw(4, out=out) is out and out.tolist() == other.draw(4).tolist()
    assert engine.draw(0).shape == (0, 2)
    volta.set_default_dtype(volta.float64)
    try:
        assert engine.draw().dtype is volta.float64
    finally:
        volta.set_default_dtype(volta.float32)
    assert repr(SobolEngine(3, scramble=True, seed=5)) == "SobolEngine(dimension=3, scramble=True, seed=5)"


def test_what_is_refused():
    for dimension in (0, DIMENSIONS + 1):
        with pytest.raises(ArgumentError, match=f"dimension must be 1 to 21201, got {dimension}"):
            SobolEngine(dimension)
    engine = SobolEngine(2)
    with pytest.raises(ArgumentError, match="n must be 0 to 1073741824, the points that are left, got -1"):
        engine.draw(-1)
    with pytest.raises(ArgumentError, match="the points that are left, got 2"):
        engine.fast_forward(2 ** 30 - 1).draw(2)
    with pytest.raises(DTypeError, match="float32 or float64, got volta.int64"):
        engine.draw(dtype=volta.int64)
