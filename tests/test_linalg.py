"""Linear algebra beyond the samples: derivatives at symmetric matrices, read by one triangle, and what is refused."""
import itertools

import numpy as np
import pytest

import volta
from volta import linalg
from volta.errors import ArgumentError, LinAlgError
from volta.testing import gradcheck, gradgradcheck


def symmetric(x):
    """Symmetric, positive definite, with eigenvalues apart."""
    return (x + x.mT) * 0.1 + volta.tensor(np.diag(np.arange(x.shape[-1]) + 2.0))


AT_SYMMETRIC = {
    "cholesky": volta.cholesky, "upper": lambda a: volta.cholesky(a, upper=True), "eigenvalues": linalg.eigvalsh,
    "eigenvectors": lambda a: linalg.eigh(a).eigenvectors, "upper triangle": lambda a: linalg.eigh(a, "U").eigenvectors,
    "rank": lambda a: linalg.pinv(a, hermitian=True), "exponential": volta.matrix_exp, "condition": linalg.cond}


@pytest.mark.parametrize("name", AT_SYMMETRIC)
def test_derivatives_at_symmetric_matrices(name, rng):
    x = volta.tensor(rng.uniform(-1, 1, (2, 3, 3)), requires_grad=True)
    assert gradcheck(lambda x: AT_SYMMETRIC[name](symmetric(x)), (x,))
    assert gradgradcheck(lambda x: AT_SYMMETRIC[name](symmetric(x)), (x,))


def test_derivative_of_det_at_a_singular_matrix():
    x = volta.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=volta.float64, requires_grad=True)
    volta.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("scale", [3.0, 2.5, 0.03, 0.02])
def test_derivative_of_det_beyond_numbers(scale, rng):
    """Where the determinant overflows, or is 0 for being small, its derivative is what the formula gives."""
    x = scale * rng.standard_normal((40, 40))
    a = volta.tensor(x.astype(np.float32)).requires_grad_()
    volta.det(a).backward()
    with np.errstate(over="ignore"):
        expected = (np.linalg.det(x) * np.linalg.inv(x).T).astype(np.float32)
    expected[np.abs(expected) < 1e-37] = 0
    found = a.grad.numpy()
    np.testing.assert_allclose(np.where(np.abs(found) < 1e-37, 0, found), expected, rtol=2e-3, atol=2e-4 * np.abs(
        expected[np.isfinite(expected)]).max(initial=0))
    assert np.isinf(found).any() == (scale > 1) and not np.isnan(found).any()


def test_derivative_of_least_squares(rng):
    a, b = (volta.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((4, 2), (4, 3)))
    for driver in ("gels", "gelsd"):
        assert gradcheck(lambda a, b, d=driver: linalg.lstsq(a, b, driver=d)[:2], (a, b))


def test_what_fails_of_a_batch():
    """The others have their results; what raises names the first that has none."""
    a = volta.stack([volta.eye(2), volta.zeros(2, 2), volta.full((2, 2), float("nan"))])
    inverse, info = linalg.inv_ex(a)
    assert info.tolist() == [0, 1, 0] and info.dtype is volta.int32
    assert inverse[0].tolist() == [[1, 0], [0, 1]] and not inverse[1:].isfinite().any()
    result, info = linalg.solve_ex(a, volta.ones(3, 2, 1))
    assert info.tolist() == [0, 1, 0] and result[0].tolist() == [[1], [1]]
    factors, info = linalg.cholesky_ex(volta.stack([volta.eye(2), volta.tensor([[1.0, 2.0], [2.0, 1.0]])]))
    assert info.tolist() == [0, 2] and factors[0].tolist() == [[1, 0], [0, 1]]
    for call in (volta.inverse, lambda x: linalg.solve(x, volta.ones(3, 2, 1)), volta.cholesky):
        with pytest.raises(linalg.LinAlgError, match=r"\(batch element 1\)"):
            call(a)


@pytest.mark.parametrize("call", [volta.det, volta.inverse, volta.slogdet, volta.cholesky, linalg.eigh, volta.matrix_exp,
                                  lambda x: volta.matrix_power(x, 2), lambda x: linalg.solve(x, x)])
def test_only_square_matrices(call):
    for shape in ((2, 3), (3,), ()):
        with pytest.raises(volta.errors.ShapeError, match="matrices"):
            call(volta.ones(shape))


