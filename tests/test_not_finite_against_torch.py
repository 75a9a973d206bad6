"""Where NaN, infinities and zeros leave matrices and scans without an ordinary result: element by element what PyTorch gives on the CPU."""
import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch")
NAN, INF = float("nan"), float("inf")

MATRICES = {
    "inv_ex": lambda T, a, b: T.linalg.inv_ex(a), "solve_ex": lambda T, a, b: T.linalg.solve_ex(a, b),
    "solve_right": lambda T, a, b: T.linalg.solve_ex(a, b.transpose(-1, -2), left=False), "det": lambda T, a, b: T.linalg.det(a),
    "slogdet": lambda T, a, b: T.linalg.slogdet(a), "logdet": lambda T, a, b: T.logdet(a),
    "lu_factor_ex": lambda T, a, b: T.linalg.lu_factor_ex(a), "wide": lambda T, a, b: T.linalg.lu_factor_ex(a[..., :-1, :]),
    "tall": lambda T, a, b: T.linalg.lu_factor_ex(a[..., :-1]), "cholesky_ex": lambda T, a, b: T.linalg.cholesky_ex(a),
    "upper": lambda T, a, b: T.linalg.cholesky_ex(a, upper=True), "cholesky_solve": lambda T, a, b: T.cholesky_solve(b, a)}
# Not compared: the derivative of the determinant of a singular matrix, which PyTorch takes for 0, that of a factor beside the column that
# fails, and that of `cholesky_solve` by the triangle that is not read.
VALUES_ALONE = {"det": (0.0,), "cholesky_ex": (0.0,), "upper": (0.0,), "cholesky_solve": (0.0, NAN, INF, -INF)}


def _both(name, a, b):
    """For each library the results, and the gradients of their sums."""
    for T in (torch, volta):
        x, y = T.tensor(a.tolist(), dtype=T.float64).requires_grad_(), T.tensor(b.tolist(), dtype=T.float64).requires_grad_()
        found = MATRICES[name](T, x * 1, y)
        found = found if isinstance(found, tuple) else (found,)
        roots = [out.sum() for out in found if out.requires_grad]
        grads = T.autograd.grad(roots, [x, y], allow_unused=True)
        yield [out.detach().numpy() for out in found], [np.zeros(()) if g is None else g.numpy() for g in grads]


@pytest.mark.parametrize("value", [NAN, INF, -INF, 0.0])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name, value, rng):
    for lead in ((), (2,)):
        for _ in range(10):
            n = int(rng.integers(2, 6))
            a = rng.standard_normal((*lead, n, n))
            a, b = a @ np.swapaxes(a, -1, -2) + np.eye(n), rng.standard_normal((*lead, n, 2))
            row, column = rng.integers(n, size=2)
            if value:
                a[..., row, column] = value
            else:
                a[..., :, column] = 0
            (values, grads), (ours, our_grads) = _both(name, a, b)
            for x, y in zip(values, ours):
                np.testing.assert_allclose(y, x, rtol=1e-6, atol=1e-8)
            if value not in VALUES_ALONE.get(name, ()):
                for x, y in zip(grads, our_grads):
                    np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-7)


def test_the_inverse_from_a_factor():
    for upper in (False, True):
        for place in ((0, 0), (1, 1), (2, 1), (1, 2)):
            for value in (NAN, INF):
                a = np.array([[2.0, 0.5, -1.0], [0.3, 1.5, 0.7], [-0.4, 0.2, 1.0]])
                a[place] = value
                np.testing.assert_allclose(volta.cholesky_inverse(volta.from_numpy(a), upper).numpy(),
                                           torch.cholesky_inverse(torch.from_numpy(a), upper).numpy(), rtol=1e-9)
    with pytest.raises(volta.linalg.LinAlgError, match=r"\(batch element 1\) the matrix is singular: its factor has 0 as element 2"):
        volta.cholesky_inverse(volta.stack([volta.eye(2), volta.diag(volta.tensor([1.0, 0.0]))]))


