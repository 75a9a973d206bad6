"""Records of connectionist temporal classification: the losses of sequences, summed over their alignments, and the gradient."""
from __future__ import annotations

import math

import numpy as np

from volta.dtypes import int64
from volta.ops.records.copy import cast, cat_op
from volta.ops.records.create import arange_op
from volta.ops.records.index import gather_op, index_select_op, scatter_add_op
from volta.ops.records.math import clamp_min, exp, logical_and, where_op
from volta.ops.records.reduce import logsumexp_op
from volta.ops.records.view import expand_op, reshape_op, slice_op
from volta.ops.table import Derived, Labels, case, create, register

_NEVER = -1e30              # the logarithm of an alignment that there is not: finite, so that no derivative is NaN


# ---------------------------------------------------------------- in NumPy
def _np_step(row, second):
    """The logarithms of the ways to each state: from itself, the one before it, and where `second` says so the one before that."""
    before = np.concatenate([[-np.inf] * 2, row])
    return np.logaddexp(np.logaddexp(row, before[1:-1]), np.where(second, before[:-2], -np.inf))


def _np_states(labels, length, blank):
    states = np.full(2 * length + 1, blank)
    states[1::2] = labels[:length]
    return states, (states != np.concatenate([[blank] * 2, states])[:-2]) & (np.arange(len(states)) > 1)


def np_ctc(x, labels, inputs, lengths, blank):
    loss, alphas = np.full(len(labels), np.inf), np.full((len(labels), len(x), 2 * labels.shape[1] + 1), -np.inf)
    for n, (used, length) in enumerate(zip(inputs, lengths)):
        states, second = _np_states(labels[n], length, blank)
        row = np.where(np.arange(len(states)) < 2, 0.0, -np.inf)
        for t in range(used):
            row = (_np_step(row, second) if t else row) + x[t, n, states]
            alphas[n, t, :len(states)] = row
        loss[n] = -np.logaddexp.reduce(row[-2:]) if used else 0.0 if length == 0 else np.inf
    return loss, alphas


def _np_ctc_grad(g, x, labels, inputs, lengths, loss, alphas, blank):
    out = np.zeros(x.shape)
    for n, (used, length) in enumerate(zip(inputs, lengths)):
        states, second = _np_states(labels[n], length, blank)
        row = np.where(np.arange(len(states)) < len(states) - 2, -np.inf, 0.0)
        for t in reversed(range(used)):
            out[t, n] = np.exp(x[t, n])
            np.subtract.at(out[t, n], states, np.exp(alphas[n, t, :len(states)] + row + loss[n]))
            there = (row + x[t, n, states])[::-1]
            row = _np_step(there, np.concatenate([[False] * 2, second[:1:-1]])[:len(row)])[::-1]
    return out * g[:, None]