def test_more_that_is_refused():
    a = volta.eye(2)
    for call, text in ((lambda: linalg.qr(a, "full"), "mode"), (lambda: linalg.svd(a, driver="gesvd"), "driver"),
                       (lambda: linalg.eigh(a, "X"), "UPLO"), (lambda: linalg.cond(a, 3), "p must be"),
                       (lambda: linalg.lstsq(a, a, driver="x"), "driver"), (lambda: linalg.solve(a, volta.ones(3)), "rows"),
                       (lambda: linalg.svd(a * float("nan")), "finite")):
        with pytest.raises((volta.errors.ArgumentError, volta.errors.ShapeError, linalg.LinAlgError), match=text):
            call()
    x = volta.ones(3, 2).requires_grad_()
    with pytest.raises(volta.errors.AutogradError, match="complete"):
        linalg.qr(x, "complete").Q.sum().backward()


# ---------------------------------------------------------------- reflections and low rank
def test_geqrf_packs_what_orgqr_and_ormqr_take():
    for shape in ((4, 3), (2, 3, 3), (2, 5, 2)):
        A = volta.randn(*shape)
        packed, tau = volta.geqrf(A)
        R = packed.triu()[..., :shape[-1], :]
        volta.testing.assert_close(volta.orgqr(packed, tau) @ R, A, 1e-4, 1e-5)
        whole = volta.cat([R, volta.zeros(*shape[:-2], shape[-2] - shape[-1], shape[-1])], -2)
        volta.testing.assert_close(volta.ormqr(packed, tau, whole), A, 1e-4, 1e-5)
    assert all(x.requires_grad for x in volta.geqrf(A.requires_grad_()))
    with pytest.raises(volta.errors.AutogradError, match="geqrf: has no derivative"):
        volta.geqrf(A)[1].sum().backward()


def test_low_rank():
    for shape in ((20, 9), (3, 9, 20)):
        A = volta.randn(*shape[:-1], 3) @ volta.randn(*shape[:-2], 3, shape[-1])
        U, S, V = volta.svd_lowrank(A, q=4)
        assert U.shape == (*shape[:-1], 4) and S.shape == (*shape[:-2], 4) and V.shape == (*shape[:-2], shape[-1], 4)
        volta.testing.assert_close(U @ volta.diag_embed(S) @ V.mT, A, 1e-3, 1e-4)
        volta.testing.assert_close(S[..., :3], volta.linalg.svdvals(A)[..., :3], 1e-4, 1e-4)
        centred = volta.linalg.svdvals(A - A.mean(-2, keepdim=True))
        volta.testing.assert_close(volta.pca_lowrank(A, q=4)[1][..., :3], centred[..., :3], 1e-4, 1e-4)
        volta.testing.assert_close(volta.svd_lowrank(A, q=2, M=A)[1], volta.zeros(*shape[:-2], 2), 1e-4, 1e-4)
    with pytest.raises(volta.errors.ArgumentError, match="pca_lowrank: q must be between 0 and 9"):
        volta.pca_lowrank(A, q=10)


def test_what_elimination_refuses():
    A = volta.eye(3)
    with pytest.raises(volta.errors.LinAlgError, match=r"linalg.lu_factor: \(batch element 1\) U has 0 as pivot 2"):
        volta.linalg.lu_factor(volta.stack([A, volta.diag(volta.tensor([1.0, 0.0, 1.0]))]))
    for call in (volta.linalg.lu_factor, volta.linalg.lu, volta.lu, volta.linalg.lu_factor_ex):
        with pytest.raises(volta.errors.ArgumentError, match="pivot=False, is not there on the CPU"):
            call(A, pivot=False)
    for pivots, error in ((volta.tensor([1, 2, 9], dtype=volta.int32), volta.errors.ArgumentError),
                          (volta.tensor([0, 2, 3], dtype=volta.int32), volta.errors.ArgumentError),
                          (volta.tensor([1, 2, 3]), volta.errors.DTypeError)):
        for call in (lambda p: volta.lu_unpack(A, p), lambda p: volta.linalg.lu_solve(A, p, A)):
            with pytest.raises(error, match="pivots must be"):
                call(pivots)


