"""In which order in memory results lie: as the inputs do, by PyTorch's rule; random layouts are compared with it."""
import numpy as np
import pytest

import volta

UNARY = ("neg", "exp", "relu", "sigmoid", "isnan", "sign", "square", "float", "double", "long", "bool", "half", "clone", "erf")
BINARY = ("add", "sub", "mul", "maximum", "eq", "lt", "atan2", "logical_and", "copysign")
LIKE = ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")


def laid(rng, shape):
    """How to make a tensor of this shape lie in memory: a permutation, steps, which dimensions are repeated."""
    order = rng.permutation(len(shape)) if rng.random() < 0.8 else np.arange(len(shape))
    steps = [int(rng.integers(1, 3)) if rng.random() < 0.2 else 1 for _ in shape]
    return order.tolist(), steps, [rng.random() < 0.08 for _ in shape]


def placed(numbers, layout):
    """The tensor over `numbers`, one-dimensional, with the shape and layout, in either library."""
    shape, (order, steps, repeated) = layout
    sizes = [1 if repeated[d] else shape[d] * steps[d] for d in order]
    x = numbers[:int(np.prod(sizes))].reshape(sizes).permute([order.index(d) for d in range(len(shape))])
    x = x[tuple(slice(None, None, 1 if r else s) for s, r in zip(steps, repeated))] if shape else x
    return x.expand(*shape) if shape else x


def wide(strides, shape):
    """The strides that matter."""
    return [s for s, n in zip(strides, shape) if n > 1]


def random_operands(rng, count):
    """Shapes and layouts that broadcast together."""
    shape = [int(n) for n in rng.choice([1, 2, 3, 4], int(rng.integers(1, 6)), p=[0.15, 0.3, 0.3, 0.25])]
    same = laid(rng, shape) if rng.random() < 0.4 else None
    found = []
    for i in range(count):
        own = list(shape)
        if i and rng.random() < 0.35:
            own = own[int(rng.integers(0, len(own) + 1)):]
        own = [1 if i and rng.random() < 0.15 else n for n in own]
        found.append((own, same if same and own == shape else laid(rng, own)))
    return found


def test_results_lie_as_inputs_do(device):
    x = volta.ones(2, 3, 4, 5, device=device).permute(0, 2, 3, 1)
    assert (x.relu().stride(), (x + 1).stride(), x.double().stride() if device == "cpu" else x.long().stride()) == (x.stride(),) * 3
    assert (x + x.relu()).stride() == x.clone().stride() == volta.zeros_like(x).stride() == x.stride()
    assert (x + volta.ones(5, 3, device=device)).stride() == x.stride()                 # what is repeated has no say
    assert (volta.ones(2, 4, 5, 3, device=device) + x).stride() == (60, 15, 3, 1)       # the first input decides
    assert x.contiguous().stride() == x.clone(memory_format=volta.contiguous_format).stride() == (60, 15, 3, 1)
    assert (volta.ones(3, 1, device=device).expand(3, 4) * 2).stride() == (4, 1)
    assert volta.ones(6, 4, device=device)[::2].t().neg().stride() == (1, 4)             # dense, in the same order


@pytest.mark.parametrize("shape, strides", [((5, 1), (1, 5)), ((1,), (0,)), ((2, 1, 3), (3, 2, 1)), ((1, 3), (0, 1)), ((0, 2), (1, 1)),
                                            ((2, 2, 1), (1, 2, 9)), ((3, 1, 2), (6, 1, 2))])
