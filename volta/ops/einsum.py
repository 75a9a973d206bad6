"""Sums of products over named dimensions: `einsum` and `tensordot`, as permutations and batched matrix products."""
from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase
from volta.dtypes import bool_, float32, float64
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.linalg import of_nothing
from volta.ops.parts import diagonal
from volta.ops.records.copy import cast
from volta.ops.records.linalg import dot_op, matmul_op, turned
from volta.ops.records.view import flat, permute_op, reshape_op
from volta.ops.reduce import sum
from volta.ops.table import case, composed
from volta.ops.taking_over import taken
from volta.shapes import as_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

FEW = 1 << 16                       # elements of a product up to which it is made whole
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@composed(samples=(case("ij,jk->ik", (2, 3), (3, 4)), case("bii->bi", (2, 3, 3)), case("...i,i", (2, 3), (3,))), kinds="fi", method=False,
          rtol=1e-4, numpy=np.einsum)
def einsum(equation: str | Tensor, *operands: Tensor | Sequence[object]) -> Tensor:
    """Einstein's notation: `einsum("bij,bjk->bik", x, y)`, or with numbers below 52 in lists for the letters, `einsum(x, [0, 1, 2], y,
    [0, 2, 3], [0, 1, 3])`. "..." stands for any dimensions, which broadcast; without "->" the result has the letters that occur once, in
    alphabetical order. Operands are joined from left to right.

    Raises: ArgumentError for an equation that does not fit the operands; ShapeError where sizes differ; DTypeError for no tensors.

    >>> volta.einsum("ij,j->i", volta.ones(2, 3), volta.ones(3)).tolist()
    [3.0, 3.0]
    """
    if isinstance(equation, TensorBase):
        equation, operands = _spelled((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not all(isinstance(x, TensorBase) for x in operands):
        found = taken(einsum, (equation, *operands), {})            # what stands for a tensor answers itself
        if found is not NotImplemented:
            return found
        raise DTypeError(f"einsum: operands must be tensors, or one list of them, got {[type(x).__name__ for x in operands]}")
    shapes = tuple([x._shape for x in operands])
    if len(shapes) == 2:
        x, y = operands
        if x.dtype is y.dtype and (x.dtype is float32 or x.dtype is float64):
            gone = _alike(equation, *shapes)
            if gone is not None and len(gone) == len(shapes[0]) and x._contiguous and y._contiguous:
                return _dot(x, y)
            if gone is not None and x._size <= FEW:
                return sum(x * y, gone) if gone else x * y
        ways = _alone(equation, *shapes)
        if ways is not None:
            turned, left, right, shape, multiply, order = ways
            x, y = (y, x) if turned else (x, y)
            out = multiply(_arranged(x, *left), _arranged(y, *right))
            return _arranged(_arranged(out, None, shape), order, None)
    elif len(shapes) == 1 and (ways := _of_one(equation, shapes[0])) is not None:
        order, gone = ways
        return sum(permute_op(operands[0], dims=order), gone) if gone else permute_op(operands[0], dims=order)
    terms, result = _parse(equation, shapes)
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands):
        for letter, n in zip(term, x.shape):
            if sizes.setdefault(letter, n) != n and 1 not in (sizes[letter], n):
                raise ShapeError(f"einsum: {letter!r} in {equation!r} has size {sizes[letter]} in one operand and {n} in another")
            sizes[letter] = max(sizes[letter], n) if n and sizes[letter] else 0
    pieces = [_without_repeats(term, x) for term, x in zip(terms, operands)]
    if len(pieces) == 1:                    # as `_of_one`
        term, x = pieces[0]
        rest = [i for i, letter in enumerate(term) if letter not in result]
        return _summed(result + "".join(term[i] for i in rest), permute_op(x, dims=(*map(term.index, result), *rest)), set(result))[1]
    term, x = _summed(*pieces[0], set("".join(t for t, _ in pieces[1:])) | set(result))
    for i, (other, y) in enumerate(pieces[1:], 2):
        kept = set("".join(t for t, _ in pieces[i:])) | set(result)
        other, y = _summed(other, y, set(term) | kept)
        term, x = _product(term, x, other, y, kept, result)
    term, x = _summed(term, x, set(result))
    return x if term == result and x is not operands[0] else permute_op(x, dims=tuple([term.index(letter) for letter in result]))


def _spelled(given):
    """The equation in letters, and the operands, of operands that are each followed by a list of numbers."""
    terms = [given[i] for i in range(1, len(given), 2)] + list(given[-1:] if len(given) % 2 else ())
    for term in terms:
        if not isinstance(term, (list, tuple)) or not all(k is Ellipsis or isinstance(k, int) and 0 <= k < len(_LETTERS) for k in term):
            raise ArgumentError(f"einsum: needs a list of integers from 0 to {len(_LETTERS) - 1} and ... behind every operand, got a "
                                f"{type(term).__name__}")
    words = ["".join("..." if k is Ellipsis else _LETTERS[k] for k in term) for term in terms]
    count = len(given) // 2
    return ",".join(words[:count]) + "".join(f"->{word}" for word in words[count:]), given[:2 * count:2]


@functools.lru_cache(maxsize=256)
def _parse(equation, shapes):
    """(letters of each operand, letters of the result), with capital letters of their own for the dimensions of "..."."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ArgumentError(f"einsum: {equation!r} names {len(terms)} operands, got {len(shapes)}")
    free = [c for c in _LETTERS if c not in equation]
    rank = max((len(x) - len(t.replace("...", "")) for t, x in zip(terms, shapes) if "..." in t), default=0)
    if rank > len(free):
        raise ArgumentError(f"einsum: {equation!r} leaves no letters for the {rank} dimensions of '...'")
    dots, out = "".join(free[:max(rank, 0)]), []
    for t, x in zip(terms, shapes):
        hidden = len(x) - len(t.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in t) or not all(c in _LETTERS for c in t.replace("...", "", 1)):
            raise ArgumentError(f"einsum: {t!r} in {equation!r} does not fit an operand of shape {x}")
        out.append(t.replace("...", dots[len(dots) - hidden:]))
    if not arrow:
        named = "".join(t.replace("...", "") for t in terms)
        return out, dots + "".join(sorted(c for c in set(named) if named.count(c) == 1))
    result = right.replace("...", dots)
    wrong = [c for c in result if result.count(c) > 1 or not any(c in t for t in out)]
    if wrong:
        raise ArgumentError(f"einsum: {wrong[0]!r} of the result of {equation!r} must be once in it and in an operand")
    return out, result


@functools.lru_cache(maxsize=256)
def _alike(equation, x, y):
    """The dimensions to sum a product of elements over, where two operands have the same letters and sizes; else None."""
    terms, result = _parse(equation, (x, y))
    term = terms[0]
    fits = x == y and term == terms[1] and len(set(term)) == len(term) and result == "".join(c for c in term if c in result)
    return tuple([i for i, c in enumerate(term) if c not in result]) if fits else None


def _dot(x, y):
    """The sum of products of all elements of tensors of one shape, which are contiguous."""
    if len(x._shape) != 1:
        x, y = flat(x), flat(y)
    return dot_op(x, y)


@functools.lru_cache(maxsize=256)
def _alone(equation, x, y):
    """How one product makes the result of two operands of these shapes: (whether they change places; the rest as `_joined`; the order of
    the dimensions then, None where it is that). None where a letter is to be summed or repeated in one of them, or sizes differ."""
    (a, b), result = _parse(equation, (x, y))
    sizes = {**dict(zip(a, x)), **dict(zip(b, y))}
    if len(set(a)) < len(a) or len(set(b)) < len(b) or [*x, *y] != [sizes[c] for c in a + b]:
        return None
    if not all(c in result or c in a and c in b for c in sizes):
        return None
    turned = _turned(a, b, result)
    if turned:
        a, x, b, y = b, y, a, x
    term, left, right, shape, multiply = _joined(a, x, b, y, frozenset(result), result)
    order = tuple([term.index(c) for c in result])
    return turned, left, right, shape, multiply, None if term == result else order


@functools.lru_cache(maxsize=256)
def _of_one(equation, x):
    """The order of the dimensions of one operand, and which are summed then, so that the result is row-major; None for repeated letters."""
    (term,), result = _parse(equation, (x,))
    if len(set(term)) < len(term):
        return None
    order = (*map(term.index, result), *[i for i, c in enumerate(term) if c not in result])
    return order, tuple(range(len(result), len(term)))


def _without_repeats(term, x):
    """A letter that an operand has twice stands for its diagonal."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            a = term.index(letter)
            b = term.index(letter, a + 1)
            x = diagonal(x, 0, a, b)
            term = term[:a] + term[a + 1:b] + term[b + 1:] + letter
    return term, x


def _summed(term, x, kept):
    """Summed over the letters that nothing else needs."""
    gone = [i for i, letter in enumerate(term) if letter not in kept]
    return ("".join(c for c in term if c in kept), sum(x, gone)) if gone else (term, x)


def _product(a, x, b, y, kept, result):
    """The product of two operands, summed over the letters that both have and nothing else needs."""
    if _turned(a, b, result):
        a, x, b, y = b, y, a, x
    term, left, right, shape, multiply = _joined(a, x._shape, b, y._shape, frozenset(kept), result)
    out = multiply(_arranged(x, *left), _arranged(y, *right))
    out = out if shape is None else reshape_op(out, shape=shape)
    return _summed(term, out, kept)


@functools.lru_cache(maxsize=256)
def _turned(a, b, result):
    """Whether what b alone has stands before what a alone has in the result: then the product of b and a is row-major, as in PyTorch."""
    rows, columns = [result.find(c) for c in a if c not in b], [result.find(c) for c in b if c not in a]
    return bool(rows and columns) and -1 < min(rows + columns) and max(columns) < min(rows)


@functools.lru_cache(maxsize=256)
def _joined(a, x, b, y, kept, result):
    """How operands of shapes x and y are multiplied: (letters of the result; order and shape of each operand; shape of the result;
    function). None for an order or a shape that is so already."""
    sizes = {**dict(zip(b, y)), **{c: n for c, n in zip(a, x) if n != 1 or c not in b}}
    wide = {c for c in a if c in b and x[a.index(c)] != y[b.index(c)]}          # size 1 on one side: broadcast
    inner = [c for c in a if c in b and c not in kept and c not in wide]
    if not inner:
        term = "".join(sorted(dict.fromkeys(a + b), key=lambda c: result.index(c) if c in result else len(result)))
        return term, _aligned(a, x, term), _aligned(b, y, term), None, operator.mul
    batch = [c for c in a if c in b and c not in inner]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]

    def grouped(term, shape, *groups):
        order = [term.index(c) for c in (*batch, *groups[0], *groups[1])]
        return _changes(shape, order, [shape[i] for i in order[:len(batch)]] + [math.prod(sizes[c] for c in g) for g in groups])
    term = "".join((*batch, *rows, *columns))
    whole = None if len(rows) == len(columns) == 1 else tuple(sizes[c] for c in term)
    return term, grouped(a, x, rows, inner), grouped(b, y, inner, columns), whole, matmul_op


