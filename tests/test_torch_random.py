"""Random calls in Volta and in PyTorch: values, dtype, shape, aliasing and gradients, and what PyTorch takes is not refused.

Every function is called with the same seed at each run; shapes, dtypes and special values are drawn, 0-d, empty and broadcast ones among
them. Calls that PyTorch refuses (numbers where it wants tensors, dtypes that it has no kernel for) are left out.
"""
import math
import random

import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")
NUMBERS = DTYPES[1:]
SHAPES = ((), (1,), (4,), (0,), (3, 4), (1, 4), (3, 1), (2, 0), (2, 3, 4), (1, 1))
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, math.nan, math.inf, -math.inf)
TOLERANCE = {"float16": 3e-3, "float32": 3e-5, "float64": 1e-9}
CALLS = 40


class Draw:
    """Draws arguments; arrays become tensors of the library that is called."""

    def __init__(self, name):
        self.random = random.Random(name)
        self.choice, self.int = self.random.choice, self.random.randint

    def array(self, shape=None, dtypes=DTYPES, special=True):
        shape, dtype = self.choice(SHAPES) if shape is None else shape, self.choice(dtypes)
        if dtype.startswith("float"):
            draw = lambda: self.choice(SPECIAL) if special and self.random.random() < 0.3 else self.random.uniform(-3, 3)   # noqa: E731  (a function of the branch)
        else:
            low, high = {"bool": (0, 1), "uint8": (0, 9)}.get(dtype, (-9, 9))
            draw = lambda: self.int(low, high)      # noqa: E731  (a function of the branch)
        return np.array([draw() for _ in range(math.prod(shape))], dtype).reshape(shape)

    def beside(self, a, **options):
        """An array that broadcasts against `a`."""
        shape = tuple(1 if self.random.random() < 0.3 else n for n in a.shape)
        return self.array(shape[self.int(0, len(shape)):] if self.random.random() < 0.3 else shape, **options)

    def number(self):
        return self.choice((0, 1, 2, -1, 3, 0.5, -2.0, 0.0, math.nan, math.inf, 1.5))

    def dim(self, a, more=0):
        n = max(a.ndim + more, 1)
        return self.int(-n, n - 1)


def unary(d):
    return (d.array(),)


def binary(d, dtypes=DTYPES):
    a = d.array(dtypes=dtypes)
    return a, (d.number() if d.random.random() < 0.3 else d.beside(a, dtypes=dtypes))


def numbers(d):
    return binary(d, NUMBERS)


def whole(d):
    a = d.array(dtypes=DTYPES[:4])
    return a, d.choice((True, 3, d.beside(a, dtypes=DTYPES[:4])))


def bounds(d):
    a = d.array(dtypes=NUMBERS)
    return (a, d.number(), d.number()) if d.random.random() < 0.5 else (a, d.beside(a), d.beside(a))


def three(d):
    a = d.array(dtypes=DTYPES[4:], special=False)
    return a, d.beside(a, dtypes=DTYPES[4:], special=False), d.beside(a, dtypes=DTYPES[4:], special=False)


def alike(d):
    dtype = (d.choice(DTYPES),)
    a = d.array(dtypes=dtype)
    return a, d.beside(a, dtypes=dtype)


def along(d):
    a = d.array()
    return a, d.dim(a)


def two_dims(d):
    a = d.array()
    return a, d.dim(a), d.dim(a)


def joined(d):
    a = d.array(d.choice(SHAPES[1:]))
    k = d.dim(a)
    others = [d.array(a.shape[:k % a.ndim] + (d.int(0, 3),) + a.shape[k % a.ndim + 1:]) for _ in range(d.int(0, 2))]
    return [a, *others, *[d.array((0,))] * d.int(0, 1)], k


def stacked(d):
    a = d.array()
    return [a, *[d.array(a.shape) for _ in range(d.int(0, 2))]], d.dim(a, 1)


