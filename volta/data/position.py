"""A pass over a DataLoader, and where it stands, so that another process can go on from there. Knows random generators, not what
batches hold."""
from __future__ import annotations

from collections.abc import Generator as PythonGenerator
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from volta.errors import StateDictError
from volta.random import Generator, get_rng_state
from volta.random_states import random_states, set_random_states


class Batches(Iterator[Any]):
    """The batches of an epoch, as an iterator whose `len` is the loader's."""

    def __init__(self, loader: Sized, batches: PythonGenerator[Any, None, None]) -> None:
        self._loader, self._batches, self._num_yielded = loader, batches, 0

    def __next__(self) -> Any:
        batch = next(self._batches)
        self._num_yielded += 1                  # which packages read
        return batch

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """End the epoch here."""
        self._batches.close()


@dataclass
class Position:
    """The number of an epoch, how many of its batches have been given out, and the random generators as they were when it began: the
    default one, Python's and NumPy's where they may be drawn from, and those that samplers were given."""
    epoch: int
    given: int
    random: Any
    generators: list[Any]

    @contextmanager
    def replayed(self, own: list[Generator]):
        """The generators as they were. Afterwards the samplers' own stay where they then are, the others go on from where they were."""
        now = random_states()
        try:
            for generator, state in zip(own, self.generators):
                generator.set_state(state)
            set_random_states({**now, **self.random})
            yield
        finally:
            set_random_states(now)


def begin(epoch: int, own: list[Generator], others: bool) -> Position:
    """The position at the beginning of an epoch. `others` says that code of a user's may draw from Python's and NumPy's generators, whose
    states take longer to get than a small batch."""
    states = random_states() if others else {"volta": get_rng_state()}
    return Position(epoch, 0, states, [generator.get_state() for generator in own])


def generators(*owners: Any) -> list[Generator]:
    """The generators that samplers and loaders were given, each once."""
    found = (getattr(owner, "generator", None) for owner in owners)
    return list({id(generator): generator for generator in found if isinstance(generator, Generator)}.values())


def state_of(position: Position | None, epoch: int, own: list[Generator], length: int | None) -> dict[str, Any]:
    """What a file keeps: of the running pass, or of the epoch that comes next."""
    at = position or Position(epoch, 0, None, [generator.get_state() for generator in own])
    states = None if at.random is None else {**random_states(), **at.random}
    return {"epoch": at.epoch, "given": at.given, "batches": length, "random": states, "generators": list(at.generators)}


def from_state(state: Any, own: list[Generator], length: int | None) -> Position:
    """The position of a state. Raises: StateDictError for a state of another form, or of a loader of other length or generators."""
    try:
        position = Position(state["epoch"], state["given"], state["random"], [g.to("cpu") for g in state["generators"]])
        whole = isinstance(state, Mapping) and all(type(n) is int and n >= 0 for n in (position.epoch, position.given))
        if position.random is not None:
            with position.replayed([Generator() for _ in position.generators]):     # which raises for no states
                pass
    except (TypeError, KeyError, AttributeError, ValueError):
        whole = False
    if not whole:
        raise StateDictError("DataLoader.load_state_dict: needs what state_dict() gave: epoch, given, batches, random, generators")
    if state["batches"] != length or len(position.generators) != len(own):
        raise StateDictError(f"DataLoader.load_state_dict: the state is of a loader with {state['batches']} batches in an epoch and "
                             f"{len(position.generators)} generators, this one has {length} and {len(own)}")
    return position
