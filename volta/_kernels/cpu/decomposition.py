"""Matrices inverted and decomposed: our own kernels (lu.pyx, qr.pyx, eigen.pyx, singular.pyx) are asked first, and LAPACK, as NumPy carries
it, where they give way: its functions on views of the tensors' memory.

Sizes are checked above. A matrix of which there is no such result gives NaN and an `info` that is not 0, as LAPACK's; an iteration that
does not converge, or would not, as of NaN, raises.
"""
import numpy as np

from volta._kernels import core
from volta._kernels.cpu import eigen, exponential, singular
from volta._kernels.cpu import lu as fast
from volta._kernels.cpu import qr as reflected
from volta._kernels.cpu.elimination import factors, inverted, signs, solution
from volta._kernels.cpu.linalg import KERNELS as PRODUCTS
from volta.dtypes import from_numpy_dtype, to_numpy
from volta.errors import LinAlgError


def _array(x):
    """A view of a tensor's memory."""
    if x is None:
        return None
    dtype = to_numpy(x.dtype)
    if not x._size:                         # its strides and offset may lead outside the storage
        return np.empty(x.shape, dtype)
    return np.ndarray(x.shape, dtype, x.storage, x.offset * dtype.itemsize, tuple(s * dtype.itemsize for s in x._strides))


def _tensor(array, by_columns=False):
    shape = np.shape(array)
    array = np.ascontiguousarray(array.swapaxes(-1, -2) if by_columns else array)
    if array.shape != shape:                    # one of 0 dimensions has 0 again
        array = array.reshape(shape)
    storage = core.borrowed_storage(array, array.__array_interface__["data"][0], array.nbytes)
    strides = None
    if by_columns:
        strides = core.strides_of((*shape[:-2], shape[-1], shape[-2]))
        strides = (*strides[:-2], 1, strides[-2])
    return core.tensor(storage, shape, strides, 0, from_numpy_dtype(array.dtype))


def kernel(function, by_columns=()):
    """A kernel of tensors from a function of arrays. The results at these places lie in memory column by column, as LAPACK gives them and
    PyTorch leaves them."""
    def kernel(*inputs, **params):
        try:
            with np.errstate(all="ignore"):
                result = function(*map(_array, inputs), **params)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"{function.__name__.strip('_')}: the algorithm failed ({error}); are all elements finite?") from None
        if isinstance(result, tuple):
            return tuple([_tensor(array, i in by_columns) for i, array in enumerate(result)])
        return _tensor(result, bool(by_columns))
    return kernel


def eased(quick, slow):
    """A kernel that asks `quick` first, which gives None where it does not do."""
    def kernel(*inputs, **params):
        found = quick(*inputs, **params)
        return slow(*inputs, **params) if found is None else found
    return kernel


# ---------------------------------------------------------------- by elimination
def _each(a):
    """A batch as an array of matrices."""
    return np.ascontiguousarray(a).reshape(-1, *a.shape[-2:])


def _packed(a):
    """The factors and exchanges of matrices that may be singular or not finite."""
    both, pivots, _ = factors(_each(a)) if a.size else (a, np.zeros(a.shape[:-1], np.int32), None)
    return both.reshape(a.shape), pivots.reshape(a.shape[:-1])


def _solved(a, b, turn):
    return *_solve(a, b, turn), *_packed(a)


def _solve_again(a, b, lu, pivots, turn):
    return _solve(a, b, turn)[0]