def test_cumprod(rng):
    for _ in range(300):
        x = rng.standard_normal(6)
        for place in rng.integers(6, size=int(rng.integers(1, 4))):
            x[place] = rng.choice([NAN, INF, -INF, 0.0, 0.0])
        grads = []
        for T in (torch, volta):
            a = T.tensor(x.tolist(), dtype=T.float64).requires_grad_()
            grads.append(T.autograd.grad((a.cumprod(0) * T.arange(1.0, 7.0, dtype=T.float64)).sum(), a)[0].numpy())
        np.testing.assert_allclose(grads[1], grads[0], rtol=1e-9)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(driver, rng):
    for left, right in (((4, 2), (4, 3)), ((2, 4), (2, 3)), ((2, 4, 2), (2, 4)), *([((2, 0), (2, 3))] if driver == "gels" else [])):
        a, b = rng.standard_normal(left), rng.standard_normal(right)
        theirs = torch.linalg.lstsq(torch.from_numpy(a), torch.from_numpy(b), driver=driver)
        ours = volta.linalg.lstsq(volta.from_numpy(a), volta.from_numpy(b), driver=driver)
        for x, y in zip(theirs, ours):
            np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-9)
            assert [s for s, n in zip(x.stride(), x.shape) if n > 1] == [s for s, n in zip(y.stride(), y.shape) if n > 1] or not x.numel()
    with pytest.raises(volta.linalg.LinAlgError, match="needs matrices without NaN"):
        volta.linalg.lstsq(volta.ones(2, 1), volta.tensor([[NAN], [1.0]]), driver=driver)
    deficient, infinite = volta.ones(2, 3), volta.tensor([[INF, 1.0], [1.0, 1.0]])
    if driver == "gels":
        with pytest.raises(volta.linalg.LinAlgError, match="driver='gels' needs a matrix of full rank, and element 2 of its triangle is 0"):
            volta.linalg.lstsq(deficient, volta.ones(2, 1), driver=driver)
    else:
        assert volta.linalg.lstsq(deficient, volta.ones(2, 1), driver=driver).rank.item() == 1
    assert volta.linalg.lstsq(volta.eye(2), infinite, driver=driver).solution.isnan().all()


def test_what_has_no_elements():
    """PyTorch asks nothing of the dtype, and `cholesky` nothing of the shape."""
    assert volta.cholesky(volta.ones(0, 5)).shape == (0, 5) and volta.cholesky(volta.ones(0, 0, dtype=volta.int64)).dtype is volta.int64
    assert volta.linalg.eigh(volta.ones(2, 0, 0, dtype=volta.int64)).eigenvalues.dtype is volta.int64
    assert volta.bernoulli(volta.ones(0, 3, dtype=volta.int64)).dtype is volta.int64
    for shape in ((0, 5), (0,)):
        with pytest.raises(volta.errors.ShapeError):
            volta.linalg.cholesky(volta.ones(shape))
    with pytest.raises(volta.errors.DTypeError, match="must be floating point"):
        volta.linalg.cholesky(volta.ones(0, 0, dtype=volta.int64))
    double = volta.empty(2, 2, dtype=volta.float64)
    assert volta.cholesky(volta.eye(2), out=double) is double
    with pytest.raises(volta.errors.DTypeError, match="cannot be stored in out"):
        volta.linalg.cholesky(volta.eye(2), out=double)


def test_distances(rng):
    """Of p = 1 and infinity a difference that is NaN has the gradient NaN, of infinity an infinite one, too."""
    for p in (1.0, INF):
        for value in (NAN, INF):
            a, b, grads = rng.standard_normal((2, 3)), rng.standard_normal((3, 3)), []
            a[0, 1] = b[1, 1] = value
            for T in (torch, volta):
                x, y = T.tensor(a.tolist()).requires_grad_(), T.tensor(b.tolist()).requires_grad_()
                grads.append([g.numpy() for g in T.autograd.grad(T.cdist(x, y, p).sum(), [x, y])])
            for x, y in zip(*grads):
                np.testing.assert_allclose(y, x, rtol=1e-6)