def test_symmetric_factors_solve():
    """With blocks of 2, exchanges and batches that broadcast."""
    for shape in ((1, 1), (2, 2), (7, 7), (3, 12, 12), (40, 40)):
        A = volta.randn(*shape, dtype=volta.float64)
        A = A + A.mT - 2 * volta.diag_embed(A.diagonal(dim1=-2, dim2=-1)) * (shape[-1] % 2 == 0)      # zeros on some diagonals
        X = volta.randn(shape[-1], 2, dtype=volta.float64)
        LD, pivots = volta.linalg.ldl_factor(A)
        volta.testing.assert_close(volta.linalg.ldl_solve(LD, pivots, A @ X), X.expand(*shape[:-2], -1, -1), 1e-7, 1e-7)
    assert (pivots < 0).any().item()
    with pytest.raises(volta.errors.LinAlgError, match="linalg.ldl_factor: D has 0 as block 1"):
        volta.linalg.ldl_factor(volta.zeros(2, 2))
    with pytest.raises(volta.errors.AutogradError, match="linalg.ldl_factor: has no derivative"):
        volta.linalg.ldl_factor(A.requires_grad_()).LD.sum().backward()
    with pytest.raises(volta.errors.AutogradError, match="linalg.ldl_solve: has no derivative"):
        volta.linalg.ldl_solve(LD, pivots, X.requires_grad_()).sum().backward()
    with pytest.raises(volta.errors.ArgumentError, match="pivots must be between 1 and the 40 rows"):
        volta.linalg.ldl_solve(LD, pivots * 0, X)


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_elements_have_no_singular_values(value):
    """They end, and give NaN as in PyTorch; the other matrices of a batch have theirs."""
    a = volta.eye(3).expand(2, 3, 3).clone()
    a[0, 1, 0] = value
    for values in (volta.linalg.svdvals(a), volta.linalg.eigvalsh(a)):
        assert volta.isnan(values[0]).all() and values[1].tolist() == [1, 1, 1]
    assert volta.isnan(volta.linalg.pinv(a)[0]).all() and volta.linalg.matrix_rank(a).tolist() == [0, 3]
    with pytest.raises(volta.errors.LinAlgError, match="NaN"):
        volta.linalg.svdvals(a * 0)
    assert volta.linalg.eigvalsh(volta.tensor([[2.0, value], [0.0, 1.0]])).tolist() == [1, 2]


@pytest.mark.parametrize("upper", [False, True])
def test_derivatives_of_cholesky_solve(upper, rng):
    """Of a triangle, as the function's; in the other one as in PyTorch, whose formula takes all of the factor for read."""
    keep = volta.triu if upper else volta.tril
    a, b = (volta.from_numpy(rng.standard_normal(s) + 3 * np.eye(3, s[-1])).requires_grad_() for s in ((2, 3, 3), (2, 3, 2)))
    assert gradcheck(lambda b, a: volta.cholesky_solve(b, keep(a), upper), (b, a))
    assert gradgradcheck(lambda b, a: volta.cholesky_solve(b, keep(a), upper), (b, a))
    assert gradcheck(lambda a: volta.cholesky_inverse(keep(a), upper), (a,))


