"""The states of all random generators that training draws from: Volta's, Python's and NumPy's. Loaded by what resumes a run."""
from __future__ import annotations

import random
from typing import Any

import numpy as np

from volta.errors import StateDictError
from volta.random import get_rng_state, set_rng_state

__all__ = ["random_states", "set_random_states"]


def random_states() -> dict[str, Any]:
    """The states of the default generator, Python's and NumPy's, as values that a file can hold."""
    state = np.random.get_state(legacy=False)
    return {"volta": get_rng_state(), "python": random.getstate(),
            "numpy": {**state, "state": {key: np.asarray(value).tolist() for key, value in state["state"].items()}}}


def set_random_states(states: Any) -> None:
    """Continue from what `random_states` gave. Raises: StateDictError for anything else."""
    try:
        set_rng_state(states["volta"].to("cpu"))
        random.setstate(states["python"])
        np.random.set_state({**states["numpy"], "state": {key: np.asarray(value, np.uint64) if isinstance(value, list) else value
                                                          for key, value in states["numpy"]["state"].items()}})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise StateDictError(f"the states of the random generators are of another form: {error}") from None
