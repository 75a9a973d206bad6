"""The updates of `records/update.py` as records of the op table, and how optimizers run them."""
from __future__ import annotations

import numpy as np

from volta._kernels.core.call import run_kernel
from volta._kernels.core.order import as_rows
from volta.ops import table
from volta.ops.records.update import UPDATES, Update

_SHAPES = ((7, 3), (), (300,), (0, 2), (4, 5), (1001,))
_FUNCTIONS = {"sqrt": np.sqrt, "abs": np.abs, "sign": np.sign, "maximum": np.maximum,
              "scaled": lambda factor, x: factor * x if factor else 0.0 * factor}


def _reference(update: Update):
    """The formula, run by Python on lists of float64 arrays."""
    def numpy(*lists, **values):
        code, flags = compile(update.formula, update.name, "exec"), dict.fromkeys(update.flags, False)
        rows = zip(*[[None] * len(lists[0]) if column is None else column for column in lists])
        results = []
        for row in rows:
            names = {**_FUNCTIONS, **flags, **values, **dict(zip(update.tensors, row))}
            exec(code, names)
            results.append([names[name] for name in update.tensors])
        return tuple(None if i == 1 or lists[i] is None else [r[i] for r in results] for i in range(len(lists)))
    return numpy


def _square(sign: float):
    """Samples of a state that is no less than 0: more than any other state's square, and of two such states neither always the larger."""
    return table.Derived(lambda params, *_: [6.1 + sign * p for p in params])


def _cases(update: Update):
    """Lists of the shapes above, and of one."""
    for settings, options in update.samples:
        flags = {name: value for name, value in settings.items() if name in update.flags}
        values = update.factors(**{name: value for name, value in settings.items() if name not in flags})
        for shapes in (_SHAPES, ((3, 2, 5),)):
            signs = iter((1.0, -1.0) * 4)
            lists = [None if t in update.optional and t not in options else _square(next(signs)) if t in update.squares
                     else table.Many(shapes) for t in update.tensors]
            yield table.case(*lists, **values, **flags)


def _takes(update: Update):
    """All of a parameter is of one floating point dtype."""
    return {f"{t}s": "f" if t == "param" else "=params?" if t in update.optional else "=params" for t in update.tensors}


for _update in UPDATES.values():
    table.register(_update.name, tuple(f"{name}s" for name in _update.tensors), family="update", takes=_takes(_update),
                   numpy=_reference(_update), writes=tuple(f"{name}s" for name in _update.tensors if name != "grad"),
                   cases=tuple(_cases(_update)))


def run(update: Update, lists: list, settings: dict) -> None:
    """One update, in place, of lists of tensors of one device and dtype.

    IN: lists, in the order of the declaration's tensors, None for a state that is not in use; settings, its hyperparameters and flags.
    """
    flags = {flag: settings.pop(flag) for flag in update.flags if flag in settings}
    run_kernel(table.RECORDS[update.name], lists[0][0].device, as_rows(tuple(lists)), {**update.factors(**settings), **flags})