@pytest.mark.parametrize("upper", [False, True])
def test_derivatives_of_cholesky_solve_against_torch(upper, rng):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    factor, b, g = np.tril(rng.standard_normal((3, 3))) + 3 * np.eye(3), rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    found = []
    for lib in (torch, volta):
        a, x = (lib.from_numpy(v.copy()).requires_grad_() for v in (factor.T if upper else factor, b))
        first = lib.autograd.grad(lib.cholesky_solve(x, a, upper=upper), (x, a), lib.from_numpy(g), create_graph=True)
        found.append([*first, *lib.autograd.grad((first[1] ** 2).sum(), (x, a))])
    for theirs, ours in zip(*found):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_derivative_of_pinv_of_what_is_not_symmetric(rng):
    """As PyTorch's, whose formula takes the matrix as it is, of which the lower triangle is read."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = rng.standard_normal((3, 3))
    a, b = (lib.from_numpy(values.copy()).requires_grad_() for lib in (torch, volta))
    theirs, ours = (lib.autograd.grad(lib.linalg.pinv(x, hermitian=True).sin().sum(), x)[0] for lib, x in ((torch, a), (volta, b)))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9)


def test_values_without_vectors_are_those_with_them(rng):
    x = volta.tensor(rng.uniform(-1, 1, (2, 5, 3)))
    known, whole = x.detach().requires_grad_(), symmetric(x[:, :3])
    assert volta.allclose(linalg.svdvals(x), linalg.svdvals(known).detach())
    for triangle in "LU":
        assert volta.allclose(linalg.eigvalsh(whole, triangle), linalg.eigh(whole, triangle).eigenvalues)
    assert linalg.svdvals(volta.full((2, 2), float("inf"))).isnan().all()


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 5, 2)])
def test_least_squares_of_full_and_of_lower_rank(shape, rng):
    a, b = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, (*shape[:-1], 2))
    low = a.copy()
    low[..., -1, :] = low[..., 0, :]
    low[..., -1] = low[..., 0]
    for matrix in a, low:
        found = linalg.lstsq(volta.tensor(matrix), volta.tensor(b))
        np.testing.assert_allclose(found.solution.numpy(), np.linalg.pinv(matrix) @ b, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(found.rank.numpy(), np.linalg.matrix_rank(matrix))


@pytest.mark.parametrize("matrices, sides", [((2, 3, 3), (2, 3, 0)), ((0, 0), (0, 4)), ((0, 3, 3), (0, 3, 2)), ((2, 0, 0), (2, 0, 3))])
@pytest.mark.parametrize("adjoint", [False, True])
def test_factors_solve_for_nothing(matrices, sides, adjoint):
    lu, b = volta.ones(*matrices, requires_grad=True), volta.zeros(*sides, requires_grad=True)
    found = volta.linalg.lu_solve(lu, volta.ones(*matrices[:-1], dtype=volta.int32), b, adjoint=adjoint)
    found.sum().backward()
    assert (found.shape, b.grad.shape, lu.grad.tolist()) == (sides, sides, volta.zeros(*matrices).tolist())


@pytest.mark.parametrize("n", [1, 3, 13, 33])
@pytest.mark.parametrize("batches", [((), (4,)), ((1,), (4,)), ((1, 1), (4,)), ((1,), (2, 3)), ((2, 1), (2, 3)), ((3,), (2, 3)),
                                     ((4,), ())])
@pytest.mark.parametrize("left", [True, False])
def test_one_matrix_for_many_right_sides(n, batches, left):
    """Results, strides and derivatives as in PyTorch; that of the factors, too."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    rng = np.random.default_rng(n)
    A = rng.standard_normal((*batches[0], n, n)) + np.eye(n) * n
    B = rng.standard_normal((*batches[1], *((n, 3) if left else (3, n))))
    found = []
    for T in (volta, torch):
        a, b = T.tensor(A, requires_grad=True), T.tensor(B, requires_grad=True)
        x = T.linalg.solve(a, b, left=left)
        factors, pivots = T.linalg.lu_factor(a.detach())
        results = [x, *T.autograd.grad((x * x).sum(), [a, b])]
        for adjoint in (False, True):
            y = T.linalg.lu_solve(factors.requires_grad_(), pivots, b, left=left, adjoint=adjoint)
            results += [y, *T.autograd.grad((y * y * y).sum(), [factors, b])]
        assert T.linalg.solve_ex(a, b, left=left).info.shape == batches[0]
        found.append([(r.detach().numpy(), r.stride()) for r in results])
    for i, ((ours, strides), (theirs, others)) in enumerate(zip(*found)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9, err_msg=str(i))
        assert i % 3 or strides == others, (i, strides, others)


