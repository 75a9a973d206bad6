"""Attention against PyTorch: masks, groups of heads and layouts of the function; the layers with PyTorch's weights."""
import math

import numpy as np
import pytest

import volta
from volta._kernels.core import threads
from volta.devices.gpu import attention as tiles
from volta.errors import ArgumentError, DTypeError, ShapeError

torch = pytest.importorskip("torch", reason="compares with PyTorch")
F, TF = volta.nn.functional, torch.nn.functional

MASKS = {"keys": (1, 1, 70), "queries": (67, 1), "heads": (4, 67, 70), "batches": (2, 1, 67, 70)}


def compare(found, wanted, rtol=1e-4):
    wanted = wanted.detach().numpy()
    volta.testing.assert_close(found.detach().numpy(), wanted, rtol=rtol, atol=rtol * max(float(np.abs(wanted).max()), 0.1))


def both(arrays, device):
    return ([torch.tensor(a).requires_grad_(a.dtype.kind == "f") for a in arrays],
            [volta.tensor(a, device=device, requires_grad=a.dtype.kind == "f") for a in arrays])


def differentiated(out, tensors):
    weights = np.cos(np.arange(math.prod(out.shape), dtype=np.float32)).reshape(tuple(out.shape))
    weights = torch.tensor(weights) if isinstance(out, torch.Tensor) else volta.tensor(weights, device=out.device)
    (out * weights).sum().backward()
    return [out, *[t.grad for t in tensors if t.requires_grad]]


@pytest.mark.parametrize("groups, width, causal", [(4, 8, False), (2, 33, True), (1, 72, False)])
@pytest.mark.parametrize("mask", [None, *MASKS])
@pytest.mark.parametrize("kind", ["bool", "added"])
def test_masks_and_groups(groups, width, causal, mask, kind, device, rng):
    """Heads lie behind the sequence in memory, as projections give them; rows that see no key give zeros."""
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 67, 4, width), (2, 70, groups, width), (2, 70, groups, width))]
    if mask is not None:
        seen = rng.random(MASKS[mask]) < 0.7
        seen[..., 5 % seen.shape[-2], :] = False
        arrays.append(seen if kind == "bool" else np.where(seen, rng.standard_normal(seen.shape), -np.inf).astype(np.float32))
    results = []
    for tensors, function in zip(both(arrays, device), (TF.scaled_dot_product_attention, F.scaled_dot_product_attention)):
        options = {"attn_mask": tensors[3] if mask else None, "is_causal": causal, "enable_gqa": groups != 4}
        if function is TF.scaled_dot_product_attention and mask and causal:         # refused together where the mask has a gradient
            later = torch.ones(67, 70, dtype=torch.bool).triu(1)
            options |= {"is_causal": False, "attn_mask": tensors[3].masked_fill(later, False if kind == "bool" else -math.inf)}
        results.append(differentiated(function(*[t.transpose(1, 2) for t in tensors[:3]], **options), tensors))
    for wanted, found in zip(*results):
        compare(found, wanted)


# By width, heads and length: microseconds on an H200 with so many splits, forward.
MEASURED = {
    (96, 48, 1024): {1: 523, 2: 538, 4: 543}, (96, 8, 1024): {2: 100, 4: 101}, (96, 8, 4096): {1: 1464, 2: 1392, 4: 1392},
    (96, 8, 512): {1: 62, 2: 38, 4: 32}, (96, 16, 512): {1: 67, 2: 54, 3: 73, 4: 58}, (96, 8, 256): {1: 34, 2: 23, 4: 18},
    (64, 48, 1024): {1: 351, 2: 368, 3: 375, 4: 385}, (64, 8, 1024): {1: 94, 2: 72, 3: 98, 4: 73}, (64, 8, 256): {1: 32, 2: 30},
    (64, 8, 512): {1: 51, 2: 40, 3: 47, 4: 33}, (128, 48, 1024): {1: 643, 2: 672, 3: 712},
    (128, 8, 1024): {1: 209, 2: 114, 3: 166}, (128, 8, 4096): {1: 1674, 2: 1692, 3: 1711}, (128, 8, 512): {1: 81, 2: 49, 3: 67, 4: 42},
    (128, 8, 384): {1: 59, 2: 49, 3: 41}, (128, 8, 256): {1: 32, 2: 24, 3: 31, 4: 24},
}


