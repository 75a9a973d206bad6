"""Rearranging, diagonals, grids, windows and einsum on each device, against NumPy; views share their storage."""
import numpy as np
import pytest
from arrays import host

import volta
from volta.errors import ArgumentError, IndexRangeError, ShapeError
from volta.testing import assert_close


def array(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


A, V = array(2, 3, 4), array(5)
windows = np.lib.stride_tricks.sliding_window_view

ROWS = [
    ("select", lambda x: x.select(1, -1), A[:, -1]), ("swapaxes", lambda x: x.swapaxes(0, 2), A.swapaxes(0, 2)),
    ("swapdims", lambda x: volta.swapdims(x, 0, 1), A.swapaxes(0, 1)), ("movedim", lambda x: x.movedim(0, -1), np.moveaxis(A, 0, -1)),
    ("moveaxis", lambda x: volta.moveaxis(x, (0, 1), (2, 0)), np.moveaxis(A, (0, 1), (2, 0))),
    ("unflatten", lambda x: x.unflatten(-1, (2, -1)), A.reshape(2, 3, 2, 2)), ("ravel", lambda x: x.ravel(), A.ravel()),
    ("roll", lambda x: x.roll(3, 1), np.roll(A, 3, 1)), ("roll flat", lambda x: x.roll(-5), np.roll(A, -5)),
    ("roll dims", lambda x: volta.roll(x, shifts=(1, -6), dims=(0, 2)), np.roll(A, (1, -6), (0, 2))),
    ("tile", lambda x: x.tile(2), np.tile(A, 2)), ("tile more", lambda x: x.tile((2, 1, 1, 3)), np.tile(A, (2, 1, 1, 3))),
    ("repeat_interleave", lambda x: x.repeat_interleave(2, dim=1), A.repeat(2, 1)),
    ("repeat_interleave flat", lambda x: volta.repeat_interleave(x, 3), A.repeat(3)),
    ("repeat_interleave none", lambda x: x.repeat_interleave(0, 0), A[:0]), ("fliplr", lambda x: x.fliplr(), A[:, ::-1]),
    ("flipud", lambda x: x.flipud(), A[::-1]), ("hstack", lambda x: volta.hstack([x, x]), np.hstack([A, A])),
    ("vstack", lambda x: volta.vstack([x[0, 0], x[1, 1]]), np.vstack([A[0, 0], A[1, 1]])),
    ("concat", lambda x: volta.concat([x, x], -1), np.concatenate([A, A], -1)),
    ("diagonal", lambda x: x.diagonal(1, 1, 2), np.diagonal(A, 1, 1, 2)), ("diagonal first", lambda x: x.diagonal(), np.diagonal(A)),
    ("diagonal empty", lambda x: x.diagonal(9, 1, 2), np.diagonal(A, 9, 1, 2)), ("trace", lambda x: x[0].trace(), np.trace(A[0])),
    ("diag", lambda x: volta.diag(x[0], -1), np.diag(A[0], -1)), ("diag of vector", lambda x: volta.diag(x[0, 1], 2), np.diag(A[0, 1], 2)),
    ("unfold", lambda x: x.unfold(2, 2, 1), windows(A, 2, 2)), ("unfold step", lambda x: x.unfold(1, 2, 2), windows(A, 2, 1)[:, ::2]),
    ("reshape_as", lambda x: x.reshape_as(volta.zeros(4, 6)), A.reshape(4, 6)),
    ("baddbmm", lambda x: x.baddbmm(x, x.mT @ x, beta=2, alpha=0.5), 2 * A + 0.5 * A @ (A.swapaxes(1, 2) @ A)),
    ("einsum", lambda x: volta.einsum("bij,bkj->bik", x, x), np.einsum("bij,bkj->bik", A, A)),
    ("einsum implicit", lambda x: volta.einsum("bij,cij", x, x), np.einsum("bij,cij", A, A)),
    ("einsum trace", lambda x: volta.einsum("bii->b", x[:, :, :3]), np.einsum("bii->b", A[:, :, :3])),
    ("einsum diagonal", lambda x: volta.einsum("bii->ib", x[:, :, :3]), np.einsum("bii->ib", A[:, :, :3])),
    ("einsum dots", lambda x: volta.einsum("...ij,jk->...ik", x, x[0].T), np.einsum("...ij,jk->...ik", A, A[0].T)),
    ("einsum broadcast", lambda x: volta.einsum("bij,bij->ij", x[:1], x), np.einsum("bij,bij->ij", A[:1].repeat(2, 0), A)),
    ("einsum outer", lambda x: volta.einsum("i,j,k->kij", x[0, 0], x[1, 1], x[1, 2]), np.einsum("i,j,k->kij", A[0, 0], A[1, 1], A[1, 2])),
    ("einsum sum", lambda x: volta.einsum("bij->j", x), A.sum((0, 1))),
    ("einsum list", lambda x: volta.einsum("ij,jk,kl->il", [x[0], x[1].T, x[0]]), A[0] @ A[1].T @ A[0]),
    ("tensordot lists", lambda x: volta.tensordot(x, x, dims=([0, 2], [0, 2])), np.tensordot(A, A, ([0, 2], [0, 2]))),
    ("inner", lambda x: volta.inner(x, x[0]), np.inner(A, A[0]))]


@pytest.mark.parametrize("call, expected", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_values(device, call, expected):
    x = volta.tensor(A, device=device)
    with volta.gpu.forbid_transfers():
        out = call(x)
    assert_close(host(out), expected.astype(np.float32), 1e-5, 1e-4)


@pytest.mark.parametrize("call", [
    lambda x: x.roll((1, 2), (0, 2)), lambda x: x.tile(2, 1), lambda x: x.repeat_interleave(2, 1), lambda x: x.unfold(2, 3, 1),
    lambda x: x.diagonal(1, 0, 2), lambda x: volta.diag(x[0, 0]), lambda x: x.movedim(0, 2),
    lambda x: volta.einsum("bij,bik,l->jkl", x, x, x[0, 0]), lambda x: volta.einsum("bii->bi", x[:, :, :3])])
def test_gradients(call):
    x = volta.tensor(np.random.default_rng(0).standard_normal((2, 3, 4)), requires_grad=True)
    volta.testing.gradcheck(call, (x,))


@pytest.mark.parametrize("call", [lambda x: x.diagonal(0, 1, 2), lambda x: x.unfold(2, 2, 2), lambda x: x.select(0, 1),
                                  lambda x: x.movedim(0, 2),
                                  lambda x: x.T.diagonal()])
def test_views_share_their_storage(device, call):
    x = volta.zeros(2, 3, 4, device=device)
    call(x).fill_(1)
    out = host(call(volta.tensor(A, device=device))).astype(int).ravel()
    assert host(x).sum() == len(set(out)) and (host(x).ravel()[out] == 1).all()


def test_grids_and_parts(device):
    x, y = volta.tensor([1.0, 2.0, 3.0], device=device), volta.tensor([4.0, 5.0], device=device)
    for indexing in ("ij", "xy"):
        for mine, expected in zip(volta.meshgrid(x, y, indexing=indexing), np.meshgrid([1, 2, 3], [4, 5], indexing=indexing)):
            np.testing.assert_array_equal(host(mine), expected)
    assert [t.tolist() for t in volta.broadcast_tensors(x, y.reshape(2, 1))] == [[[1, 2, 3]] * 2, [[4] * 3, [5] * 3]]
    assert [t.shape[0] for t in volta.tensor_split(x, 2)] == [2, 1] and [t.tolist() for t in x.tensor_split([1, -1])] == [[1], [2], [3]]


def test_index_add_and_in_place_forms(device):
    x, index = volta.zeros(3, 2, device=device), volta.tensor([0, 2, 0], device=device)
    out = x.index_add(0, index, volta.ones(3, 2, device=device), alpha=2)
    assert host(out).tolist() == [[4, 4], [0, 0], [2, 2]] and host(x).sum() == 0
    assert x.index_add_(1, index[2:], volta.ones(3, 1, device=device)) is x and host(x).tolist() == [[1, 0]] * 3
    assert host(volta.ones(3, 3, device=device).tril_()).sum() == 6
    y = volta.zeros(3, device=device)
    assert y.scatter_add_(0, index, volta.ones(3, device=device)) is y and host(y).tolist() == [2, 0, 1]


@pytest.mark.parametrize("call, error, text", [
    (lambda x: x.diagonal(0, 1, 1), ArgumentError, "diagonal: needs two different dimensions, got 1 and 1 of a tensor of rank 3"),
    (lambda x: volta.diag(x), ShapeError, r"diag: needs a vector or a matrix, got shape \(2, 3, 4\)"),
    (lambda x: x.select(0, 2), IndexRangeError, "select: index 2 lies outside dimension 0 of size 2"),
    (lambda x: x.movedim((0, 1), 0), ArgumentError, "movedim: source"),
    (lambda x: x.roll((1, 2)), ArgumentError, "roll: without dims there can be one shift"),
    (lambda x: x.roll((1, 2), 0), ArgumentError, "roll: 2 shifts for 1 dims"),
    (lambda x: x.repeat_interleave(volta.tensor([1, 2])), ShapeError, r"repeat_interleave: repeats of shape \(2,\) must be one count or a"),
    (lambda x: x.unfold(0, 3, 1), ArgumentError, "unfold: size 3 must be 0 to 2, and step 1 positive"),
    (lambda x: volta.meshgrid(x), ArgumentError, "meshgrid: needs vectors and indexing 'ij' or 'xy'"),
    (lambda x: volta.tensor_split(x, 0), ArgumentError, "tensor_split: the number of parts must be an integer of 1 to 1048576, got 0"),
    (lambda x: volta.einsum("ij,jk", x), ArgumentError, "einsum: 'ij,jk' names 2 operands, got 1"),
    (lambda x: volta.einsum("ij->i", x), ArgumentError, r"einsum: 'ij' in 'ij->i' does not fit an operand of shape \(2, 3, 4\)"),
    (lambda x: volta.einsum("ijk->iz", x), ArgumentError, "einsum: 'z' of the result of 'ijk->iz' must be once"),
    (lambda x: volta.einsum("ijk,ikj->i", x, x), ShapeError, "einsum: 'k' in 'ijk,ikj->i' has size 4 in one operand and 3 in another"),
    (lambda x: volta.tensordot(x, x, 1), ShapeError, r"tensordot: dimensions \[2\] of \(2, 3, 4\) and \[0\] of \(2, 3, 4\) differ in size"),
    (lambda x: x.index_add(0, volta.tensor([0]), x), ShapeError, r"index_add: source \(2, 3, 4\) must be like input")])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(volta.tensor(A))


def test_what_has_no_dimension_is_refused(device):
    x = volta.tensor(3.0, device=device)
    for call, text in ((volta.flipud, "flipud: needs at least 1 dimension"),
                       (lambda t: volta.fliplr(t.reshape(1)), "fliplr: needs at least 2 dimensions"),
                       (lambda t: t.roll(1, 0), "roll: a 0-d tensor has no dimension 0")):
        with pytest.raises(volta.errors.VoltaError, match=text):
            call(x)
    assert x.roll(1).item() == 3.0


def test_as_strided_shows_the_storage(device):
    x = volta.arange(6.0, device=device)
    assert x[2:].as_strided((2, 2), (1, 2), 1).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert x[2:].as_strided((2,), (0,)).tolist() == [2.0, 2.0]
    x.as_strided((3,), (2,)).add_(10)
    assert x.tolist() == [10.0, 1.0, 12.0, 3.0, 14.0, 5.0]
    for dtype in (volta.int64, volta.float16, volta.bool):
        with pytest.raises(ArgumentError, match="as_strided: sizes .* reach element 6, the storage has 6"):
            volta.zeros(6, dtype=dtype, device=device).as_strided((7,), (1,))
    for stride, offset in ((-1, 5), (1, -1)):
        with pytest.raises(ArgumentError, match="needs as many strides >= 0"):
            x.as_strided((2,), (stride,), offset)
    assert x.as_strided((0, 3), (99, 99)).shape == (0, 3)


def test_gradient_of_as_strided(device):
    x = volta.arange(12.0, device=device).reshape(3, 4).requires_grad_()
    y = (x * 1)[1:].t().as_strided((2, 3), (1, 2))          # elements 4, 6, 8 and 5, 7, 9
    g, = volta.autograd.grad((y * y).sum(), x, create_graph=True)
    expected = np.zeros(12, np.float32)
    expected[4:10] = 2 * np.arange(4, 10)
    np.testing.assert_array_equal(host(g).ravel(), expected)
    again, = volta.autograd.grad(g.sum(), x)
    np.testing.assert_array_equal(host(again).ravel(), (expected > 0) * 2.0)
    v = volta.ones(3, device=device, requires_grad=True)
    v.expand(2, 3).as_strided((2,), (1,)).sum().backward()
    assert v.grad.tolist() == [1.0, 1.0, 0.0]


def test_as_strided_scatter_writes_where_as_strided_reads(device):
    base, src = volta.arange(24.0, device=device), -volta.ones(2, 2, device=device)
    for x in (base, base.reshape(4, 6).t(), base[6:], base.reshape(4, 6)[1:, ::2]):
        for offset in (None, 7):
            flat, start = base.clone(), x.storage_offset() if offset is None else offset
            flat[volta.tensor([start, start + 1, start + 3, start + 4], device=device)] = -1.0
            out = volta.as_strided_scatter(x, src, (2, 2), (1, 3), offset)
            np.testing.assert_array_equal(host(out), host(flat.as_strided(x.shape, x.stride(), x.storage_offset())))
    assert volta.as_strided_scatter(base[:2].expand(2, 2), src[0], (2,), (2,)).tolist() == [[-1.0, 1.0], [-1.0, 1.0]]
    leaf, src = base.reshape(4, 6).requires_grad_(), volta.ones(3, device=device, requires_grad=True)
    volta.as_strided_scatter((leaf * 1).t(), src * 1, (3,), (1,)).sum().backward()
    assert host(leaf.grad).sum() == 21 and leaf.grad[0, :3].tolist() == [0.0] * 3 and src.grad.tolist() == [1.0] * 3


def test_splits_that_do_not_fit():
    for call, text in ((lambda: volta.hsplit(volta.ones(5), 2), "hsplit: dimension 0 of size 5 cannot be split into 2 equal parts"),
                       (lambda: volta.vsplit(volta.ones(5), 1), "vsplit: needs a tensor of at least 2 dimensions"),
                       (lambda: volta.split_with_sizes(volta.ones(5), (2, 2)), r"split_with_sizes: the sections \[2, 2\] add up to 4"),
                       (lambda: volta.rot90(volta.ones(2, 2), 1, (0, 0)), "rot90: dims must be two different dimensions"),
                       (lambda: volta.ones(2, 3).sum_to_size(2), r"sum_to_size: \(2, 3\) cannot be summed to \(2,\)"),
                       (lambda: volta.select_scatter(volta.ones(2, 3), volta.ones(2), 0, 1), "select_scatter: src must have the shape"),
                       (lambda: volta.diag_embed(volta.ones(2), 0, 0, 0), "diag_embed: needs at least a vector"),
                       (lambda: volta.block_diag(volta.ones(1, 1, 1)), "block_diag: needs matrices")):
        with pytest.raises((ArgumentError, ShapeError), match=text):
            call()


def test_copies_of_strided_views(device):
    x = volta.arange(12.0, device=device).reshape(3, 4)
    found = volta.as_strided_copy(x, (2, 2), (1, 4), 3)
    assert found.tolist() == [[3, 7], [4, 8]]
    found += 1
    assert x.flatten().tolist() == list(range(12))
    assert volta.view_copy(x.t(), (-1,)).tolist() == x.t().flatten().tolist()
    assert volta.view_copy(x, volta.int32).dtype is volta.int32


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (700, 3), (1, 1)])
def test_joining_parts_that_lie_anyhow(device, dtype, shape):
    """Views with steps between rows are joined without a copy, parts of few bytes element by element: as NumPy joins copies of them."""
    if dtype == "float16" and device == "gpu" and not volta.gpu.context().has_f16:
        pytest.skip("the adapter has no 16-bit floats")
    values = np.random.default_rng(0).integers(0, 100, shape)
    x = volta.tensor(values, device=device).to(getattr(volta, dtype))
    views = [x, x.flip(0), x[:1].expand(shape), x[..., :1].expand(shape), x.transpose(0, -1).contiguous().transpose(0, -1)]
    views += [volta.cat((x, x), -1)[..., shape[-1] - 1:-1], volta.cat((x, x), 0)[::2]]
    seen = [v.float().cpu().contiguous().numpy() for v in views]
    for k in range(len(views)):
        for d in range(-len(shape), len(shape)):
            for parts in ((k, 0), (0, k), (k, k, 0)):
                chosen, want = [views[i] for i in parts], [seen[i] for i in parts]
                np.testing.assert_array_equal(volta.cat(chosen, d).float().numpy(), np.concatenate(want, d))
                np.testing.assert_array_equal(volta.stack(chosen, d).float().numpy(), np.stack(want, d))


def test_pairs_of_many():
    a = np.arange(400_000, dtype=np.float32)
    for parts in ((a, -a), (a, -a, a + 1), (a.astype(np.float64), a.astype(np.float64))):
        found = volta.stack([volta.tensor(p) for p in parts], 1)
        np.testing.assert_array_equal(found.numpy(), np.stack(parts, 1))