def test_strides_of_one_element_are_pytorchs(shape, strides, device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x, y = torch.zeros(99).as_strided(shape, strides), volta.zeros(99, device=device).as_strided(shape, strides)
    assert y.clone().stride() == x.clone().stride() and y.long().stride() == x.long().stride()      # copies keep each of them
    assert volta.zeros_like(y).stride() == torch.zeros_like(x).stride()
    if (shape, strides) != ((2, 2, 1), (1, 2, 9)):
        assert y.relu().stride() == x.relu().stride() and (y + y).stride() == (x + x).stride()      # others are new tensors


def test_formats(device):
    x = volta.arange(120.0, device=device).reshape(2, 3, 4, 5)
    y = x.to(memory_format=volta.channels_last)
    assert y.is_contiguous(memory_format=volta.channels_last) and not y.is_contiguous() and y.stride() == (60, 1, 15, 3)
    assert (y * 2 + 1).relu().is_contiguous(memory_format=volta.channels_last)
    assert volta.nn.functional.silu(y).tolist() == volta.nn.functional.silu(x).tolist()
    assert volta.empty_like(y).stride() == y.stride() and volta.empty_like(y, memory_format=volta.contiguous_format).is_contiguous()
    assert y.clone(memory_format=volta.preserve_format).stride() == y.stride()


IMAGES = {
    **{mode: lambda F, x, mode=mode: F.interpolate(x, (3, 5), mode=mode) for mode in ("nearest", "bilinear", "bicubic", "area")},
    "max_pool2d": lambda F, x: F.max_pool2d(x, 2, return_indices=True)[1], "avg_pool2d": lambda F, x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda F, x: F.adaptive_avg_pool2d(x, (2, 3)), "unbatched": lambda F, x: F.max_pool2d(x[0], 2),
    "adaptive_max_pool2d": lambda F, x: F.adaptive_max_pool2d(x, 3), "max_unpool2d": lambda F, x: F.max_unpool2d(
        *F.max_pool2d(x, 2, return_indices=True), 2)}


@pytest.mark.parametrize("name", IMAGES)
def test_images_stay_pixel_by_pixel(name, device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    numbers = np.arange(240, dtype=np.float32).reshape(2, 3, 4, 10) * 7 % 241
    found = [IMAGES[name](lib.nn.functional, x.to(memory_format=lib.channels_last) if pixels else x) for pixels in (True, False)
             for lib, x in ((torch, torch.from_numpy(numbers)), (volta, volta.from_numpy(numbers).to(device)))]
    assert found[0].stride() == found[1].stride() and found[2].stride() == found[3].stride()
    np.testing.assert_allclose(found[1].cpu().numpy(), found[0].numpy(), rtol=1e-4, atol=1e-3)


def zero(lib, x):
    return lib.zeros(1, device=x.device).long()


KEPT = {
    "flip": lambda lib, x: lib.flip(x, (1,)), "sort": lambda lib, x: lib.sort(x, 2), "argsort": lambda lib, x: lib.argsort(x, 1),
    "rot90": lambda lib, x: lib.rot90(x, 3, (1, 2)), "index_fill": lambda lib, x: lib.index_fill(x, 1, zero(lib, x), 2.0),
    "pad": lambda lib, x: lib.nn.functional.pad(x, (1, 0, 2, -1, 1, 0), value=3.0), "cat": lambda lib, x: lib.cat([x, x], 1),
    "stack": lambda lib, x: lib.stack([x, x], 1), "select_scatter": lambda lib, x: lib.select_scatter(x, x[:, 0], 1, 1),
    "diagonal_scatter": lambda lib, x: lib.diagonal_scatter(x, lib.zeros(4, 5, 2).to(x.device)),
    "masked_fill": lambda lib, x: x.masked_fill(x > 50, 1.0), "logsigmoid": lambda lib, x: lib.nn.functional.logsigmoid(x / 9),
    "ravel": lambda lib, x: lib.ravel(x), "permute_copy": lambda lib, x: lib.permute_copy(x, (3, 2, 0, 1)),
    "diag_embed": lambda lib, x: lib.diag_embed(x, 1, 0, 2), "nonzero": lambda lib, x: lib.nonzero(x),
    "index_add": lambda lib, x: lib.index_add(x, 1, zero(lib, x), x[:, :1]),
    "renorm": lambda lib, x: lib.renorm(x, 2, 1, 5.0),
    "float": lambda lib, x: x.float(memory_format=lib.contiguous_format), "and": lambda lib, x: x.long().__rand__(x.long().contiguous()),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_against_torch(name, device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    numbers = np.arange(240, dtype=np.float32) * 7 % 241
    for gap in (1, 2):
        for order in ((0, 3, 1, 2), (3, 1, 0, 2), (0, 1, 2, 3)):
            sizes = [(2, 3, 4, 5)[d] * (gap if d == order[3] else 1) for d in order]
            found = []
            for lib, x in ((torch, torch.from_numpy(numbers)), (volta, volta.from_numpy(numbers).to(device))):
                x = x[:int(np.prod(sizes))].reshape(sizes)[..., ::gap].permute([order.index(d) for d in range(4)])
                result = KEPT[name](lib, x)
                found.append(result if isinstance(result, lib.Tensor) else result[1])
            a, b = found
            assert wide(a.stride(), a.shape) == wide(b.stride(), b.shape), f"{name} of {order}, {gap}: {b.stride()}, PyTorch's {a.stride()}"
            np.testing.assert_allclose(b.cpu().numpy(), a.numpy(), rtol=1e-5)


def test_gradients(device):
    """The gradient of a row-major leaf is row-major, whatever it came through."""
    x = volta.arange(24.0, device=device).reshape(2, 3, 4).requires_grad_()
    y = x.permute(2, 0, 1)
    (y.sigmoid() * y + y.exp()).sum().backward()
    z = x.detach().clone().requires_grad_()
    (z.sigmoid() * z + z.exp()).sum().backward()
    assert x.grad.is_contiguous() and volta.allclose(x.grad, z.grad)


def test_in_place_and_out_keep_their_own(device):
    x, y = volta.ones(3, 4, device=device), volta.arange(12.0, device=device).reshape(4, 3).t()
    x += y
    assert x.stride() == (4, 1) and x.tolist() == (y + 1).tolist()
    out = volta.zeros(3, 4, device=device)
    assert volta.add(y, y, out=out) is out and out.stride() == (4, 1) and out.tolist() == (y * 2).tolist()


def test_observers_see_the_call_as_it_was_made(device):
    from volta._kernels.core.call import Observer
    seen = []

    class Tape(Observer):
        def after(self, op, device, inputs, params, out, result):
            seen.append((op.name, inputs[0], result))
    x = volta.ones(3, 4, device=device).t()
    with Tape():
        y = x.exp()
    assert seen[-1][0] == "exp" and seen[-1][1] is x and seen[-1][2] is y


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_kth_value_is_no_slice_of_what_was_sorted(dim, device):
    found = volta.arange(24.0, device=device).reshape(2, 3, 4).kthvalue(2, dim)
    assert all(x.is_contiguous() and x._base is None for x in found)


def test_losses_of_logits_lie_as_their_targets(device):
    x = volta.ones(2, 3, 4, 5, device=device).to(memory_format=volta.channels_last).requires_grad_()
    losses = volta.nn.functional.binary_cross_entropy_with_logits(x, volta.zeros(2, 3, 4, 5, device=device), reduction="none")
    assert losses.is_contiguous() and losses.view(2, -1).shape == (2, 60)
    losses.sum().backward()
    assert x.grad.tolist() == volta.full((2, 3, 4, 5), volta.sigmoid(volta.ones(())).item()).tolist()


def test_random_layouts_against_torch(device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(11)
    values = rng.standard_normal(40000).astype(np.float32)
    theirs, ours = torch.from_numpy(values), volta.from_numpy(values).to(device)
    seen = set()
    for _ in range(1500 if device == "cpu" else 200):
        count = int(rng.integers(1, 4))
        layouts = random_operands(rng, count)
        a, b = [placed(theirs, each) for each in layouts], [placed(ours, each) for each in layouts]
        if count == 1:
            name = str(rng.choice([n for n in UNARY if n != "double" or device == "cpu"] + list(LIKE)))
            found = [getattr(lib if name in LIKE else type(x), name)(x) for lib, x in ((torch, a[0]), (volta, b[0]))]
        elif count == 2:
            name = str(rng.choice(BINARY))
            found = [getattr(lib, name)(*xs) for lib, xs in ((torch, a), (volta, b))]
        else:
            name = str(rng.choice(["where", "lerp", "clamp"]))
            found = [getattr(lib, name)(xs[0] > 0 if name == "where" else xs[0], *xs[1:]) for lib, xs in ((torch, a), (volta, b))]
        told = f"{name} of {[(x.shape, x.stride()) for x in a]}: {found[1].stride()}, PyTorch's {found[0].stride()}"
        assert wide(found[0].stride(), found[0].shape) == wide(found[1].stride(), found[1].shape), told
        seen.add((name, found[1].is_contiguous()))
        if name not in LIKE:
            np.testing.assert_allclose(found[1].cpu().numpy(), found[0].numpy(), rtol=2e-4, atol=2e-4, err_msg=told)
    assert len(seen) > 30


MOVED = {
    "reflect": lambda F, x: F.pad(x, (1, 2, 0, 1), mode="reflect"), "replicate": lambda F, x: F.pad(x, (1, -1, 2, 1), mode="replicate"),
    "circular": lambda F, x: F.pad(x, (1, 1, 1, 1), mode="circular"), "pixel_shuffle": lambda F, x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda F, x: F.pixel_unshuffle(x, 3), "channel_shuffle": lambda F, x: F.channel_shuffle(x, 2),
    "roll": lambda F, x: x.roll((1, 2), (1, 3))}


@pytest.mark.parametrize("name", MOVED)
def test_layouts_of_images_against_torch(name, device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = np.random.default_rng(3).standard_normal((2, 4, 6, 4) if name == "pixel_shuffle" else (2, 6, 6, 8)).astype(np.float32)
    for order in ((0, 1, 2, 3), (0, 3, 1, 2)):
        x, y = torch.from_numpy(values).permute(*order), volta.from_numpy(values).to(device).permute(*order)
        if name == "pixel_unshuffle":
            x, y = x[..., :6, :6], y[..., :6, :6]
            x, y = (x, y) if order[1] == 1 else (x.contiguous(memory_format=torch.channels_last),
                                                 y.contiguous(memory_format=volta.channels_last))
        theirs, ours = MOVED[name](torch.nn.functional, x), MOVED[name](volta.nn.functional, y)
        assert ours.stride() == theirs.stride() and ours.cpu().tolist() == theirs.tolist()


def test_tensors_lie_on_another_device_as_they_did(device):
    x = volta.arange(24.0).reshape(2, 3, 4)
    for y in (x.permute(2, 0, 1), x.permute(2, 0, 1)[::2], x.mT[..., 1:]):
        there = y.requires_grad_().to(device)
        there.sum().backward()
        assert there.stride() == there.cpu().stride() == (y if device == "cpu" else y.clone()).stride()
        assert there.tolist() == y.tolist() and y.grad.tolist() == volta.ones_like(y).tolist()


def test_dropout_keeps_the_order_in_memory(device):
    x = volta.ones(6, 5, 4, device=device).permute(2, 0, 1).requires_grad_()
    out = volta.nn.functional.dropout(x, 0.5)
    out.sum().backward()
    assert out.stride() == x.stride() and 0 < (out == 0).sum().item() < 120
    assert x.grad.tolist() == out.tolist()                          # the same elements


LAPACK = {
    "inv": lambda L, a, b: L.inv(a), "cholesky": lambda L, a, b: L.cholesky(a), "cholesky_upper": lambda L, a, b: L.cholesky(a, upper=True),
    "solve": lambda L, a, b: L.solve(a, b), "solve_right": lambda L, a, b: L.solve(a, b.mT, left=False),
    "solve_vectors": lambda L, a, b: L.solve(a, b[..., 0]), "solve_triangular": lambda L, a, b: L.solve_triangular(a, b, upper=True),
    "solve_triangular_right": lambda L, a, b: L.solve_triangular(a, b.mT, upper=False, left=False), "qr": lambda L, a, b: L.qr(b),
    "eigh": lambda L, a, b: L.eigh(a), "svd": lambda L, a, b: L.svd(b), "lu_factor": lambda L, a, b: L.lu_factor(a),
    "lu_solve": lambda L, a, b: L.lu_solve(*L.lu_factor(a), b),
    "lu_solve_adjoint": lambda L, a, b: L.lu_solve(*L.lu_factor(a), b, adjoint=True),
    "ldl_solve": lambda L, a, b: L.ldl_solve(*L.ldl_factor(a), b), "pinv": lambda L, a, b: L.pinv(b)}


@pytest.mark.parametrize("name", LAPACK)
def test_layouts_of_decompositions_against_torch(name):
    """Column by column, mostly."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 4, 4)), rng.standard_normal((2, 4, 3))
    a = a @ np.swapaxes(a, -1, -2) + np.eye(4)
    theirs, ours = (LAPACK[name](lib.linalg, lib.from_numpy(a), lib.from_numpy(b)) for lib in (torch, volta))
    for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (theirs, ours))):
        assert y.stride() == x.stride()
        np.testing.assert_allclose(abs(y.numpy()), abs(x.numpy()), atol=1e-12)


@pytest.mark.parametrize("dtype, call", [
    ("float32", lambda lib, x, out: lib.linalg.inv(x, out=out)), ("float32", lambda lib, x, out: lib.exp(x.t(), out=out)),
    ("int64", lambda lib, x, out: lib.nonzero(x, out=out)), ("float32", lambda lib, x, out: lib.cat([x.t(), x.t()], out=out)),
    ("float32", lambda lib, x, out: lib.cholesky_solve(x, x, out=out))])
def test_out_that_is_resized_lies_as_the_result(dtype, call):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = np.random.default_rng(7).standard_normal((4, 4)).astype(np.float32) + 3 * np.eye(4, dtype=np.float32)
    theirs, ours = torch.empty(0, dtype=getattr(torch, dtype)), volta.empty(0, dtype=getattr(volta, dtype))
    call(torch, torch.from_numpy(values), theirs)
    call(volta, volta.from_numpy(values), ours)
    assert ours.stride() == theirs.stride()
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-4, atol=1e-5)


def test_einsum_of_one_operand_is_row_major():
    x = volta.arange(24.0).reshape(2, 3, 4)
    for equation in ("abc->ca", "abc->cb", "abc->b", "abc->cab", "abc"):
        result = volta.einsum(equation, x)
        assert result.tolist() == np.einsum(equation, x.numpy()).tolist() and (result.is_contiguous() or equation == "abc->cab")


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(3, 2, 3, 4), (2, 3, 2, 3, 4)])
def test_normalized_channels_lie_as_in_pytorch(shape, training, rng):
    """Last where they were last, with the same numbers; in any other order the result is row-major, recorded or not."""
    torch = pytest.importorskip("torch")
    n, values = len(shape), rng.standard_normal(shape)
    for order in ((0, *range(2, n), 1), (1, 0, *range(2, n)), (*range(1, n), 0), tuple(range(n))):
        back = [order.index(d) for d in range(n)]
        for recorded in (False, True):
            found = []
            for T in (torch, volta):
                x = T.from_numpy(np.ascontiguousarray(values.transpose(order))).permute(*back).requires_grad_(recorded)
                channels = [T.linspace(0.5, k, shape[1], dtype=T.float64) for k in (1, 2, 3, 4)]
                out = T.nn.functional.batch_norm(x, *channels, training=training)
                dx = T.autograd.grad((out * out * out).sum(), x)[0] if recorded else out
                found.append((out, dx, channels[0], channels[1]))
            for theirs, ours in zip(*found):
                assert ours.stride() == theirs.stride()
                np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("dtype", [None, "float16", "float32"])
def test_copies_of_arrays_lie_as_these_do(dtype, rng, device):
    """Also those that leave something out between, on either device; what is repeated becomes row-major."""
    dtype = dtype and getattr(volta, dtype)
    base = rng.standard_normal((5, 4, 6)).astype(np.float32)
    for order, want in (((0, 1, 2), (24, 6, 1)), ((2, 0, 1), (1, 24, 6)), ((1, 2, 0), (6, 1, 24))):
        for array in (base.transpose(order), np.repeat(base, 2, 1)[:, ::2].transpose(order)):
            for made in (volta.tensor(array, dtype=dtype, device=device), volta.as_tensor(array.copy("K"), dtype=dtype, device=device)):
                assert made.stride() == want and made.is_leaf and made._base is None
                assert np.array_equal(made.float().cpu().numpy(), array.astype(dtype and str(dtype).removeprefix("volta.")))
    assert volta.tensor(np.broadcast_to(base[:1], (3, 4, 6)), device=device).stride() == (24, 6, 1)
    assert volta.tensor(np.float32(2.0), device=device).shape == volta.tensor(np.array(2.0, np.float32).T, device=device).shape == ()


def test_as_tensor_shares_the_memory_of_an_array_of_the_dtype_that_is_asked_for():
    array = np.zeros((3, 4), np.float32)
    for view in (array, array.T, array[::2, 1:]):
        for make in (volta.as_tensor, volta.asarray):
            shared = make(view, dtype=volta.float32)
            view += 1
            assert shared.tolist() == view.tolist() and np.shares_memory(shared.numpy(), view)
    for dtype in (volta.float16, volta.bfloat16, volta.int32):
        assert volta.as_tensor(array, dtype=dtype).dtype is dtype
    assert volta.as_tensor(array.astype(">f4"), dtype=volta.float32).tolist() == array.tolist()
