"""Random numbers: known answers of Philox, one stream for all devices, reruns to the bit, statistics, dropout."""
import math

import numpy as np
import pytest

import volta
from volta import random
from volta.errors import ArgumentError


def test_known_answer_of_the_reference():
    """kat_vectors of Salmon et al.'s implementation: philox4x32, 10 rounds, counter and key zero."""
    assert random.bits(0, 0, 4).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_bits_go_by_counter_and_key():
    stream = random.bits(7, 0, 400)
    assert len(set(stream.tolist())) > 395
    np.testing.assert_array_equal(random.bits(7, 10, 40), stream[40:80])
    assert (random.bits(8, 0, 400) != stream).mean() > 0.99
    np.testing.assert_array_equal(random.bits(7, 0, 7), stream[:7])


def test_counter_carries_beyond_32_bits(device):
    start = (1 << 32) - 3
    whole = random.bits(3, start, 24)
    np.testing.assert_array_equal(random.bits(3, start + 3, 12), whole[12:])
    generator = volta.Generator(3)
    generator.offset = start
    found = volta.rand(24, device=device, generator=generator).numpy()
    np.testing.assert_array_equal(found, (whole >> 8) * np.float32(2.0 ** -24))


# ---------------------------------------------------------------- the same everywhere
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 2), (1000, 3)], ids=str)
def test_uniform_is_exact(shape, device):
    volta.manual_seed(1234)
    count = math.prod(shape)
    np.testing.assert_array_equal(volta.rand(shape, device=device).numpy(),
                                  ((random.bits(1234, 0, count) >> 8) * 2.0 ** -24).astype(np.float32).reshape(shape))


def test_normal_to_a_few_units_in_the_last_place(device):
    volta.manual_seed(99)
    words = random.bits(99, 0, 4000) >> 8
    u = (words * 2.0 ** -24).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, 0])), 2 * np.pi * u[:, 1]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)
    found = volta.randn(4000, device=device).numpy().astype(np.float64)
    # near the zeros of sine and cosine the error of the angle counts, hence the absolute part: 4 units of radius 1
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=5e-7 * 4)


def test_randint_is_exact(device):
    for low, high in ((0, 10), (-5, 7), (0, 2**31 - 1), (-2**31, 2**31)):
        volta.manual_seed(5)
        found = volta.randint(low, high, (501,), device=device).numpy()
        words = random.bits(5, 0, 501).astype(object)
        np.testing.assert_array_equal(found, [low + (int(w) * (high - low) >> 32) for w in words])


def test_devices_agree(gpu):
    """Everything random with one seed: the same numbers on both devices (normal ones but for the last bits, as volta/random.py says),
    and the streams stay in step."""
    def draw(device):
        volta.manual_seed(42)
        x = volta.rand(13, device=device)
        y = volta.randn(5, 3, device=device)
        z = volta.randint(0, 100, (9,), device=device)
        keep = volta.dropout(volta.ones(50, device=device), 0.3)
        order = volta.randperm(20, device=device)
        like = volta.rand_like(volta.zeros(4, device=device))
        weight = volta.nn.Linear(4, 3, device=device).weight
        bound = volta.empty(1001, device=device).uniform_(-0.3, 1.7)
        cut = volta.nn.init.trunc_normal_(volta.empty(1001, device=device))
        exact, close = (x, z, keep, order, like, weight, bound), (y, cut, volta.randn(1001, device=device))
        return [[t.detach().cpu().numpy() for t in group] for group in (exact, close)]

    (exact, close), (exact_gpu, close_gpu) = draw("cpu"), draw(gpu)
    for a, b in zip(exact, exact_gpu):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(close, close_gpu):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


def test_rerun_is_identical_to_the_bit(device):
    def draw():
        volta.manual_seed(7)
        x = volta.randn(1000, device=device)
        return (x.softmax(0) + volta.dropout(x, 0.4) + volta.rand(1000, device=device)).sum(0, keepdim=True).numpy().tobytes()

    assert draw() == draw()


def test_streams_continue(device):
    """Two draws are one longer draw where their lengths are multiples of four."""
    volta.manual_seed(3)
    parts = np.concatenate([volta.rand(8, device=device).numpy(), volta.rand(4, device=device).numpy()])
    volta.manual_seed(3)
    np.testing.assert_array_equal(volta.rand(12, device=device).numpy(), parts)
    assert not np.array_equal(volta.rand(12, device=device).numpy(), parts)


# ---------------------------------------------------------------- generators
def test_generator():
    g = volta.Generator(5)
    assert g.initial_seed() == 5 and g.get_state().tolist() == [5] + 15 * [0]
    a = volta.rand(6, generator=g)
    state = g.get_state()
    assert state.tolist() == [5, *7 * [0], 2, *7 * [0]]
    b = volta.rand(6, generator=g)
    g.set_state(state)
    assert volta.rand(6, generator=g).tolist() == b.tolist() != a.tolist()
    g.set_state(state)
    assert volta.rand(6, generator=g.clone_state()).tolist() == b.tolist() and g.seed() == g.initial_seed() != 5
    volta.set_rng_state(volta.get_rng_state())
    with pytest.raises(ArgumentError, match="set_state: needs the uint8 tensor of 16 bytes"):
        g.set_state(volta.zeros(16))
    assert volta.Generator("cpu").device == volta.device("cpu") and volta.Generator(-1).initial_seed() == 2**64 - 1
    with pytest.raises(ArgumentError, match="rand: generator must be a volta.Generator, got int"):
        volta.rand(2, generator=3)