@pytest.mark.parametrize("width, heads, length", MEASURED)
def test_splits_are_those_measured_best(width, heads, length):
    times = MEASURED[width, heads, length]
    tile = tiles.tile_of(tiles.FORWARD, width, 49152, heads, length, length)
    found = tile.splits(tiles.FORWARD, width, tile.met(tiles.FORWARD, length, length, False), heads, heads * length * width, 100)
    assert times[found] <= 1.02 * min(times.values())


@pytest.mark.parametrize("rows, columns, pairs, width, tile", [
    (1, 1, 16, 64, tiles.SMALL), (32, 32, 1000, 128, tiles.SMALL), (1, 4096, 16, 64, tiles.WIDE), (33, 32, 16, 64, tiles.LOW),
    (64, 64, 512, 128, tiles.LOW), (128, 128, 96, 32, tiles.LOW), (128, 128, 512, 64, tiles.TILES[tiles.FORWARD][64]),
    (32, 32, 16, 256, tiles.TILES[tiles.FORWARD][256])])
def test_short_heads_have_tiles_of_their_own(rows, columns, pairs, width, tile):
    assert tiles.tile_of(tiles.FORWARD, width, 49152, pairs, rows, columns) == tile
    assert tiles.tile_of(tiles.FORWARD, width, 16384, pairs, rows, columns).shared(tiles.FORWARD, width) <= 16384


EVERY = sorted({*tiles.TILES[tiles.FORWARD].values(), *(few.tile for some in tiles.FEW[tiles.FORWARD].values() for few in some),
                tiles.SMALL, tiles.WIDE, tiles.LOW, *tiles.OTHERS})


@pytest.mark.parametrize("tile", EVERY, ids=str)
def test_every_tile(tile, gpu, rng, monkeypatch):
    """Each tile that some shape takes: tiles that are full, and ends of rows, columns and of lines, of which threads own two parts."""
    monkeypatch.setattr(tiles, "tile_of", lambda *_: tile)
    monkeypatch.setattr(tiles.Tile, "splits", lambda *_: 1)
    plans, rows, columns, width = tiles.KERNELS["attention"].plans, tile.rows + 5, tile.columns + 3, min(4 * tile.lanes_x + 4, 128)
    plans.clear()
    theirs, ours = both([rng.standard_normal((1, 1, n, width)).astype(np.float32) for n in (rows, columns, columns)], gpu)
    compare(F.scaled_dot_product_attention(*ours), TF.scaled_dot_product_attention(*theirs))
    plans.clear()


# The same, backward.
MEASURED_BACKWARD = {
    (96, 48, 1024): {1: 2216, 2: 1751}, (96, 8, 1024): {1: 392, 2: 297}, (96, 8, 4096): {1: 4307, 2: 4265},
    (64, 48, 1024): {1: 1028, 2: 1038}, (64, 8, 1024): {1: 329, 2: 180}, (64, 8, 4096): {1: 2714, 2: 2742},
}


@pytest.mark.parametrize("width, heads, length", MEASURED_BACKWARD)
def test_splits_are_those_measured_best_backward(width, heads, length):
    times = MEASURED_BACKWARD[width, heads, length]
    tile = tiles.tile_of(tiles.BACKWARD, width, 49152, heads, length, length)
    copies = tile.copies(length, length, heads, False, 100)
    works = tiles.owned(tile.met(tiles.BACKWARD, length, length, False), copies)
    found = tile.splits(tiles.BACKWARD, width, works, heads, 2 * heads * length * width, 100)
    assert times[found] <= 1.02 * min(times.values())


@pytest.mark.parametrize("causal, masked, keys, width", [(False, False, 300, 20), (True, False, 300, 20), (False, True, 300, 20),
                                                         (False, False, 129, 20), (False, True, 300, 92), (True, False, 300, 92)])
