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