def _solve(a, b, turn=False):
    """The solutions of A X = b, or of A' X = b with `turn`, and per matrix the first pivot of A that is 0, or 0."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    try:
        out = np.linalg.solve(np.swapaxes(a, -1, -2) if turn else a, b)
        if np.isfinite(out).all() and np.isfinite(a).all():
            return out, np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass
    a, b, shape = _each(np.broadcast_to(a, lead + a.shape[-2:])), _each(np.broadcast_to(b, lead + b.shape[-2:])), a.shape[:-2]
    found = factors(a)
    out = solution(found, b, turn)
    whole = (found[2] == 0) & np.isfinite(a).all((1, 2)) & np.isfinite(b).all((1, 2))
    if whole.any():                             # those of a batch that have a solution are not changed by the others
        out[whole] = np.linalg.solve(np.swapaxes(a[whole], 1, 2) if turn else a[whole], b[whole])
    info = found[2].reshape(lead)
    return out.reshape(lead + out.shape[-2:]), info if shape == lead else _first_of(info, shape)


def _first_of(info, shape):
    """Of what was broadcast, as it was before."""
    info = info[(0,) * (info.ndim - len(shape))]
    return info[tuple([slice(0, n) for n in shape])].copy()


def _inv(a):
    return _solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


def _unusual(a):
    """Which matrices of a batch are not finite, and the factors of these (of their transposes, as in `_solve`), or None."""
    wrong = ~np.isfinite(a).all((-2, -1))
    if not wrong.any():
        return wrong, None
    return wrong, factors(np.swapaxes(a[wrong], 1, 2) if a.flags.c_contiguous else a[wrong])


def _slogdet(a):
    sign, size = np.linalg.slogdet(a)
    wrong, found = _unusual(a)
    if found is not None:
        sign, size = np.array(sign), np.array(size)
        parity, pivots = signs(found)
        sign[wrong] = parity * ((pivots > 0) * 1 - (pivots < 0)).prod(-1)
        size[wrong] = np.log(np.abs(pivots)).sum(-1)
    return size, sign, *_packed(np.swapaxes(a, -1, -2) if a.flags.c_contiguous else a)


def _det(a):
    out = np.linalg.det(a)
    wrong, found = _unusual(a)
    if found is not None:
        out = np.array(out)
        parity, pivots = signs(found)
        out[wrong] = parity * pivots.prod(-1)
    return out, *_packed(np.swapaxes(a, -1, -2))


def _cofactor(a, *_):
    """The derivative of det, from products of singular values: of a singular matrix too. Of one that is not finite, det(A) A'^-1."""
    (wrong, found), turned = _unusual(a), not a.flags.c_contiguous
    if found is not None:
        a = np.where(wrong[..., None, None], np.eye(a.shape[-1], dtype=a.dtype), a)
    if a.shape[-1] == 1:
        return np.ones_like(a)
    u, s, vh = np.linalg.svd(a)
    others = np.where(np.eye(a.shape[-1], dtype=bool), 1, s[..., None, :]).prod(-1)
    out = u * (others * (np.linalg.det(u) * np.linalg.det(vh))[..., None])[..., None, :] @ vh
    if found is not None:
        parity, pivots = signs(found)
        both, n = found[0], a.shape[-1]
        diagonal = np.einsum("...ii->...i", both)
        diagonal[diagonal == 0] = np.finfo(a.dtype).eps
        right = np.where(np.eye(n, dtype=bool), (parity * pivots.prod(-1))[:, None, None], np.array(0, a.dtype))
        out[wrong] = solution(found, right, turned)
    return out


# ---------------------------------------------------------------- what may fail, or has infinite elements
def _finite(function):
    """NaN for matrices with infinite elements, of which some of LAPACK's iterations never end. As in PyTorch an error for NaN, and for
    matrices of rank 3 and more that are infinite throughout."""
    def checked(a, *others, read=lambda a: a):
        if np.isfinite(a).all():                # most are
            return tuple(function(a, *others))
        whole = read(a)
        if np.isnan(whole).any():
            raise np.linalg.LinAlgError("an element is NaN")
        wrong = np.isinf(whole).any((-2, -1))
        if not wrong.any():
            return tuple(function(a, *others))
        if min(a.shape[-2:]) > 2 and (np.isinf(whole) | (whole == 0)).all((-2, -1))[wrong].any():
            raise np.linalg.LinAlgError("a matrix is infinite")
        found = function(np.where(wrong[..., None, None], np.array(0, a.dtype), a), *others)
        return tuple([np.where(wrong.reshape(wrong.shape + (1,) * (v.ndim - wrong.ndim)), np.array(np.nan, v.dtype), v) for v in found])
    return checked


_singular, _proper = _finite(np.linalg.svd), _finite(np.linalg.eigh)
_singular_values, _proper_values = (_finite(lambda *a, of=of: (of(*a),)) for of in (
    lambda a: np.linalg.svd(a, compute_uv=False), np.linalg.eigvalsh))