def test_parts_of_many_keys(causal, masked, keys, width, device, rng):
    """A GPU shares few heads of many keys or queries out in parts: rows that see no key of a part, or none; the same bits again."""
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((1, 4, 290, width), (1, 2, keys, width), (1, 2, keys, 12))]
    options = {"is_causal": causal, "enable_gqa": True}
    mask = np.ones((290, keys), bool)
    mask[3, :140], mask[4, 60:], mask[5] = False, False, False
    results = []
    for repeated in (0, 0, 1):
        theirs, ours = both(arrays, device)
        if repeated == 0:
            results.append(differentiated(F.scaled_dot_product_attention(
                *ours, **options, **({"attn_mask": volta.tensor(mask, device=device)} if masked else {})), ours))
        else:
            results.append(differentiated(TF.scaled_dot_product_attention(
                *theirs, **options, **({"attn_mask": torch.tensor(mask)} if masked else {})), theirs))
    for first, again, wanted in zip(*results):
        compare(first, wanted)
        assert np.array_equal(first.detach().numpy(), again.detach().numpy())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, width", [(290, 20), (290, 92), (2, 92)])
def test_threads_change_no_bit(causal, queries, width, rng):
    arrays = [rng.standard_normal((1, 4, n, width)).astype(np.float32) for n in (queries, 300, 300)]
    before, found = volta.get_num_threads(), []
    try:
        threads.assume_processors(16)
        for count in (1, 3, 16):
            volta.set_num_threads(count)
            _, ours = both(arrays, "cpu")
            found.append([t.detach().numpy() for t in differentiated(F.scaled_dot_product_attention(*ours, is_causal=causal), ours)])
    finally:
        threads.assume_processors(0)
        volta.set_num_threads(before)
    for result in zip(*found):
        assert all(np.array_equal(result[0], other) for other in result[1:])


@pytest.mark.parametrize("queries", [1, 2, 4, 5])
@pytest.mark.parametrize("keys, width, values, options", [
    (7, 5, 3, {}), (300, 64, 64, {}), (161, 33, 20, {"causal": True}), (300, 16, 40, {"mask": "row"}), (300, 16, 40, {"mask": "column"})])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_queries(queries, keys, width, values, options, dtype, rng):
    """As when a text is continued: over several blocks of keys, heads behind the sequence, with and without a mask."""
    arrays = [rng.standard_normal(s).astype(dtype) for s in ((2, queries, 3, width), (2, keys, 3, width), (2, keys, 3, values))]
    mask = {"row": (1, 1, 1, keys), "column": (2, 3, queries, 1), None: None}[options.get("mask")]
    mask = None if mask is None else rng.standard_normal(mask).astype(dtype)
    results = []
    for tensors, make in zip(both(arrays, "cpu"), (torch, volta)):
        out = make.nn.functional.scaled_dot_product_attention(
            *[t.transpose(1, 2) for t in tensors], attn_mask=None if mask is None else make.tensor(mask),
            is_causal=options.get("causal", False))
        out.backward(make.tensor(np.cos(np.arange(math.prod(out.shape))).reshape(tuple(out.shape)).astype(dtype)))
        results.append([out, *[t.grad for t in tensors]])
    for wanted, found in zip(*results):
        compare(found, wanted, 1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("queries", [1, 4, 5])
def test_probabilities_of_large_scores_sum_to_one_backward(queries, rng):
    """Both passes have the same scores, bit by bit: what a score of 10,000 is rounded by would change a probability by a thousandth."""
    q, k, v = (volta.tensor(rng.standard_normal((1, 1, n, 40)).astype(np.float32) * scale, requires_grad=True)
               for n, scale in ((queries, 1000), (300, 10), (300, 1)))
    F.scaled_dot_product_attention(q, k, v).sum().backward()
    np.testing.assert_allclose(v.grad.numpy().astype(np.float64).sum(2), queries, rtol=2e-6)


def test_parts_of_many_keys_pass_nan_on(device):
    """NaN in one part of the keys is in every row that sees it, and in no row before."""
    q, k, v = (np.ones((1, 1, 300, 4), np.float32) for _ in range(3))
    k[0, 0, 280, 0] = np.nan
    x = [volta.tensor(t, device=device) for t in (q, k, v)]
    assert np.isnan(F.scaled_dot_product_attention(*x).numpy()).all()
    seen = np.isnan(F.scaled_dot_product_attention(*x, is_causal=True).numpy()).all(-1)[0, 0]
    assert not seen[:256].any() and seen[280:].all()


@pytest.mark.parametrize("first, batch_first, activation", [(False, False, "relu"), (True, True, "gelu")])
def test_transformer(first, batch_first, activation, device, rng):
    options = {"d_model": 8, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 2, "dim_feedforward": 12, "dropout": 0.0,
               "activation": activation, "norm_first": first, "batch_first": batch_first}
    theirs, ours = torch.nn.Transformer(**options), volta.nn.Transformer(**options)
    ours.load_state_dict({name: volta.tensor(p.detach().numpy()) for name, p in theirs.state_dict().items()})
    ours.to(device)
    arrays = [rng.standard_normal((n, 3, 8) if not batch_first else (3, n, 8)).astype(np.float32) for n in (5, 4)]
    padding = np.arange(5) >= np.array([[5], [4], [2]])
    results = []
    for tensors, net, hidden in zip(both(arrays, device), (theirs, ours), (torch.tensor(padding), volta.tensor(padding, device=device))):
        causal = net.generate_square_subsequent_mask(4).to(tensors[0].device)
        out = net(*tensors, tgt_mask=causal, src_key_padding_mask=hidden, memory_key_padding_mask=hidden, tgt_is_causal=True)
        results.append(differentiated(out, [*tensors, *net.parameters()]))
    for wanted, found in zip(*results):
        compare(found, wanted, 1e-3)


@pytest.mark.parametrize("options", [{}, {"kdim": 5, "vdim": 3, "bias": False}, {"add_bias_kv": True, "add_zero_attn": True}])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(options, need_weights, device, rng):
    theirs, ours = torch.nn.MultiheadAttention(8, 2, **options), volta.nn.MultiheadAttention(8, 2, **options)
    ours.load_state_dict({name: volta.tensor(p.detach().numpy()) for name, p in theirs.state_dict().items()})
    ours.to(device)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((4, 3, 8), (5, 3, theirs.kdim), (5, 3, theirs.vdim))]
    masks = [np.arange(5) >= np.array([[5], [4], [4]]), np.tri(4, 5, -1, dtype=bool)]
    results = []
    for tensors, net in zip(both([*arrays, *masks], device), (theirs, ours)):
        out, weights = net(*tensors[:3], key_padding_mask=tensors[3], attn_mask=tensors[4], need_weights=need_weights)
        results.append(differentiated(out, [*tensors[:3], *net.parameters()]) + [weights] * need_weights)
    for wanted, found in zip(*results):
        compare(found, wanted, 1e-3)