def test_a_generator_leaves_the_default_one_alone():
    volta.manual_seed(1)
    a = volta.rand(4)
    volta.manual_seed(1)
    volta.rand(100, generator=volta.Generator(9))
    assert volta.rand(4).tolist() == a.tolist()


def test_threads_draw_disjoint_numbers():
    import threading
    g, seen = volta.Generator(1), []
    threads = [threading.Thread(target=lambda: seen.extend(g.advance(8) for _ in range(500))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({offset for _, offset in seen}) == 2000


# ---------------------------------------------------------------- statistics
def test_uniform_statistics(device):
    x = volta.rand(200_000, device=device).numpy().astype(np.float64)
    assert 0 <= x.min() and x.max() < 1
    assert abs(x.mean() - 0.5) < 4 / math.sqrt(12 * x.size) and abs(x.var() - 1 / 12) < 1e-3
    counts = np.histogram(x, 50, (0, 1))[0]
    assert ((counts - 4000) ** 2 / 4000).sum() < 100         # chi-squared with 49 degrees: 1 in 25,000
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01


def test_normal_statistics(device):
    x = volta.randn(200_000, device=device).numpy().astype(np.float64)
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 4 / math.sqrt(x.size) and abs(x.var() - 1) < 0.015
    assert abs((x ** 3).mean()) < 0.03 and abs((x ** 4).mean() - 3) < 0.1
    inside = [(np.abs(x) < k).mean() for k in (1, 2, 3)]
    np.testing.assert_allclose(inside, [0.6827, 0.9545, 0.9973], atol=0.004)


def test_randint_statistics(device):
    counts = np.bincount(volta.randint(0, 10, (100_000,), device=device).numpy(), minlength=10)
    assert counts.size == 10 and ((counts - 10_000) ** 2 / 10_000).sum() < 35       # 9 degrees: 1 in 17,000


def test_randperm(device):
    order = volta.randperm(100, device=device)
    assert order.dtype is volta.int64 and sorted(order.tolist()) == list(range(100)) != order.tolist()
    assert volta.randperm(0, device=device).shape == (0,)
    firsts = [volta.randperm(5, device=device)[0].item() for _ in range(200)]
    assert set(firsts) == set(range(5))


# ---------------------------------------------------------------- dropout
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout(p, device):
    x = volta.full((100, 300), 2.0, device=device, requires_grad=True)
    y = volta.dropout(x, p)
    values = y.detach().numpy()
    kept = values != 0
    np.testing.assert_allclose(values[kept], 2 / (1 - p), rtol=1e-6)
    assert abs(kept.mean() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / values.size)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.where(kept, 1 / (1 - p), 0), rtol=1e-6)
    assert not np.array_equal(volta.dropout(x, p).detach().numpy() != 0, kept)


def test_dropout_at_the_ends(device):
    x = volta.tensor([1.0, 2.0], device=device)
    assert volta.dropout(x, 0.0) is x and volta.dropout(x, 0.5, train=False) is x
    assert volta.dropout(x, 1.0).tolist() == [0.0, 0.0]


def test_dropout_of_a_view(device):
    """The mask goes by the position in memory, which the result keeps, as in PyTorch."""
    array = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)
    volta.manual_seed(11)
    straight = volta.dropout(volta.tensor(array, device=device), 0.5).numpy()
    volta.manual_seed(11)
    turned = volta.dropout(volta.tensor(array, device=device).t(), 0.5)
    assert turned.stride() == (1, 4)
    np.testing.assert_array_equal(straight.T, turned.numpy())


def test_in_place_fills(device):
    x = volta.zeros(5, 4, device=device)
    volta.manual_seed(2)
    x.uniform_(-1.0, 1.0)
    volta.manual_seed(2)
    np.testing.assert_allclose(x.numpy(), volta.rand(5, 4, device=device).numpy() * 2 - 1, rtol=1e-6, atol=1e-7)
    version = x.storage.version
    assert x.t().normal_(3.0, 0.1) is not x and x.storage.version == version + 1
    assert 2.5 < x.mean().item() < 3.5


@pytest.mark.parametrize("seed, offset", [(0, 0), (7, 3), (2 ** 64 - 1, 2 ** 64 - 1), (0x1234_5678_9ABC_DEF0, 2 ** 32 - 1)])
def test_the_words_of_one_place(seed, offset):
    assert list(volta.random.block(seed, offset)) == volta.random.bits(seed, offset, 4).tolist()