def padded(d):
    a = d.array()
    return a, tuple(d.int(-1, 3) for _ in range(2 * d.int(1, max(a.ndim, 1)))), "constant", d.choice((None, 0, 1, 1.7, -1.0))


def ranged(d):
    return [d.choice((0, 1, 5, -3, 2.5, -0.5, 7.9, 10)) for _ in range(3)]


def dotted(d):
    dtype = (d.choice(NUMBERS),)
    return d.array((2, 3, d.choice((1, 4))), dtype, False), d.array((4, d.choice((3, 1)), 2), dtype, False), ([2, 1], [0, 1])


def rolled(d):
    a = d.array(d.choice(SHAPES[1:]))
    return (a, d.int(-5, 5)) if d.random.random() < 0.4 else (a, (1, -2), (d.dim(a), d.dim(a)))


def function(name):
    return lambda lib: getattr(lib, name)


def method(name):
    return lambda lib: lambda a, *rest: getattr(a * 1 if a.requires_grad else a, name)(*rest)


def keyed(name, key):
    """The last argument by keyword."""
    return lambda lib: lambda *a: getattr(lib, name)(*a[:-1], **{key: a[-1]})


CASES = {
    **{name: (function(name), unary) for name in (
        "neg sign reciprocal sqrt rsqrt exp exp2 expm1 log log2 log1p log10 sin cos tan tanh sigmoid relu isnan isinf isfinite logical_not "
        "erf abs floor ceil trunc round square frac nan_to_num bitwise_not fliplr flipud ravel t trace tril triu diag").split()},
    **{name: (function(name), binary) for name in (
        "mul add eq ne lt le gt ge logical_and logical_or logical_xor div").split()},
    **{name: (function(name), numbers) for name in "sub remainder fmod floor_divide maximum minimum pow clamp_min clamp_max".split()},
    **{name: (function(name), whole) for name in "bitwise_and bitwise_or bitwise_xor".split()},
    **{f"__{name}__": (method(f"__{name}__"), numbers) for name in "rpow rsub rmod radd rmul pow mod isub iadd imul imod".split()},
    **{f"__{name}__": (method(f"__{name}__"), whole) for name in "and or xor iand ior ixor".split()},
    "clamp": (function("clamp"), bounds), "clamp_": (method("clamp_"), bounds), "addcmul": (function("addcmul"), three),
    "addcdiv": (function("addcdiv"), three), "addcdiv_": (method("addcdiv_"), three), "isclose": (function("isclose"), alike),
    "where": (function("where"), lambda d: (lambda a: (a, d.beside(a), d.beside(a)))(d.array(dtypes=("bool",)))),
    "div by mode": (keyed("div", "rounding_mode"), lambda d: (*numbers(d), d.choice(("floor", "trunc")))),
    "add alpha": (keyed("add", "alpha"), lambda d: (*numbers(d), d.choice((1, 2, -1, 0.5)))),
    "transpose": (function("transpose"), two_dims), "movedim": (function("movedim"), two_dims), "flatten": (function("flatten"), two_dims),
    "squeeze": (function("squeeze"), along), "unbind": (function("unbind"), along), "cat": (function("cat"), joined),
    "stack": (function("stack"), stacked), "hstack": (function("hstack"), lambda d: stacked(d)[:1]),
    "roll": (function("roll"), rolled), "diagonal": (function("diagonal"), unary),
    "unsqueeze": (function("unsqueeze"), lambda d: (lambda a: (a, d.dim(a, 1)))(d.array())),
    "split": (function("split"), lambda d: (lambda a: (a, d.choice((0, 1, 2, [1, 2])), d.dim(a)))(d.array())),
    "chunk": (function("chunk"), lambda d: (lambda a: (a, d.int(1, 4), d.dim(a)))(d.array())),
    "flip": (function("flip"), lambda d: (lambda a: (a, [d.dim(a)]))(d.array())),
    "repeat": (method("repeat"), lambda d: (lambda a: (a, *[d.int(0, 2) for _ in range(a.ndim + 1)]))(d.array())),
    "repeat_interleave": (function("repeat_interleave"), lambda d: (lambda a: (a, d.int(0, 3), d.dim(a)))(d.array())),
    "diag of": (function("diag"), lambda d: (d.array(d.choice(((3,), (2, 3)))), d.int(-3, 3))),
    "triangle": (function("tril"), lambda d: (d.array((2, 3, 4)), d.int(-3, 3))),
    "pad": (lambda lib: lib.nn.functional.pad, padded), "softplus": (lambda lib: lib.nn.functional.softplus, unary),
    "arange": (keyed("arange", "dtype"), lambda d: (*ranged(d), d.choice(NUMBERS))), "arange of numbers": (function("arange"), ranged),
    "linspace": (keyed("linspace", "dtype"), lambda d: (*sorted(abs(v) for v in ranged(d)[:2]), d.int(0, 9), d.choice(NUMBERS))),
    "tensordot": (function("tensordot"), dotted),
    "reshape": (function("reshape"), lambda d: (d.array((3, 4)), d.choice(((-1,), (2, -1), (4, 3))))),
}


