"""Matrices factored, solved and reflected, of all layouts, beside PyTorch."""
import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 12, 13])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_matrices_of_a_batch(n, dtype, rng):
    """Those up to 12 x 12 are factored and solved 16 at a time: of any layout, with some left over; what is no triangle, too, has the
    gradients of PyTorch."""
    tolerance = 2e-3 if dtype == "float32" else 1e-8
    ops = [lambda m, a, b: m.linalg.lu_factor_ex(a), lambda m, a, b: m.det(a), lambda m, a, b: m.slogdet(a).logabsdet,
           lambda m, a, b: m.linalg.inv(a), lambda m, a, b: m.linalg.solve(a, b), lambda m, a, b: m.linalg.solve(a.mT, b),
           lambda m, a, b: m.linalg.solve(a, b.mT, left=False), lambda m, a, b: m.linalg.solve_triangular(a, b, upper=False),
           lambda m, a, b: m.linalg.solve_triangular(a / n, b, upper=True, unitriangular=True), lambda m, a, b: m.cholesky_inverse(a),
           lambda m, a, b: m.cholesky_inverse(a, upper=True), lambda m, a, b: m.cholesky_solve(b, a),
           lambda m, a, b: m.linalg.cholesky(a @ a.mT), lambda m, a, b: m.linalg.lu_solve(*m.linalg.lu_factor(a), b)]
    for count in (6, 37):
        matrices, right = rng.standard_normal((count, n, n)) + 2 * n ** 0.5 * np.eye(n), rng.standard_normal((count, n, 3))
        for whole, layout in ((np.repeat(matrices, 2, -1), lambda x: x[..., ::2]), (matrices, lambda x: x.mT), (matrices, lambda x: x)):
            for op in ops:
                found = []
                for m in (torch, volta):
                    a, b = (m.from_numpy(x.astype(dtype)).requires_grad_() for x in (whole, right))
                    out = op(m, layout(a), b)
                    out = out if isinstance(out, tuple) else (out,)
                    out[0].sum().backward()
                    found.append([x.detach().numpy() for x in (*out, a.grad, *([] if b.grad is None else [b.grad]))])
                for theirs, ours in zip(*found, strict=True):
                    np.testing.assert_allclose(ours, theirs, atol=tolerance * max(1, abs(theirs).max()))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 20, 20), (2, 60, 7), (2, 83, 7), (3, 5)])
@pytest.mark.parametrize("driver", ["gelsy", "gels"])
def test_least_squares(shape, driver, rng):
    """Also as the memory lies, and where an empty `out` is filled."""
    a, b = rng.standard_normal(shape), rng.standard_normal((*shape[:-1], 3))
    found = []
    for m in (torch, volta):
        x, y = m.from_numpy(a.copy()), m.from_numpy(b.copy())
        out = m.linalg.lstsq(x, y, driver=driver)
        again = m.linalg.lstsq(x, y, driver=driver, out=tuple(m.empty(0, dtype=t.dtype) for t in out))
        assert again[0].stride() == out[0].stride()
        found.append((out[0].numpy(), out[0].stride(), out[1].numpy(), out[2].tolist(), again[0].numpy()))
    theirs, ours = found
    assert ours[1] == theirs[1] and ours[3] == theirs[3]
    for i in (0, 2, 4):
        np.testing.assert_allclose(ours[i], theirs[i], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("shape", [(6, 4, 4), (6, 30, 7)])
def test_least_squares_of_a_matrix_without_full_rank_among_others(shape, rng):
    a, b = rng.standard_normal(shape), rng.standard_normal((*shape[:-1], 3))
    a[1, :, 0] = a[1, :, 1]
    whole = volta.linalg.lstsq(volta.from_numpy(a), volta.from_numpy(b))
    for i in range(len(a)):                         # by singular values: gelsy gives a rank of 1 there
        theirs = torch.linalg.lstsq(torch.from_numpy(a[i]), torch.from_numpy(b[i]), driver="gelsd")
        assert whole.rank[i].item() == theirs.rank.item()
        np.testing.assert_allclose(whole.solution[i].numpy(), theirs.solution.numpy(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf"), 3.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_few_and_of_many_rows(p, dtype, rng):
    for n, m in ((2, 3), (8, 1), (40, 10), (130, 40)):
        x, y = rng.standard_normal((n, m)).astype(dtype), rng.standard_normal((2, n + 3, m)).astype(dtype)
        x[n - 1, 0] = np.nan if n == 40 else 0
        for f in (lambda k, a, b: k.pdist(a, p), lambda k, a, b: k.cdist(a, b, p)):
            theirs, ours = (f(k, k.from_numpy(x), k.from_numpy(y)).numpy() for k in (torch, volta))
            np.testing.assert_allclose(ours, theirs, rtol=1e-3 if dtype == "float32" else 1e-9, atol=1e-3 if dtype == "float32" else 1e-7)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 77, 9), (100, 70)])