def test_ldexp_of_infinities(device):
    for other in ([INF, 1.0], [-INF, NAN], INF):
        grads = []
        for T in (torch, volta):
            place = {"device": device} if T is volta else {}
            x = T.tensor([[1.0, 2.0], [-3.0, 4.0]], **place).requires_grad_()
            y = T.tensor(other, **place).requires_grad_()
            grads.append([g.cpu().numpy() for g in T.autograd.grad(T.ldexp(x, y).sum(), [x, y])])
        for x, y in zip(*grads):
            np.testing.assert_allclose(y, x, rtol=1e-6)


def test_index_add_of_none():
    x, source = volta.ones(0, 5, requires_grad=True), volta.ones(0, 2, requires_grad=True)
    out = volta.index_add(x, 1, volta.tensor([0, 3]), source)
    assert [g.shape for g in volta.autograd.grad(out.sum(), [x, source])] == [(0, 5), (0, 2)]


def test_symmetric_factors(rng):
    for value in (NAN, INF, 0.0, 1.0):
        for n in range(1, 6):
            for _ in range(8):
                a = rng.standard_normal((n, n))
                a = a + a.T
                a[tuple(rng.integers(n, size=2))] = value
                a = a if value else np.diag(np.diag(a))
                theirs, ours = (lib.linalg.ldl_factor_ex(lib.from_numpy(a.copy())) for lib in (torch, volta))
                np.testing.assert_allclose(ours[0].numpy(), np.tril(theirs[0].numpy()), rtol=1e-6, atol=1e-9)
                assert ours[1].tolist() == theirs[1].tolist() and ours[2].item() == theirs[2].item()


@pytest.mark.parametrize("n", [8, 32, 33, 63, 100])
def test_symmetric_factors_of_several_panels(n, rng):
    for few in (False, True):                               # with many equal sizes and zeros on the diagonal, of blocks of two
        a = rng.standard_normal((2, n, n)) if not few else rng.integers(-2, 3, (2, n, n)).astype(float)
        a = a + a.swapaxes(1, 2)
        a -= few * np.eye(n) * a
        theirs, ours = (lib.linalg.ldl_factor(lib.from_numpy(a.copy())) for lib in (torch, volta))
        assert ours[1].tolist() == theirs[1].tolist()
        np.testing.assert_allclose(ours[0].numpy(), np.tril(theirs[0].numpy()), rtol=1e-6, atol=1e-9)
        b = rng.standard_normal((2, n, 3))
        theirs, ours = (lib.linalg.ldl_solve(*found, lib.from_numpy(b.copy())).numpy() for lib, found in ((torch, theirs), (volta, ours)))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_infinite_matrices():
    endless = volta.full((3, 3), INF)
    for call in (volta.linalg.svd, volta.linalg.eigh, volta.linalg.pinv):
        with pytest.raises(volta.linalg.LinAlgError, match="a matrix is infinite"):
            call(endless)
    assert volta.linalg.svdvals(endless).isnan().all() and volta.linalg.matrix_rank(endless).item() == 0
    assert volta.linalg.svdvals(volta.stack([volta.eye(3), endless]))[0].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(volta.linalg.LinAlgError, match="an element is NaN"):
        volta.linalg.svdvals(volta.tensor([[NAN, INF], [1.0, 1.0]]))


def test_maxima_of_bags(rng):
    """NaN counts where a bag begins with it, and the gradient goes to the first of equals."""
    for trial in range(200):
        weight = rng.integers(-2, 3, (5, 3)).astype(float)
        for value in (NAN, INF, -INF):
            weight[rng.random((5, 3)) < 0.15] = value
        padding = (None, 1)[trial % 2]
        index, offsets = rng.integers(0, 5, (2, 3)), None
        if trial % 3:
            index, offsets = index.reshape(-1), np.sort([0, *rng.integers(0, 7, 2)])
        results = []
        for T in (torch, volta):
            w = T.tensor(weight.tolist(), dtype=T.float64).requires_grad_()
            out = T.nn.functional.embedding_bag(T.tensor(index.tolist()), w, None if offsets is None else T.tensor(offsets.tolist()),
                                                mode="max", padding_idx=padding)
            results.append((out.detach().numpy(), T.autograd.grad(out.sum(), w)[0].numpy()))
        for x, y in zip(*results):
            np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("value", [NAN, INF])