# ---------------------------------------------------------------- in simpler ops
class _Lattice:
    """The states that alignments of sequences go through, [N, L], and the log-probability of each at each step, [T, N, L]."""
    def __init__(self, x, labels, inputs, lengths, blank):
        self.x, self.inputs = x, inputs
        (steps, batch, _), self.count, device = x.shape, 2 * labels.shape[1] + 1, x.device
        self.places = create(arange_op, 0, 1, self.count, dtype=int64, device=device)
        index = expand_op(reshape_op(clamp_min(self.places - 1, 0) // 2, shape=(1, self.count)), shape=(batch, self.count))
        states = where_op(self.places % 2 == 1, gather_op(labels, index, dim=1) if labels.shape[1] else index, blank)
        self.last = reshape_op(lengths, shape=(batch, 1)) * 2
        times = create(arange_op, 0, 1, steps, dtype=int64, device=device)
        self.used = reshape_op(times, shape=(steps, 1, 1)) < reshape_op(inputs, shape=(1, batch, 1))
        self.index = expand_op(reshape_op(states, shape=(1, batch, self.count)), shape=(steps, batch, self.count))
        reached = reshape_op(self.places, shape=(1, self.count)) <= self.last
        self.emitted = where_op(logical_and(self.used, reached), clamp_min(gather_op(x, self.index, dim=2), _NEVER), _NEVER)
        second = index_select_op(states, clamp_min(self.places - 2, 0), dim=1)
        self.jumps = logical_and(states != second, self.places >= 2)

    def step(self, t):
        _, batch, count = self.emitted.shape
        return reshape_op(slice_op(self.emitted, starts=(t, 0, 0), sizes=(1, batch, count), steps=(1, 1, 1)), shape=(batch, count))

    def joined(self, row, back, jumps):
        """Where a state is reached from: the second one from it, if `jumps`, the next one, and itself. NaN goes where there is a way."""
        shape = (row.shape[0], 1, self.count)
        first, second = (index_select_op(row, clamp_min(self.places - k, 0) if not back else
                                         self.count - 1 - clamp_min(self.count - 1 - self.places - k, 0), dim=1) for k in (1, 2))
        inside = self.places >= 1 if not back else self.places < self.count - 1
        ways = [where_op(jumps, second, _NEVER), where_op(inside, first, _NEVER), row]
        return logsumexp_op(cat_op(*[reshape_op(way, shape=shape) for way in ways], dim=1), dim=1)

    def beginnings(self):
        """Per step the logarithms of the probabilities of the beginnings that end in each state; before all, that of nothing."""
        rows = [cast(where_op(self.places == 0, 0.0, where_op(self.jumps, _NEVER, _NEVER)), self.x.dtype)]
        for t in range(self.x.shape[0]):
            now = self.step(t) if t else where_op(self.places <= 1, self.step(t), _NEVER)       # no NaN of what nothing begins with
            rows.append(self.joined(rows[-1], False, self.jumps) + now)
        return rows

    def rests(self):
        """Per step the logarithms of the probabilities of what follows behind each state."""
        ends = logical_and(self.places <= self.last, self.places >= self.last - 1)
        ends = cast(where_op(ends, 0.0, _NEVER), self.x.dtype)
        batch = self.jumps.shape[0]
        jumps = index_select_op(self.jumps, self.count - 1 - clamp_min(self.count - 3 - self.places, 0), dim=1)
        jumps = logical_and(jumps, self.places < self.count - 2)
        rows, final = [], reshape_op(self.inputs, shape=(batch, 1))
        for t in range(self.x.shape[0] - 1, -1, -1):
            met = where_op(rows[-1] <= _NEVER / 2, _NEVER, rows[-1] + self.step(t + 1)) if rows else None
            row = ends if met is None else self.joined(met, True, jumps)
            rows.append(where_op(final == t + 1, ends, row))
        return rows[::-1]


def _stacked(rows, dim):
    shape = list(rows[0].shape)
    shape.insert(dim, 1)
    return cat_op(*[reshape_op(row, shape=tuple(shape)) for row in rows], dim=dim)


def _ctc(x, labels, inputs, lengths, blank):
    lattice = _Lattice(x, labels, inputs, lengths, blank)
    rows, batch = lattice.beginnings(), x.shape[1]
    at = expand_op(reshape_op(inputs, shape=(batch, 1, 1)), shape=(batch, 1, lattice.count))
    last = reshape_op(gather_op(_stacked(rows, 1), at, dim=1), shape=(batch, lattice.count))
    first, second = (gather_op(last, clamp_min(lattice.last - k, 0), dim=1) for k in (0, 1))
    total = logsumexp_op(cat_op(first, where_op(lattice.last > 0, second, _NEVER), dim=1), dim=1)
    loss = where_op(total <= _NEVER / 2, math.inf, -total)                 # NaN stays NaN
    alphas = _stacked(rows[1:], 1) if x.shape[0] else reshape_op(last * 0.0, shape=(batch, 1, lattice.count))
    if not x.shape[0]:
        alphas = slice_op(alphas, starts=(0, 0, 0), sizes=(batch, 0, lattice.count), steps=(1, 1, 1))
    return loss, where_op(alphas <= _NEVER / 2, -math.inf, alphas).detach()


def _ctc_grad(g, x, labels, inputs, lengths, loss, alphas, blank):
    """PyTorch's gradient counts each step's probabilities in, which log_softmax's derivative takes out again. NaN of a class that
    is no label's counts nowhere; where the loss is NaN, the gradients of all classes are."""
    lattice, (_, batch, classes) = _Lattice(x, labels, inputs, lengths, blank), x.shape
    total = -reshape_op(_ctc(x, labels, inputs, lengths, blank)[0], shape=(1, batch, 1))
    starts, rests = _stacked(lattice.beginnings()[1:], 0), _stacked(lattice.rests(), 0)
    met = logical_and(logical_and(starts > _NEVER / 2, rests > _NEVER / 2), total > -math.inf)
    shares = where_op(met, exp(where_op(met, starts + rests - total, 0.0)), 0.0)
    shares = scatter_add_op(shares, lattice.index, dim=2, size=classes)
    slope = exp(where_op(x == x, x, -math.inf))
    found = where_op(total != total, math.nan, slope - shares)
    return where_op(lattice.used, found * reshape_op(g, shape=(1, batch, 1)), 0.0)


def _ctc_vjp(g, x, labels, inputs, lengths, out, alphas, blank):
    return ctc_grad(g, x, labels, inputs, lengths, out, alphas, blank=blank), None, None, None


_CASES = tuple((shape, Labels((shape[1], most), shape[2]), *(Derived(lambda *_, v=v: np.array(v)) for v in sizes), blank)
               for shape, most, sizes, blank in (((7, 2, 4), 3, ([7, 6], [3, 2]), 0), ((9, 3, 5), 2, ([9, 4, 2], [2, 1, 0]), 4),
                                                 ((40, 1, 3), 12, ([38], [12]), 1)))
_TAKES = {"x": "f", "labels": "int64", "inputs": "int64", "lengths": "int64"}
_DECLARED = {"family": "ctc", "rtol": 1e-4, "smooth": False, "domain": (-2.0, -0.5)}
ctc_op = register("ctc", ("x", "labels", "inputs", "lengths"), outputs=("out", "alphas"), takes=_TAKES, vjp=_ctc_vjp, reference=_ctc,
                  numpy=np_ctc, cases=tuple(case(*c[:4], blank=c[4]) for c in _CASES), **_DECLARED)
# Samples of alphas are finite, since they are made integers, too; the exponential of -1e4 is 0.
ctc_grad = register("ctc_grad", ("g", "x", "labels", "inputs", "lengths", "loss", "alphas"), reference=_ctc_grad, numpy=_np_ctc_grad,
                    takes={"g": "f", **_TAKES, "x": "=g", "loss": "=g", "alphas": "=g"}, **_DECLARED,
                    cases=tuple(case(c[0][1:2], *c[:4], *(Derived(lambda g, x, labels, inputs, lengths, *_, i=i, blank=c[4]: np.maximum(
                        np_ctc(x, labels, inputs, lengths, blank)[i], -1e4)) for i in range(2)), blank=c[4]) for c in _CASES))
