"""The updates of `records/update.py` as records of the op table, and how optimizers run them."""
from __future__ import annotations

import math

import numpy as np

from volta._kernels.core.call import run_kernel
from volta._kernels.core.order import as_rows
from volta.ops import table
from volta.ops.records.update import UPDATES, Update

_SHAPES = ((7, 3), (), (300,), (0, 2), (4, 5), (1001,))
_FUNCTIONS = {"sqrt": np.sqrt, "abs": np.abs, "sign": np.sign, "maximum": np.maximum,
              "clamped": lambda factor, x: np.clip(x, -factor, factor), "scaled": lambda factor, x: factor * x if factor else 0.0 * factor}


def _reference(update: Update):
    """The formula, run by Python on lists of float64 arrays."""
    def numpy(*inputs, **values):
        lists, scalars = inputs[:len(update.tensors)], dict(zip(update.scalars, inputs[len(update.tensors):]))
        code, flags = compile(update.formula, update.name, "exec"), dict.fromkeys(update.flags, False)
        rows = zip(*[[None] * len(lists[0]) if column is None else column for column in lists])
        results = []
        for row in rows:
            names = {**_FUNCTIONS, **flags, **values, **scalars, **dict(zip(update.tensors, row))}
            exec(code, names)
            results.append([names[name] for name in update.tensors])
        changed = [None if name in update.reads or lists[i] is None else [r[i] for r in results] for i, name in enumerate(update.tensors)]
        return (*changed, *[None for _ in scalars])
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
            yield table.case(*lists, *[() for _ in update.scalars], **values, **flags)


def _takes(update: Update):
    """All of a parameter is of one floating point dtype."""
    taken = {f"{t}s": "f" if t == "param" else "=params?" if t in update.optional else "=params" for t in update.tensors}
    return taken | dict.fromkeys(update.scalars, "f")


for _update in UPDATES.values():
    table.register(_update.name, (*[f"{name}s" for name in _update.tensors], *_update.scalars), family="update", takes=_takes(_update),
                   numpy=_reference(_update), writes=tuple(f"{name}s" for name in _update.tensors if name not in _update.reads),
                   cases=tuple(_cases(_update)))

table.register("total_norm", ("*tensors",), family="total_norm", takes="f", domain=(0.3, 2.0),
               numpy=lambda *tensors, order: np.asarray(np.linalg.norm(np.concatenate([t.reshape(-1) for t in tensors]), order)),
               cases=tuple([table.case(*shapes, order=order) for order in (1.0, 2.0, math.inf, -math.inf, 3.0, 0.5)
                            for shapes in (((7, 3), (), (4, 5), (1001,) if order > 0.5 else (10,)), ((3, 2, 5),))]))


def run(update: Update, lists: list, settings: dict, scalars: tuple = ()) -> None:
    """One update, in place, of lists of tensors of one device and dtype.

    IN: lists, in the order of the declaration's tensors, None for a state that is not in use; settings, its hyperparameters and flags;
    scalars, tensors of one element of that device.
    """
    flags = {flag: settings.pop(flag) for flag in update.flags if flag in settings}
    run_kernel(table.RECORDS[update.name], lists[0][0].device, (*as_rows(tuple(lists)), *scalars), {**update.factors(**settings), **flags})


def total_norm(tensors: list, order: float):
    """The norm of all elements of tensors of one device and dtype; the order is not 0."""
    return run_kernel(table.RECORDS["total_norm"], tensors[0].device, tuple(as_rows((tensors,))[0]), {"order": order})
