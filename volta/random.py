"""Random numbers that are the same on every device.

Bits are Philox 4x32-10 of a 64-bit key (the seed) and a 64-bit counter. Element i of a draw that starts at `offset` is word
i % 4 of Philox(key = seed, counter = (low, high word of offset + i // 4, 0, 0)); a draw of n elements moves the offset on by
ceil(n / 4). From bits b (32 each), with u = (b >> 8) * 2**-24 in float32 (b * 2**-32 in float64):

* uniform: low + (high - low) * u
* normal: words 0 and 1 (2 and 3 likewise) give r = sqrt(-2 ln(1 - u0)), t = 2 pi u1; element 0 is r cos t, element 1 is r sin t
* randint: low + (b * (high - low)) >> 32
* dropout keeps an element where u >= p

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, table 2 (10 rounds).
"""
from __future__ import annotations

import threading

from volta.errors import ArgumentError


class Generator:
    """A seed and a position in its stream of random numbers."""

    def __init__(self, seed: int = 0) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream of `seed` (any integer; its low 64 bits count)."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise ArgumentError(f"manual_seed: seed must be an integer, got {seed!r}")
        self.seed = int(seed) & 0xFFFF_FFFF_FFFF_FFFF
        self.offset = 0
        self._lock = threading.Lock()
        return self

    def initial_seed(self) -> int:
        """The seed."""
        return self.seed

    def advance(self, count: int) -> tuple[int, int]:
        """Reserve `count` elements; gives (seed, offset) of the first."""
        with self._lock:
            offset = self.offset
            self.offset = (offset + (count + 3) // 4) & 0xFFFF_FFFF_FFFF_FFFF
        return self.seed, offset

    def get_state(self) -> tuple[int, int]:
        """(seed, offset), to be given to `set_state`."""
        return self.seed, self.offset

    def set_state(self, state: tuple[int, int]) -> None:
        """Continue from a state that `get_state` gave."""
        self.seed, self.offset = state


default_generator = Generator(0)


def manual_seed(seed: int) -> Generator:
    """Seed the default generator of all devices."""
    return default_generator.manual_seed(seed)