def test_products_with_zeros(value, rng):
    """A product of all elements of which two are 0 has the gradient 0 whatever the others are."""
    for zeros in (1, 2, 3):
        x = rng.standard_normal(6)
        x[:zeros], x[4] = 0.0, value
        grads = []
        for T in (torch, volta):
            a = T.tensor(x.tolist(), dtype=T.float64).requires_grad_()
            grads.append(T.autograd.grad(a.prod(), a)[0].numpy())
        np.testing.assert_allclose(grads[1], grads[0], rtol=1e-9)


def test_alignments_that_begin_with_nothing(rng):
    """NaN of a label that no alignment has there is not seen; a loss that is NaN has NaN for a gradient."""
    labels, lengths = [[1, 2, 3], [2, 1, 2]], [5, 5]
    for step, label in ((0, 3), (0, 1), (2, 2), (3, 1), (4, 1), (4, 3), (1, 2)):
        x = rng.standard_normal((5, 2, 6))
        x[step, 0, label] = NAN
        results = []
        for T in (torch, volta):
            a = T.tensor(x.tolist(), dtype=T.float64).requires_grad_()
            losses = T.nn.functional.ctc_loss(a, T.tensor(labels), T.tensor(lengths), T.tensor([3, 2]), reduction="none")
            grad = T.autograd.grad(losses.sum(), a)[0].numpy()
            results.append((losses.detach().numpy(), np.where(np.isnan(x), 0, grad)))
        for ours, theirs in zip(results[1], results[0][:1 if (step, label) == (3, 1) else 2]):    # there 0 * NaN is in our gradient
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)


def test_means_of_channels_beside_infinity():
    for shape in ((2, 3), (2, 3, 4)):
        x = np.ones(shape)
        x[0, 0], x[1, 1], x[:, 2] = INF, -INF, NAN
        found = []
        for T in (torch, volta):
            mean = T.zeros(3, dtype=T.float64)
            rows, var = T.tensor(x.tolist(), dtype=T.float64), T.ones(3, dtype=T.float64)
            found.append((T.native_batch_norm(rows, None, None, mean, var, True, 0.5, 1e-5)[1].numpy(), mean.numpy()))
        np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.parametrize("shape", [(5, 9), (70, 9), (2, 4, 3), (2, 4, 64, 65), (4, 2, 100, 100)])