def outcome(lib, make, arguments, wants_grad):
    """(results as arrays, whether each wants a gradient, whether the first is a view, gradients of the leaves), or the error."""
    leaves = []

    def build(a):
        if isinstance(a, list) and any(isinstance(x, np.ndarray) for x in a):
            return [build(x) for x in a]
        if isinstance(a, str) and a in DTYPES:
            return getattr(lib, a)
        if not isinstance(a, np.ndarray):
            return a
        t = lib.tensor(a.copy())
        if wants_grad and a.dtype.kind == "f":
            leaves.append(t.requires_grad_())
        return t
    given = [build(a) for a in arguments]
    try:
        found = make(lib)(*given)
    except (RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        return error
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    storage = (lambda t: t.untyped_storage().data_ptr()) if lib is torch else (lambda t: id(t.storage))
    view = found and isinstance(given[0], lib.Tensor) and 0 not in given[0].shape and storage(given[0]) == storage(found[0])
    roots = [t for t in found if t.requires_grad]
    try:
        lib.autograd.backward(roots, [lib.ones_like(t) for t in roots])
    except RuntimeError as error:           # "derivative for aten::floor_divide is not implemented"
        assert lib is torch, error
        leaves = []
    return [t.detach().numpy() for t in found], [t.requires_grad for t in found], view, [t.grad for t in leaves]


def close(ours, theirs, rtol):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol, 0.3 * rtol)


@pytest.mark.parametrize("name", CASES)
@np.errstate(all="ignore")
def test_random_calls(name):
    make, draw = CASES[name]
    d = Draw(name)
    compared = 0
    for _ in range(CALLS):
        arguments, wants_grad = draw(d), d.random.random() < 0.6
        theirs = outcome(torch, make, arguments, wants_grad)
        if isinstance(theirs, Exception):
            continue
        ours = outcome(volta, make, arguments, wants_grad)
        text = f"{name} of {arguments}"
        assert not isinstance(ours, Exception), f"{text}: {ours}"
        assert len(ours[0]) == len(theirs[0]) and ours[1:3] == theirs[1:3], text
        try:
            for a, b in zip(ours[0], theirs[0]):
                close(a, b, TOLERANCE.get(a.dtype.name, 0))
            coarsest = max((TOLERANCE.get(a.dtype.name, 0) for a in arguments if isinstance(a, np.ndarray)), default=1e-3)
            for a, b in zip(ours[3], theirs[3]):        # on the way back, steps are in the dtype of any of the operands
                if a is not None and b is not None:
                    close(a.numpy(), b.numpy(), 5 * coarsest)
        except AssertionError as error:
            raise AssertionError(f"{text}: {error}") from None
        compared += 1
    assert compared > CALLS // 8, f"{name}: PyTorch takes only {compared} of these calls"