@pytest.mark.parametrize("name", ["MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"])
@pytest.mark.parametrize("options", [{}, {"bias": False, "batch_first": True}])
def test_layers_show_and_save_as_pytorchs(name, options, device):
    """The stacks' layers are copies of their own; all matrices of a Transformer are drawn again."""
    counts = {"num_encoder_layers": 2, "num_decoder_layers": 1} if name == "Transformer" else {}
    theirs, ours = (getattr(package.nn, name)(8, 2, **counts, **options) for package in (torch, volta))
    assert repr(theirs) == repr(ours) and list(theirs.state_dict()) == list(ours.state_dict())
    if counts:
        first, second = (layer.linear1.weight for layer in ours.to(device).encoder.layers)
        assert not volta.equal(first, second)
        assert float(first.detach().abs().max()) <= math.sqrt(6 / sum(first.shape))


@pytest.mark.parametrize("unbatched", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_stacks(unbatched, training, device, rng):
    """An encoder and a decoder with a last norm, a function as activation and added masks."""
    results, shape = [], (5, 4) if unbatched else (5, 2, 4)
    arrays, causal = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)], np.where(np.tri(5, dtype=bool), 0, -np.inf)
    state = None
    for package, place in ((torch, "cpu"), (volta, device)):
        nn = package.nn
        options = {"dim_feedforward": 6, "dropout": 0.0, "activation": nn.functional.silu}
        net = nn.ModuleDict({"encoder": nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, **options), 2, nn.LayerNorm(4)),
                             "decoder": nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, **options), 2, nn.LayerNorm(4))})
        state = state or {name: p.detach().numpy().copy() for name, p in net.state_dict().items()}
        net.load_state_dict({name: package.tensor(p) for name, p in state.items()})
        net.to(place).train(training)
        src, tgt, mask = (package.tensor(a, device=place, dtype=package.float32) for a in (*arrays, causal))
        memory = net["encoder"](src, mask=mask, is_causal=True)
        out = net["decoder"](tgt, memory, tgt_mask=mask, memory_mask=mask)
        results.append(differentiated(out, list(net.parameters())))
    for wanted, found in zip(*results):
        compare(found, wanted, 1e-3)