def _changes(shape, order, wanted):
    """(order, shape) that bring dimensions into an order and under a shape; None for one that is so already."""
    ordered = tuple([shape[i] for i in order])
    return None if order == sorted(order) else tuple(order), None if tuple(wanted) == ordered else tuple(wanted)


def _arranged(x, order, shape):
    x = x if order is None else permute_op(x, dims=order)
    return x if shape is None else reshape_op(x, shape=shape)


def _aligned(term, shape, wanted):
    """The changes that bring letters into the order of `wanted`, with size 1 for those that are lacking."""
    return _changes(shape, [term.index(c) for c in wanted if c in term], [shape[term.index(c)] if c in term else 1 for c in wanted])


def _are_dims(dims):
    several = dims if isinstance(dims, (tuple, list)) else (dims,)
    return all(hasattr(d, "__index__") for d in several)


@composed(samples=(case((2, 3), (3, 4), dims=1), case((2, 3), (4, 2), dims=((0,), (1,)))), kinds="fi", method=False, rtol=1e-4,
          numpy=lambda a, b, dims: np.tensordot(a, b, dims))
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] | Tensor = 2) -> Tensor:
    """Sum of products over dimensions of both: the last `dims` of `a` with the first of `b`, or two lists of dimensions.
    A dimension of size 1 is repeated to the size of the other.

    Raises: ArgumentError, ShapeError where the dimensions do not fit; DTypeError for dimensions that are no integers.

    >>> volta.tensordot(volta.ones(2, 3), volta.ones(3), 1).tolist()
    [3.0, 3.0]
    """
    if isinstance(dims, TensorBase):
        dims = int(dims) if dims._size == 1 else dims.tolist()
    number = isinstance(dims, int)
    if not number and not (isinstance(dims, (tuple, list)) and len(dims) == 2 and all(map(_are_dims, dims))):
        raise DTypeError(f"tensordot: dims must be an integer or sequences of integers, two, got {dims!r}")
    if a.dtype is b.dtype and a.dtype is not bool_:
        ways = _contracted(a._shape, b._shape, dims if number else tuple([v if hasattr(v, "__index__") else tuple(v) for v in dims]))
        if ways is not None:
            left, right, shape, whole = ways
            if whole and a._contiguous and b._contiguous:
                return _dot(a, b)
            out = matmul_op(_arranged(a, *left), _arranged(b, *right))
            return out if out._shape == shape else reshape_op(out, shape=shape)
    if number:
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ArgumentError(f"tensordot: dims must be between 0 and the dimensions of {a.shape} and of {b.shape}, got {dims}")
        dims = range(a.ndim - dims, a.ndim), range(dims)
    left, right = ([as_dim("tensordot", d, t.ndim) for d in ((v,) if hasattr(v, "__index__") else v)] for v, t in zip(dims, (a, b)))
    if left and not (a.ndim and b.ndim):
        raise ShapeError(f"tensordot: a number has no dimensions {left} and {right}, got shapes {a.shape} and {b.shape}")
    if not len(left) == len(right) == len(set(left)) == len(set(right)):
        raise ArgumentError(f"tensordot: dims must name as many dimensions of one as of the other, each once, got {left} and {right}")
    for d, e in zip(left, right):           # size 1 on one side: the other is summed
        a = cast(sum(a, d, keepdim=True), a.dtype) if b.shape[e] == 1 != a.shape[d] else a
        b = cast(sum(b, e, keepdim=True), b.dtype) if a.shape[d] == 1 != b.shape[e] else b
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise ShapeError(f"tensordot: dimensions {left} of {a.shape} and {right} of {b.shape} differ in size")
    rows, columns = ([d for d in range(t.ndim) if d not in v] for t, v in ((a, left), (b, right)))
    inner = math.prod(a.shape[d] for d in left)
    shape = tuple(a.shape[d] for d in rows) + tuple(b.shape[d] for d in columns)
    x = _arranged(a, *_changes(a._shape, rows + left, (math.prod(shape[:len(rows)]), inner)))
    y = _arranged(b, *_changes(b._shape, right + columns, (inner, math.prod(shape[len(rows):]))))
    product = of_nothing if x.dtype is bool_ and math.prod(shape) != 1 else matmul_op
    return reshape_op(product(x, y), shape=shape)