def test_products_of_reflections(shape, rng):
    a, c = rng.standard_normal(shape), rng.standard_normal((*shape[:-1], 6))
    packed, tau = (x.numpy() for x in torch.geqrf(torch.from_numpy(a)))
    for f in (lambda k, h, t, c: k.orgqr(h, t), lambda k, h, t, c: k.orgqr(h, t[..., :2]), lambda k, h, t, c: k.ormqr(h, t, c),
              lambda k, h, t, c: k.ormqr(h, t, c, True, True), lambda k, h, t, c: k.ormqr(h, t, c.mT, False),
              lambda k, h, t, c: k.ormqr(h, t, c.mT, False, True)):
        theirs, ours = (f(k, *(k.from_numpy(x.copy()) for x in (packed, tau, c))) for k in (torch, volta))
        assert ours.stride() == theirs.stride()
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 3), (5, 40), (17, 15), (16, 17), (48, 33), (70, 3), (203, 15), (130, 20), (300, 300)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elimination_across_blocks(shape, dtype, rng):
    """Of wide and of tall matrices: the exchanges of PyTorch, and the matrix again."""
    a = rng.standard_normal(shape).astype(dtype)
    assert volta.linalg.lu_factor(volta.from_numpy(a)).pivots.tolist() == torch.linalg.lu_factor(torch.from_numpy(a)).pivots.tolist()
    P, L, U = (x.numpy() for x in volta.linalg.lu(volta.from_numpy(a)))
    np.testing.assert_allclose(P @ L @ U, a, atol=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("size", [0, 1e-6, 1e-3, 0.02, 0.3, 1, 3, 30])
@pytest.mark.parametrize("n", [2, 9, 40])
def test_exponentials_of_all_degrees(size, n, rng):
    """Of symmetric matrices, by their eigenvalues."""
    a = rng.standard_normal((3, n, n))
    a = (a + np.swapaxes(a, -1, -2)) / n * size
    values, vectors = np.linalg.eigh(a)
    exact = vectors * np.exp(values)[..., None, :] @ np.swapaxes(vectors, -1, -2)
    for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-13)):
        found = volta.linalg.matrix_exp(volta.from_numpy(a.astype(dtype))).numpy()
        limit = tolerance * abs(exact).max() * max(1, abs(values).max())            # a condition of it
        np.testing.assert_allclose(found, exact, rtol=0, atol=limit * (4 if dtype == "float32" else 10))


@pytest.mark.parametrize("shape", [(64, 1), (65, 16), (2, 130, 7), (200, 17), (4, 188, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reflections_of_tall_matrices(shape, dtype, rng):
    """Of any layout: R, Q and singular values, also of wide ones."""
    a = rng.standard_normal(shape).astype(dtype)
    tolerance = 2e-5 if dtype == "float32" else 1e-13
    turned = np.ascontiguousarray(a.swapaxes(-1, -2))
    layouts = volta.from_numpy(a), volta.from_numpy(turned).mT, volta.from_numpy(a.repeat(2, -1))[..., ::2]
    for x in layouts:
        for theirs, ours in ((torch.linalg.qr, volta.linalg.qr), (torch.geqrf, volta.geqrf)):
            for p, q in zip(theirs(torch.from_numpy(a)), ours(x), strict=True):
                np.testing.assert_allclose(q.numpy(), p.numpy(), atol=tolerance)
        for some in (x, x.mT):
            q, r = volta.linalg.qr(some, "r")
            assert q.shape == (0,)
            np.testing.assert_allclose(r.numpy(), torch.linalg.qr(torch.from_numpy(some.numpy()), "r")[1].numpy(), atol=tolerance)
        for tall in (x, x.mT):
            u, s, vh = volta.linalg.svd(tall, full_matrices=False)
            np.testing.assert_allclose((u * s[..., None, :] @ vh).numpy(), tall.numpy(), atol=tolerance)
            np.testing.assert_allclose(volta.linalg.svdvals(tall).numpy(), s.numpy(), atol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 5000, 100), (2, 100, 5000), (64, 700, 600), (5000, 100, 3), (1, 300000, 1), (7, 0, 5), (2, 3, 4)])
def test_products_of_halves_are_rounded_once(shape, dtype, rng):
    """Of large matrices by portions, of any layout: as the product in float32, for any number of threads."""
    m, k, n = shape
    x, y, z = (volta.tensor(rng.standard_normal(s).astype(np.float32)).to(getattr(volta, dtype)) for s in ((m, k), (k, n), (n,)))
    exact = x.double().numpy() @ y.double().numpy()
    rounding = 2.0 ** (-11 if dtype == "float16" else -8)
    before = volta.get_num_threads()
    for a in (x, x.t().contiguous().t()):
        for b in (y, y.t().contiguous().t()):
            found = []
            for threads in (1, 2):
                volta.set_num_threads(threads)
                found.append(((a @ b).float().numpy(), volta.nn.functional.linear(a, b.t(), z).float().numpy()))
            volta.set_num_threads(before)
            np.testing.assert_array_equal(found[0][0], found[1][0])
            np.testing.assert_array_equal(found[0][1], found[1][1])
            for out, expected in zip(found[0], (exact, exact + z.double().numpy())):
                np.testing.assert_allclose(out, expected, rtol=1.1 * rounding, atol=1e-5 * max(k, 1) ** 0.5)
