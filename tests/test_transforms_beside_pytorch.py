"""Transforms of programs with views and changes in place, beside PyTorch: what each gives for each program and shape."""
from functools import partial

import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch", reason="compares with PyTorch")


def _rows_written(L, x):
    y = x * 2
    y[0] = y[1] * 3
    return y.sin()


def _through_a_view(L, x):
    y = x.clone()
    y.view(-1)[1:] += y.view(-1)[:-1].clone()
    return y.logsumexp(-1)


def _products_of_columns(L, x):
    z = L.zeros_like(x)
    z += x ** 2
    z[..., 0] *= x[..., 1]
    return z


def _power_of_what_is_filled(L, x):
    y = L.empty_like(x)
    y.fill_(2.0)
    y.pow_(x)
    return y


def _changed_three_times(L, x):
    y = x.clone()
    y.clamp_(-0.5, 0.5)
    y.add_(x, alpha=2)
    y /= 3
    return y.unbind(0)[0]


def _masked_and_added(L, x):
    y = x.clone()
    y.masked_fill_(x > 0.5, 0.0)
    y.index_add_(0, L.tensor([0]), x[1:2])
    return y * x


def _sorted_and_selected(L, x):
    return L.where(x > 0, x.sort(-1)[0], x.flip(-1) ** 2).softmax(-1)


PROGRAMS = (_rows_written, _through_a_view, _products_of_columns, _power_of_what_is_filled, _changed_three_times, _masked_and_added,
            _sorted_and_selected)


def _made(L, shape, seed):
    return L.tensor(np.random.default_rng(seed).uniform(-1.2, 1.4, shape).tolist(), dtype=L.float64)


TRANSFORMS = {
    "gradient": lambda L, f, s: L.func.grad(lambda x: f(x).sum())(_made(L, s, 0)),
    "second": lambda L, f, s: L.func.grad(lambda x: L.func.grad(lambda y: f(y).sum())(x).sin().sum())(_made(L, s, 0)),
    "forward": lambda L, f, s: L.func.jvp(f, (_made(L, s, 0),), (_made(L, s, 1),)),
    "forward twice": lambda L, f, s: L.func.jvp(
        lambda x: L.func.jvp(f, (x,), (_made(L, s, 2),))[1], (_made(L, s, 0),), (_made(L, s, 1),)),
    "rows of the Jacobian": lambda L, f, s: L.func.jacrev(f)(_made(L, s, 0)),
    "columns of the Jacobian": lambda L, f, s: L.func.jacfwd(f)(_made(L, s, 0)),
    "Hessian": lambda L, f, s: L.func.hessian(lambda x: f(x).sum())(_made(L, s, 0)),
    "samples": lambda L, f, s: L.func.vmap(f, chunk_size=3)(_made(L, (4, *s), 0)),
    "gradients of samples": lambda L, f, s: L.func.vmap(L.func.grad(lambda x: f(x).sum()))(_made(L, (4, *s), 0)),
    "product with the Hessian": lambda L, f, s: L.autograd.functional.hvp(lambda x: f(x).sum(), _made(L, s, 0), _made(L, s, 1)),
}


def _flat(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [part.detach().numpy() for part in parts]


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__[1:])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transformed(transform, program, shape):
    theirs, ours = [_flat(TRANSFORMS[transform](L, partial(program, L), shape)) for L in (torch, volta)]
    assert len(theirs) == len(ours)
    for one, other in zip(theirs, ours):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)