def _columns(a):
    """The Cholesky factor column by column, and the first whose pivot is not positive, from 1, or 0. As LAPACK's potf2 leaves them, that
    pivot stays, and what follows is the matrix."""
    out = np.tril(a)
    for i in range(len(a)):
        pivot = out[i, i] - out[i, :i] @ out[i, :i]
        out[i, i] = np.sqrt(pivot) if pivot > 0 else pivot
        if not pivot > 0:
            return out, i + 1
        out[i + 1:, i] = (out[i + 1:, i] - out[i + 1:, :i] @ out[i, :i]) / out[i, i]
        if pivot == np.inf and a.dtype == np.float32:
            out[i + 1:, i] = np.nan
    return out, 0


def _cholesky(a, upper):
    if upper:
        out, info = _cholesky(np.swapaxes(a, -1, -2), False)
        return np.swapaxes(out, -1, -2), info
    info = np.zeros(a.shape[:-2], np.int32)
    try:
        out = np.linalg.cholesky(a)             # which may take NaN for definite
        if np.isfinite(out).all():
            return out, info
    except np.linalg.LinAlgError:
        pass
    out = np.empty_like(a)
    for i in np.ndindex(info.shape):
        out[i], info[i] = _columns(a[i])
    return out, info


# ---------------------------------------------------------------- what always has a result
def _svd(a, full_matrices, vectors=True):
    """Values alone, beside vectors of none, take a third of the time."""
    return _singular(a, full_matrices) if vectors else (a[..., :0], *_singular_values(a), a[..., :0, :])


def _qr(a, mode):
    return (a[..., :0], np.linalg.qr(a, "r")) if mode == "r" else tuple(np.linalg.qr(a, mode))


def _eigh(a, uplo, vectors=True):
    read = np.tril if uplo == "L" else np.triu
    return _proper(a, uplo, read=read) if vectors else (*_proper_values(a, uplo, read=read), a[..., :0])


def _pinv(a, atol, rtol, hermitian):
    if hermitian:                           # of which the lower triangle is read
        a = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
    u, s, vh = _singular(a, False)
    kept = s > np.maximum(atol, rtol * s.max(-1, keepdims=True, initial=0))
    return np.swapaxes(vh, -1, -2) @ (np.divide(1, s, out=np.zeros_like(s), where=kept)[..., None] * np.swapaxes(u, -1, -2))


def _cholesky_solve(b, a, upper):
    first, last = (np.swapaxes(a, -1, -2), a) if upper else (a, np.swapaxes(a, -1, -2))
    return triangular(last, triangular(first, b, False, False), True, False)


def _cholesky_inverse(a, upper):
    """(L L')^-1, and per matrix the first element of the diagonal that is 0, from 1, or 0."""
    a = np.swapaxes(a, -1, -2) if upper else a
    zero = np.einsum("...ii->...i", a) == 0
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32) if a.shape[-1] else np.zeros(a.shape[:-2], np.int32)
    inverse = triangular(a, np.eye(a.shape[-1], dtype=a.dtype), False, False)
    if np.isfinite(inverse).all():
        return np.swapaxes(inverse, -1, -2) @ inverse, info
    inverse, out = inverted(_each(a)), np.zeros_like(_each(a))
    for i in range(a.shape[-1]):                # products of what is inside the triangle alone
        out[:, i, :i + 1] = (inverse[:, i:, i, None] * inverse[:, i:, :i + 1]).sum(1)
    return (out + np.swapaxes(np.tril(out, -1), 1, 2)).reshape(a.shape), info