def test_dropout_keeps_the_mean(device):
    """Each probability is dropped or scaled, anew in every call."""
    q, v = volta.zeros(1, 64, 4, device=device), volta.ones(1, 256, 1, device=device)
    volta.manual_seed(3)
    first, second = (F.scaled_dot_product_attention(q, volta.zeros(1, 256, 4, device=device), v, dropout_p=0.25) for _ in range(2))
    assert abs(float(first.mean()) - 1.0) < 0.02 and 0.02 < float(first.std()) < 0.06
    assert not volta.equal(first, second)


@pytest.mark.parametrize("error, shapes, options, text", [
    (ShapeError, ((4, 3), (5, 2), (5, 3)), {}, "must agree in E and S, got"),
    (ShapeError, ((3,), (5, 3), (5, 3)), {}, "need at least 2 dimensions, got"),
    (ShapeError, ((3, 4, 2), (2, 5, 2), (2, 5, 2)), {"enable_gqa": True}, "heads of key and value must divide those of query, got"),
    (ArgumentError, ((4, 2), (5, 2), (5, 2)), {"dropout_p": 1.5}, "dropout_p must be a probability"),
    (ShapeError, ((4, 2), (5, 2), (5, 2)), {"attn_mask": (4, 4)}, "attn_mask (4, 4) does not broadcast to the scores' shape (4, 5)"),
    (DTypeError, ((4, 2), (5, 2), (5, 2)), {"attn_mask": None}, "attn_mask must be bool, float32 or float32 as query is, got int64")])
def test_wrong_arguments(error, shapes, options, text):
    if "attn_mask" in options:
        shape = options["attn_mask"]
        options = {"attn_mask": volta.ones(shape) if shape else volta.ones(4, 5).long()}
    with pytest.raises(error, match="scaled_dot_product_attention: ") as raised:
        F.scaled_dot_product_attention(*map(volta.zeros, shapes), **options)
    assert text in str(raised.value)


@pytest.mark.parametrize("names", ["xxx", "xyy", "xyx", "xxy"])
@pytest.mark.parametrize("bias", [True, False])
def test_what_stands_in_several_places_is_projected_once(names, bias, device):
    """With the results and gradients of projections by themselves."""
    volta.manual_seed(0)
    layer = volta.nn.MultiheadAttention(8, 2, bias=bias, batch_first=True).to(device)
    arrays = {name: volta.randn(2, 5, 8).numpy() for name in "xy"}
    found = []
    for shared in (True, False):
        tensors = {name: volta.tensor(a, device=device, requires_grad=True) for name, a in arrays.items()}
        given = [tensors[name] if shared else tensors[name] * 1 for name in names]
        out, weights = layer(*given)
        (out.sin().sum() + weights.square().sum()).backward()
        grads = [x.grad for x in (*tensors.values(), *layer.parameters()) if x.grad is not None]
        found.append([x.detach().cpu().numpy().copy() for x in (out, weights, *grads)])
        layer.zero_grad()
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    if device != "cpu" and names == "xxx":
        before = volta.gpu.stats()
        layer(tensors["x"], tensors["x"], tensors["x"], need_weights=False)
        assert (volta.gpu.stats() - before).dispatches == 3


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 1, 4)])
def test_one_more_key_of_any_rank(shape):
    """The vectors that are put behind all keys and values may have fewer dimensions than these, as in PyTorch."""
    found = []
    for lib in torch, volta:
        exact = {"dtype": lib.float64}          # in float32 the terms of a small element cancel, and both are 1e-5 off
        x, w = lib.arange(24.0, **exact).reshape(3, 2, 4) / 24, lib.arange(48.0, **exact).reshape(12, 4) / 48
        extra = lib.arange(4.0, **exact).reshape(shape)
        function = lib.nn.functional.multi_head_attention_forward
        found.append(function(x, x, x, 4, 2, w, None, extra, -extra, False, 0.0, w[:4], None)[0].tolist())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)
