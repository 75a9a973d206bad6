"""Random numbers that are the same on every device.

Bits are Philox 4x32-10 of a 64-bit key (the seed) and a 64-bit counter. Element i of a draw that starts at `offset` is word
i % 4 of Philox(key = seed, counter = (low, high word of offset + i // 4, 0, 0)); a draw of n elements moves the offset on by
ceil(n / 4). From bits b (32 each), with u = (b >> 8) * 2**-24 in float32 (b * 2**-32 in float64):

* uniform: low + (high - low) * u
* normal: words 0 and 1 (2 and 3 likewise) give r = sqrt(-2 ln(1 - u0)), t = 2 pi u1; element 0 is r cos t, element 1 is r sin t
* randint: low + (b * (high - low)) >> 32
* dropout keeps an element where u >= p

What is made of the bits by exact steps is the same to the bit on every device and instruction set: rand, uniform_, randint, randperm,
dropout and the uniform initialisers. Normal numbers (randn, normal_, trunc_normal_ and the initialisers by them) pass through a
logarithm, a root, a sine and a cosine, or erf, which devices round differently (WGSL leaves open even the root's last bit): they
agree to 2e-6, about one in fifty differing in the last bits. On one device every rerun gives the same bits.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, table 2 (10 rounds).
"""
from __future__ import annotations

import os
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels.core import streams
from volta.errors import ArgumentError, CallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from volta._kernels.core import Device
    from volta.tensor import Tensor
    from volta.types import DeviceLike

__all__ = ["Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]

_STATE = struct.Struct("<QQ")           # the seed and the position


_tensor: Callable | None = None
_device: Callable | None = None


def configure(tensor: Callable, device: Callable) -> None:
    """Set what makes a tensor of an array, and a device of its name."""
    global _tensor, _device
    _tensor, _device = tensor, device
    streams.configure(default_generator, mapped, device)


class _Mapped(threading.local):
    """How numbers are drawn inside `vmap` in this thread: for how many samples at once, and what makes a sample of those for all."""
    sizes: tuple[int, ...] = ()
    sample: Callable | None = None


mapped = _Mapped()


class Generator(streams.Source):
    """A seed and a position in its stream of random numbers, which is the same on every device; an integer in place of the device is the
    seed."""

    def __init__(self, device: DeviceLike = "cpu") -> None:
        seeded = isinstance(device, int) and not isinstance(device, bool)
        self._place = "cpu" if seeded else _device(device)
        self.shared = streams.Stream()
        self.manual_seed(device if seeded else 67280421310721)         # PyTorch's, too

    _seed = property(lambda self: self._stream.seed, lambda self, value: setattr(self._stream, "seed", value))
    offset = property(lambda self: self._stream.offset, lambda self, value: setattr(self._stream, "offset", value))

    @property
    def device(self) -> Device:
        """The device that it was made for."""
        return _device(self._place)

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream of `seed`, an integer from -2**63 to 2**64 - 1, of which negative ones count from 2**64 down.

        Raises: ArgumentError for anything else.
        """
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise ArgumentError(f"manual_seed: seed must be an integer, got {seed!r}")
        if not -(1 << 63) <= int(seed) < 1 << 64:
            raise ArgumentError(f"manual_seed: seed must be from -2**63 to 2**64 - 1, got {seed}")
        self._seed = int(seed) & 0xFFFF_FFFF_FFFF_FFFF
        self.offset = 0
        return self

    def initial_seed(self) -> int:
        """The seed."""
        return self._seed

    def seed(self) -> int:
        """Restart from a seed of the operating system, and give it."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def get_state(self) -> Tensor:
        """Seed and position as 16 bytes, a uint8 tensor on the CPU, to be given to `set_state`."""
        return _tensor(np.frombuffer(_STATE.pack(self._seed, self.offset), np.uint8), device="cpu")

    def set_state(self, new_state: Tensor) -> Generator:
        """Continue from a state that `get_state` gave.

        Raises: ArgumentError for anything else.
        """
        state = np.asarray(new_state)
        if state.dtype != np.uint8 or state.shape != (_STATE.size,):
            raise CallError(f"set_state: needs the uint8 tensor of {_STATE.size} bytes that get_state gives, got {state.dtype} "
                                f"of shape {state.shape}")
        self._seed, self.offset = _STATE.unpack(state.tobytes())
        return self

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        return Generator(self.device).set_state(self.get_state())


class _DefaultGenerator(Generator):
    """The generator of draws that name none. A thread that has called `own` draws from a stream of its own, as workers of a DataLoader do:
    their order among one another does not change what each draws."""

    def own(self, seed: int) -> None:
        """Give the calling thread a stream of its own that starts from `seed`."""
        if self.threads is None:
            self.threads = threading.local()
        self.threads.stream = streams.Stream()
        self.manual_seed(seed)


default_generator = _DefaultGenerator(0)


def bits(seed: int, offset: int, count: int) -> np.ndarray:
    """The definition above in NumPy: the first `count` words (uint32) of the draw at `offset`. Kernels are tested against it."""
    blocks = np.uint64(offset) + np.arange((count + 3) // 4, dtype=np.uint64)
    low, high = (np.uint64(v) for v in (0xFFFF_FFFF, 32))
    c = [blocks & low, blocks >> high, np.zeros_like(blocks), np.zeros_like(blocks)]
    key = [seed & 0xFFFF_FFFF, seed >> 32 & 0xFFFF_FFFF]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD251_1F53), c[2] * np.uint64(0xCD9E_8D57)
        c = [(b >> high) ^ c[1] ^ np.uint64(key[0]), b & low, (a >> high) ^ c[3] ^ np.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E37_79B9) & 0xFFFF_FFFF, (key[1] + 0xBB67_AE85) & 0xFFFF_FFFF]
    return np.stack(c, 1).reshape(-1)[:count].astype(np.uint32)


def block(seed: int, offset: int) -> tuple[int, int, int, int]:
    """The words at `offset` by Python's integers, in a tenth of the time of `bits`."""
    a, b, c, d = offset & 0xFFFF_FFFF, offset >> 32, 0, 0
    left, right = seed & 0xFFFF_FFFF, seed >> 32 & 0xFFFF_FFFF
    for _ in range(10):
        x, y = a * 0xD251_1F53, c * 0xCD9E_8D57
        a, b, c, d = (y >> 32) ^ b ^ left, y & 0xFFFF_FFFF, (x >> 32) ^ d ^ right, x & 0xFFFF_FFFF
        left, right = (left + 0x9E37_79B9) & 0xFFFF_FFFF, (right + 0xBB67_AE85) & 0xFFFF_FFFF
    return a, b, c, d


def unit(seed: int, offset: int, count: int, dtype: np.dtype) -> np.ndarray:
    """u of the definition above, as float64 values."""
    words = bits(seed, offset, count)
    return words * 2.0 ** -32 if np.dtype(dtype) == np.float64 else (words >> 8) * 2.0 ** -24


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator of all devices: by an integer, or what `int()` makes one of."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system, and give the seed."""
    return default_generator.seed()


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, *, device_type: str = "cuda") -> Iterator[None]:
    """Inside the `with`, draws of the default generator do not count: after it, it continues as if there had been none. One generator
    serves all devices."""
    state = default_generator.get_state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_state(state)


def get_rng_state() -> Tensor:
    """The state of the default generator, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default generator from a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)