def test_no_slow_way_for_many_right_sides(monkeypatch):
    """By one matrix they are solved in the kernel, and one that is singular is told of."""
    a, b = volta.tensor([[2.0, 1.0], [1.0, 3.0]]), volta.ones(5, 2, 1)
    with monkeypatch.context() as patch:
        patch.setattr(np.linalg, "solve", None)
        np.testing.assert_allclose(linalg.solve(a, b).numpy(), np.full((5, 2, 1), [[0.4], [0.2]]), rtol=1e-6)
        np.testing.assert_allclose(linalg.lu_solve(*linalg.lu_factor(a), b).numpy(), np.full((5, 2, 1), [[0.4], [0.2]]), rtol=1e-6)
    with pytest.raises(LinAlgError, match="linalg.solve: the matrix is singular"):
        linalg.solve(volta.ones(2, 2), b)
    with pytest.raises(ArgumentError, match="linalg.lu_solve: pivots must be between 1 and the 2 rows"):
        linalg.lu_solve(a, volta.tensor([3, 2], dtype=volta.int32), b)


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (70, 70), (20, 7, 7), (3, 33, 33), (0, 3, 3)])
def test_upper_factors(shape):
    """Of the upper triangle alone; they lie as in PyTorch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    a = np.random.default_rng(0).standard_normal(shape)
    a = np.triu(a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])) + np.tril(np.full(shape, 7.0), -1)
    found = []
    for T in (volta, torch):
        x = T.tensor(a, requires_grad=True)
        out = T.linalg.cholesky(x, upper=True)
        found.append((out, *T.autograd.grad((out * out.exp()).sum(), x)))
    assert found[0][0].stride() == found[1][0].stride()
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("error")
def test_factors_that_are_given_under_transforms():
    """Second derivatives and batches of `lu_solve`, none sample by sample."""
    rng = np.random.default_rng(0)
    a, b = volta.tensor(rng.standard_normal((2, 4, 4)) + 4 * np.eye(4)), volta.tensor(rng.standard_normal((4, 2)))
    factors, pivots = linalg.lu_factor(a)
    for adjoint in (False, True):
        def solved(lu, p, x, adjoint=adjoint):
            return linalg.lu_solve(lu, p, x, adjoint=adjoint)
        batch = volta.func.vmap(solved, (0, 0, None))(factors, pivots, b)
        np.testing.assert_allclose(batch.numpy(), np.linalg.solve(a.mT.numpy() if adjoint else a.numpy(), b.numpy()), rtol=1e-10)
        assert gradgradcheck(lambda lu, x: solved(lu, pivots, x), (factors.clone().requires_grad_(), b.clone().requires_grad_()))
        hessian = volta.func.hessian(lambda x: solved(factors[0], pivots[0], x).pow(3).sum())(b)
        found = volta.func.vmap(lambda x: volta.func.grad(lambda y: solved(factors[0], pivots[0], y).pow(3).sum())(x))(
            volta.stack([b + 1e-6, b - 1e-6]))
        np.testing.assert_allclose(hessian.sum((2, 3)).numpy(), ((found[0] - found[1]) / 2e-6).numpy(), rtol=1e-5)


@pytest.mark.parametrize("n", [13, 16, 17, 33, 70])
@pytest.mark.parametrize("sides", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_right_sides_by_triangles_and_factors(n, sides, dtype, rng):
    """Each by itself, where matrices lie by rows and by columns, above and below, from the left and the right."""
    batches, exact = ((), (3,), (40,)), 2e-5 if dtype == "float32" else 1e-12
    for batch, by_columns, upper, unit in itertools.product(batches, (False, True), (False, True), (False, True)):
        a = volta.tensor(rng.uniform(-1, 1, (*batch, n, n)) / n + np.eye(n) * 2, dtype=dtype)
        a = a.mT.contiguous().mT if by_columns else a
        b = volta.tensor(rng.standard_normal((*batch, n, sides)), dtype=dtype)
        part = np.triu(a.double().numpy()) if upper else np.tril(a.double().numpy())
        if unit:
            part = part * (1 - np.eye(n)) + np.eye(n)
        want = np.linalg.solve(part, b.double().numpy())
        found = linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
        np.testing.assert_allclose(found.numpy(), want, rtol=exact, atol=exact)
        found = linalg.solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unit, left=False)
        np.testing.assert_allclose(found.numpy(), want.swapaxes(-1, -2), rtol=exact, atol=exact)
    for batch, by_columns, adjoint in itertools.product(batches, (False, True), (False, True)):
        a = volta.tensor(rng.uniform(-1, 1, (*batch, n, n)) + np.eye(n)[::-1] * 4, dtype=dtype)     # every row is exchanged
        b = volta.tensor(rng.standard_normal((*batch, n, sides)), dtype=dtype)
        lu, pivots = linalg.lu_factor(a)
        lu = lu if by_columns else lu.contiguous()
        found = linalg.lu_solve(lu, pivots, b, adjoint=adjoint)
        want = np.linalg.solve(a.double().numpy().swapaxes(-1, -2) if adjoint else a.double().numpy(), b.double().numpy())
        np.testing.assert_allclose(found.numpy(), want, rtol=200 * exact, atol=20 * exact)