@functools.lru_cache(maxsize=256)
def _contracted(a, b, dims):
    """How `tensordot` multiplies tensors of these shapes: (order and shape of each as a matrix; shape of the result; whether all dimensions
    are summed as they lie). None where that is refused, or a size is 1 on one side."""
    rank, other = len(a), len(b)
    if hasattr(dims, "__index__"):
        if not 0 <= dims <= min(rank, other):
            return None
        dims = range(rank - dims, rank), range(dims)
    if len(dims) != 2:
        return None
    left, right = ([d + n * (d < 0) for d in ((v,) if hasattr(v, "__index__") else v)] for v, n in zip(dims, (rank, other)))
    if not len(left) == len(right) == len({d for d in left if 0 <= d < rank}) == len({d for d in right if 0 <= d < other}):
        return None
    if [a[d] for d in left] != [b[d] for d in right]:
        return None
    rows, columns = [d for d in range(rank) if d not in left], [d for d in range(other) if d not in right]
    shape = tuple([a[d] for d in rows] + [b[d] for d in columns])
    inner, count = math.prod([a[d] for d in left]), len(rows)
    return (_changes(a, rows + left, (math.prod(shape[:count]), inner)), _changes(b, right + columns, (inner, math.prod(shape[count:]))),
            shape, not shape and bool(left) and left == right == list(range(rank)))


@composed(samples=(case((2, 3), (3,)), case((2, 3), (4, 3)), case((), (3,))), kinds="fi", rtol=1e-4, numpy=np.inner)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sum of products over the last dimension of both; the plain product where one is 0-d.

    Raises: ShapeError where the last sizes differ.

    >>> volta.inner(volta.ones(3), volta.ones(3)).item()
    3.0
    """
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(f"inner: the last dimensions of {input.shape} and {other.shape} differ in size")
    if other.ndim == 2 and input.ndim == 2 and input.dtype is not bool_:
        return matmul_op(input, turned(other))
    return dot_op(input, other) if input.ndim == other.ndim == 1 else tensordot(input, other, ([-1], [-1]))
