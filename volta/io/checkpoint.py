"""Checkpoints of a whole training run in one file: what resumes it to the bit. Knows objects by their state_dict() alone."""
from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from volta.errors import ArgumentError, StateDictError
from volta.io.serialization import load, save
from volta.random_states import random_states, set_random_states

if TYPE_CHECKING:
    from volta.io.location import MapLocation

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]

_VERSION = "volta_checkpoint"


class Checkpoint(NamedTuple):
    """What a checkpoint holds beside the states of objects: what `step` and `extra` were given as."""
    step: int | None
    extra: Any


def save_checkpoint(path: str | os.PathLike[str] | IO[bytes], *, model: Any = None, optimizer: Any = None, scheduler: Any = None,
                    scaler: Any = None, loader: Any = None, step: int | None = None, extra: Any = None) -> None:
    """Write the states of all that is given, and of the random generators (Volta's, Python's and NumPy's), as `volta.save` does.

    Each part is an object with `state_dict()`, or a dict of such objects. `extra` is anything that a file can hold.

    Raises: ArgumentError for a part without a state_dict; what `volta.save` raises.
    """
    parts = _objects("save_checkpoint", model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, loader=loader)
    states = {name: part.state_dict() for name, part in parts.items()}
    save({_VERSION: 1, "step": step, "extra": extra, "rng": random_states(), "states": states}, path)


def load_checkpoint(path: str | os.PathLike[str] | IO[bytes], *, model: Any = None, optimizer: Any = None, scheduler: Any = None,
                    scaler: Any = None, loader: Any = None, map_location: MapLocation = None, rng: bool = True) -> Checkpoint:
    """Put the states of a checkpoint into the objects that are given, and into the random generators unless `rng` is False; the same
    training goes on, to the bit. Objects keep their devices. Parts of the file that no object is given for are left out.

    Raises: StateDictError for a file that is no checkpoint, lacks a part, or does not fit an object; all objects are then as they were.
    """
    parts = _objects("load_checkpoint", model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, loader=loader)
    found = load(path, map_location)
    if not isinstance(found, Mapping) or found.get(_VERSION) != 1 or not isinstance(found.get("states"), Mapping):
        raise StateDictError("load_checkpoint: the file is no checkpoint of save_checkpoint; read it by volta.load")
    states = found["states"]
    if missing := [name for name in parts if name not in states]:
        raise StateDictError(f"load_checkpoint: the file has no {', '.join(missing)}; it has {', '.join(states) or 'none'}")
    before = {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()}
    generators = random_states()
    try:
        for name, part in parts.items():
            part.load_state_dict(states[name])
        if rng:
            set_random_states(found.get("rng"))
    except BaseException:
        for name, part in parts.items():
            part.load_state_dict(before[name])
        set_random_states(generators)
        raise
    return Checkpoint(found.get("step"), found.get("extra"))


def _objects(op, **parts):
    """The objects by their names; those of a dict as "model.name"."""
    found = {}
    for name, part in parts.items():
        if isinstance(part, dict):
            found.update((f"{name}.{key}", value) for key, value in part.items())
        elif part is not None:
            found[name] = part
    for name, part in found.items():
        if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
            raise ArgumentError(f"{op}: {name} is {type(part).__name__}, which has no state_dict() and load_state_dict()")
    return found