def _small_triangular(a, b, upper, unitriangular):
    """An upper triangle is its own LU decomposition, so that LAPACK only substitutes. None where it would refuse, exchange rows, or
    multiply what is not finite by the zeros of L."""
    a = np.triu(a if upper else a[..., ::-1, ::-1], int(unitriangular))
    diagonal = np.einsum("...ii->...i", a)
    if unitriangular:
        diagonal[...] = 1
    if not (diagonal.all() and np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    b = b if upper else b[..., ::-1, :]
    x = np.linalg.solve(a, np.broadcast_to(b, a.shape[:-2] + b.shape[-2:]) if b.ndim < a.ndim else b)
    return x if upper else x[..., ::-1, :]


def triangular(a, b, upper, unitriangular):
    """Substitution by halves: products of blocks do the work."""
    n = a.shape[-1]
    if 1 < n <= 32 and (small := _small_triangular(a, b, upper, unitriangular)) is not None:
        return small
    if n == 1 and not unitriangular:
        return b / a
    if n < 2:
        return np.broadcast_to(b + 0, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:])
    low, high = slice(0, n // 2), slice(n // 2, n)
    first, last = (high, low) if upper else (low, high)
    x = triangular(a[..., first, first], b[..., first, :], upper, unitriangular)
    y = triangular(a[..., last, last], b[..., last, :] - a[..., last, first] @ x, upper, unitriangular)
    return np.concatenate((y, x) if upper else (x, y), -2)


def _triangular(a, b, upper, unitriangular, left):
    if left:
        return triangular(a, b, upper, unitriangular)
    return np.swapaxes(triangular(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not upper, unitriangular), -1, -2)


_BY_COLUMNS = {_inv: (0,), _solved: (0,), _cholesky: (0,), _svd: (0, 2), _qr: (0, 1), _eigh: (1,), _triangular: (0,), _cholesky_solve: (0,),
               _cholesky_inverse: (0,), _cofactor: (0,), _solve_again: (0,)}
_SLOW = {function.__name__.strip("_"): kernel(function, _BY_COLUMNS.get(function, ())) for function in (
    _inv, _cholesky, _svd, _qr, _eigh, _slogdet, _cofactor, _pinv, _triangular, _cholesky_solve, _cholesky_inverse, _det, _solve_again)}


def _quick_cholesky_solve(b, a, upper):
    """By substitution twice, or None."""
    turned = core.view(a, (*a.shape[:-2], *a.shape[:-3:-1]), (*a._strides[:-2], *a._strides[:-3:-1]), a.offset)
    first, last = (turned, a) if upper else (a, turned)
    found = fast.triangular(first, b, False, False, True)
    return None if found is None else fast.triangular(last, found, True, False, True)


def _quick_pinv(a, atol, rtol, hermitian):
    """By our own singular values, or eigenvalues of what is `hermitian`, or None."""
    if hermitian:
        return _quick_symmetric_pinv(a, atol, rtol)
    found = singular.svd(a, False)
    if found is None:
        return None
    u, s, vh = found
    values = _array(s)
    kept = values > np.maximum(atol, rtol * values.max(-1, keepdims=True))
    scaled = _tensor(np.swapaxes(_array(vh), -1, -2) * np.divide(1, values, out=np.zeros_like(values), where=kept)[..., None, :])
    return PRODUCTS["matmul"](scaled, core.view(u, (*u.shape[:-2], *u.shape[:-3:-1]), (*u._strides[:-2], *u._strides[:-3:-1]), u.offset))


def _quick_symmetric_pinv(a, atol, rtol):
    found = eigen.eigh(a, "L")
    if found is None:
        return None
    values, vectors = found
    w = _array(values)
    sizes = np.abs(w)
    kept = sizes > np.maximum(atol, rtol * sizes.max(-1, keepdims=True))
    scaled = _tensor(_array(vectors) * np.divide(1, w, out=np.zeros_like(w), where=kept)[..., None, :], True)
    return PRODUCTS["matmul"](scaled, core.view(vectors, (*vectors.shape[:-2], *vectors.shape[:-3:-1]),
                                                (*vectors._strides[:-2], *vectors._strides[:-3:-1]), vectors.offset))


_QUICK = {"inv": fast.inv, "det": fast.det, "slogdet": fast.slogdet, "solve": fast.solve, "triangular": fast.triangular,
          "cofactor": fast.cofactor, "qr": reflected.qr, "eigh": eigen.eigh, "svd": singular.svd,
          "cholesky": fast.cholesky,
          "cholesky_inverse": fast.cholesky_inverse, "pinv": _quick_pinv, "cholesky_solve": _quick_cholesky_solve,
          "solve_again": lambda a, b, lu, pivots, turn: fast.solve_again(lu, pivots, b, turn)}
_SLOW["solve"] = kernel(_solved, (0,))
KERNELS = {**_SLOW, **{name: eased(quick, _SLOW[name]) for name, quick in _QUICK.items()},
           "matrix_exp": exponential.matrix_exp, "matrix_exp_grad": exponential.matrix_exp_grad}