def test_variances_beyond_float32_are_infinite(shape, device):
    """Then what is normalised is the bias, as the CPU's kernels have it, however the channels are split."""
    rng = np.random.default_rng(0)
    for large in (1e20, 1e30, -1e22):
        arrays = [rng.uniform(-3, 3, shape), *rng.uniform(0.5, 1, (2, shape[1]))]
        arrays[0].flat[0] = large
        found = []
        for T in (torch, volta):
            x, weight, bias = [T.tensor(a.tolist(), device=device if T is volta else "cpu").requires_grad_() for a in arrays]
            mean, var = T.zeros(shape[1], device=x.device), T.ones(shape[1], device=x.device)
            out = T.nn.functional.batch_norm(x, mean, var, weight, bias, True)
            grads = T.autograd.grad((out * out).sum(), (x, weight, bias))
            found.append([t.detach().cpu().numpy() for t in (out, var, *grads)])
        for ours, theirs in zip(*found):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    x = volta.ones(2, 4, 64, 65, device=device)
    x[0, 0, 0, 0] = 1e20
    assert volta.isfinite(volta.nn.functional.group_norm(x, 2)).all()


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances_of_any_power(device, p):
    """Of numbers, equal ones and largest ones beside each other, NaN and infinities: as in PyTorch, gradients too."""
    rows = np.array([[0, 1, 2], [3, NAN, 1], [0, 1, 2], [1, 1, 1], [INF, 0, 1], [2, -1, 2]], np.float32)
    calls = {"cdist": lambda T, x, y: T.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist"), "pdist": lambda T, x, y: T.pdist(x, p)}
    for name, call in calls.items():
        found = []
        for T in (torch, volta):
            place = {"device": device} if T is volta else {}
            x = T.tensor(rows[[0, 1, 5]] if name == "cdist" else rows, **place).requires_grad_()
            y = T.tensor(rows[2:5], **place).requires_grad_()
            out = call(T, x, y)
            grads = T.autograd.grad(out.sum(), [x, y] if name == "cdist" else [x])
            found.append([t.detach().cpu().numpy() for t in (out, *grads)])
        for want, got in zip(*found):
            np.testing.assert_allclose(got, want, rtol=2e-6, err_msg=name)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 2.5, INF])
@pytest.mark.parametrize("shapes", [((70, 33), (90, 33)), ((2, 3, 17), (1, 4, 17)), ((900, 2), (800, 2)), ((3, 1, 300), (5, 300)),
                                    ((4, 0), (3, 0))])
def test_distances_of_many_rows(device, rng, shapes, p):
    arrays, found = [rng.integers(-3, 4, s) + rng.choice([0, 0.25]) for s in shapes], []
    for T, dtype in ((torch, np.float64), (volta, np.float32)):
        place = {"device": device} if T is volta else {}
        x, y = (T.tensor(a.astype(dtype), **place).requires_grad_() for a in arrays)
        out = T.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist")
        found.append([t.detach().cpu().numpy() for t in (out, *T.autograd.grad((out * out).sum(), [x, y]))])
    for want, got in zip(*found):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6 * np.abs(want).max(initial=0))


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, -1.0])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_norms_of_windows(device, rng, p, ceil_mode):
    """Windows of zeros alone, which have the gradient 0, and of NaN and infinities."""
    x = np.abs(rng.standard_normal((2, 2, 7, 7))).astype(np.float32)
    x[0, 0, :4, :4], x[0, 1, 2, 2], x[1, 1, 3, 3] = 0, NAN, INF
    found = []
    for T in (torch, volta):
        a = T.tensor(x, **({"device": device} if T is volta else {})).requires_grad_()
        out = T.nn.functional.lp_pool2d(a, p, 2, ceil_mode=ceil_mode)
        found.append([t.detach().cpu().numpy() for t in (out, *T.autograd.grad(out.sum(), [a]))])
    for want, got in zip(*found):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_batch_norm_of_the_largest_numbers(each):
    """Differences of such numbers are beyond float32, their mean is not."""
    def check(layout):
        values = [[3e38, 3e38], [-3e38, -2e38], [2e38, -1e38], [-1e38, 3e37]] * (40 if layout == "many" else 1)
        x = volta.tensor(values)
        x = x.T.reshape(1, 2, -1) if layout == "channels" else x[:, :, None, None].expand(-1, -1, 2, 2) if layout == "images" else x
        mean, var = volta.zeros(2), volta.ones(2)
        y = volta.nn.functional.batch_norm(x, mean, var, training=True)
        assert y.abs().max().item() == 0 and var.tolist() == [np.inf] * 2
        np.testing.assert_allclose(mean.numpy(), np.mean(values, 0) / 10, rtol=1e-5)
        if layout == "rows":                    # with more of them PyTorch's sums are infinite
            x, mean, var = torch.tensor(values), torch.zeros(2), torch.ones(2)
            assert torch.nn.functional.batch_norm(x, mean, var, training=True).abs().max() == 0 and var.tolist() == [np.inf] * 2
    each(check, ["rows", "channels", "images", "many"])
