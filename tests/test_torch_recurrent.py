"""Recurrent layers, cells and packed sequences against PyTorch, with its weights."""
import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, DeviceError, DTypeError, ShapeError

torch = pytest.importorskip("torch", reason="compares with PyTorch")
rnn, their_rnn = volta.nn.utils.rnn, torch.nn.utils.rnn
LENGTHS = [3, 7, 1, 7, 4, 2, 1, 5, 3]


def compare(found, wanted):
    wanted = wanted.detach().numpy()
    volta.testing.assert_close(found.detach().numpy(), wanted, rtol=1e-4, atol=1e-4 * max(float(np.abs(wanted).max(initial=0.0)), 0.1))


def twins(name, device, *args, **options):
    theirs, ours = getattr(torch.nn, name)(*args, **options), getattr(volta.nn, name)(*args, **options)
    assert repr(ours) == repr(theirs)
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, tuple(p.shape)) for n, p in theirs.named_parameters()]
    ours.load_state_dict({n: volta.tensor(p.numpy()) for n, p in theirs.state_dict().items()})
    return theirs, ours.to(device)


def leaves(rng, device, *shapes):
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    return [torch.tensor(a, requires_grad=True) for a in arrays], [volta.tensor(a, device=device, requires_grad=True) for a in arrays]


def flat(result):
    return [t for each in result for t in flat(each)] if isinstance(result, (tuple, list)) else [result]


def differentiated(results, tensors):
    """The results and the gradients of a sum that weighs all of their elements."""
    total = 0.0
    for t in results:
        weights = np.cos(np.arange(t.numel(), dtype=np.float32)).reshape(tuple(t.shape))
        total = total + (t * (torch.tensor(weights) if isinstance(t, torch.Tensor) else volta.tensor(weights, device=t.device))).sum()
    total.backward()
    return [*results, *[t.grad for t in tensors]]


def same(theirs, ours):
    for wanted, found in zip(theirs, ours, strict=True):
        compare(found, wanted)


@pytest.mark.parametrize("name, size, options", [
    ("LSTM", 6, {}), ("GRU", 6, {"bias": False}), ("RNN", 6, {"nonlinearity": "relu"}), ("LSTM", 70, {}), ("GRU", 67, {}), ("RNN", 5, {}),
    ("LSTM", 16, {}), ("RNN", 100, {}),                 # whose panels of weights have two vectors and three
    ("LSTM", 6, {"num_layers": 2, "bidirectional": True, "batch_first": True}), ("GRU", 5, {"num_layers": 2, "bidirectional": True}),
    ("LSTM", 6, {"proj_size": 4, "bidirectional": True, "num_layers": 2}), ("LSTM", 6, {"proj_size": 1, "bias": False})])
@pytest.mark.parametrize("form", ["batch", "single", "packed"])
@pytest.mark.parametrize("initial", [False, True])
def test_layers(name, size, options, form, initial, device, rng):
    theirs, ours = twins(name, device, 3, size, **options)
    depth = theirs.num_layers * (1 + theirs.bidirectional)
    shape = (7, 3) if form == "single" else (9, 7, 3) if theirs.batch_first else (7, 9, 3)
    sizes = [theirs.proj_size or size, size] if name == "LSTM" else [size]
    states = [(depth, n) if form == "single" else (depth, 9, n) for n in sizes] if initial else []
    results = []
    for (x, *hx), net, utils in zip(leaves(rng, device, shape, *states), (theirs, ours), (their_rnn, rnn)):
        given = (tuple(hx) if name == "LSTM" else hx[0]) if initial else None
        if form == "packed":
            packed = utils.pack_padded_sequence(x, LENGTHS, batch_first=theirs.batch_first, enforce_sorted=False)
            out, last = net(packed, given)
            out = [out.data, utils.pad_packed_sequence(out, batch_first=theirs.batch_first)[0]]
        else:
            out, last = net(x, given)
        results.append(differentiated(flat([out, last]), [x, *hx, *net.parameters()]))
    same(*results)


@pytest.mark.parametrize("name, options", [("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu", "bias": False}), ("LSTMCell", {}),
                                           ("LSTMCell", {"bias": False}), ("GRUCell", {})])
@pytest.mark.parametrize("batch", [(), (4,)])
@pytest.mark.parametrize("initial", [False, True])
def test_cells(name, options, batch, initial, device, rng):
    theirs, ours = twins(name, device, 3, 5, **options)
    states = [(*batch, 5)] * (2 if name == "LSTMCell" else 1) if initial else []
    results = []
    for (x, *hx), net in zip(leaves(rng, device, (*batch, 3), *states), (theirs, ours)):
        results.append(differentiated(flat(net(x, (tuple(hx) if name == "LSTMCell" else hx[0]) if initial else None)),
                                      [x, *hx, *net.parameters()]))
    same(*results)


def test_dropout_between_layers():
    volta.manual_seed(1)
    net, x = volta.nn.GRU(3, 4, num_layers=2, dropout=0.5), volta.ones(5, 2, 3)
    assert not volta.equal(net(x)[0], net(x)[0])
    net.eval()
    assert volta.equal(net(x)[0], net(x)[0])


def test_initialisation():
    net = volta.nn.LSTM(3, 16, bias=True)
    assert all(0.2 < float(p.abs().max()) <= 0.25 for p in net.parameters())
    assert [p is net.weight_hh_l0 for p in net.all_weights[0]] == [False, True, False, False]
    net.flatten_parameters()


def test_a_step_transfers_nothing(device):
    net, x = volta.nn.LSTM(3, 4, 2, bidirectional=True).to(device), volta.ones(5, 2, 3, device=device)
    packed = rnn.pack_padded_sequence(x, [5, 3])
    with volta.gpu.forbid_transfers():
        net(x)[0].sum().backward()
        rnn.pad_packed_sequence(net(packed)[0], total_length=6)[0].sum().backward()


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packing(batch_first, enforce_sorted, device, rng):
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    results = []
    for xs, utils in zip(leaves(rng, device, *[(n, 2) for n in lengths]), (their_rnn, rnn)):
        packed = utils.pack_sequence(xs, enforce_sorted)
        padded, found = utils.pad_packed_sequence(packed, batch_first, 0.5, 9)
        parts = utils.unpad_sequence(padded.clone(), found, batch_first)
        left = utils.pad_sequence(xs, batch_first, -1.0, "left")
        outputs = [packed.data, padded, left, *utils.unpack_sequence(packed), *parts]
        results.append([*differentiated(outputs, xs), packed.batch_sizes, found])
        assert found.tolist() == lengths
    same(*results)


def test_moving_packed_sequences(device):
    packed = rnn.pack_sequence([volta.ones(2, 3), volta.ones(4, 3)], enforce_sorted=False)
    moved = packed.to(device)
    assert moved.data.device == moved.sorted_indices.device == volta.device(device) and moved.batch_sizes.device.type == "cpu"
    assert packed.float() is packed and packed.double().data.dtype is volta.float64
    assert rnn.invert_permutation(None) is None and packed.is_cuda is False
    assert packed.pin_memory() is packed and packed.is_pinned() is False


def reshaped(net, name, shape):
    setattr(net, name, volta.nn.Parameter(volta.zeros(*shape)))
    return net


@pytest.mark.parametrize("call, error, text", [
    (lambda: volta.nn.LSTM(3, 4, proj_size=4), ArgumentError, "proj_size"),
    (lambda: volta.nn.GRU(3, 0), ArgumentError, "hidden_size must be greater than zero"),
    (lambda: volta.nn.GRU(3.0, 2), DTypeError, "input_size should be of type int"),
    (lambda: volta.nn.RNN(3, 4, nonlinearity="sin"), ArgumentError, "select from 'tanh' or 'relu'"),
    (lambda: volta.nn.RNN(3, 4, 2, dropout=2), ArgumentError, "range"),
    (lambda: volta.nn.LSTM(3, 4)(volta.zeros(2, 2, 5)), ShapeError, "Expected 3, got 5"),
    (lambda: volta.nn.LSTM(3, 4)(volta.zeros(0, 2, 3)), ShapeError, "larger than 0"),
    (lambda: volta.nn.LSTM(3, 4)(volta.zeros(2, 2, 3).double()), ArgumentError, "does not match weight dtype"),
    (lambda: volta.nn.LSTM(3, 4)(volta.zeros(2, 2, 3), (volta.zeros(1, 2, 4), volta.zeros(1, 2, 3))), ShapeError, "hidden\\[1\\] size"),
    (lambda: volta.nn.GRU(3, 4)(volta.zeros(2, 2, 3), volta.zeros(1, 4)), ShapeError, "hx should also be 3-D"),
    (lambda: volta.nn.GRUCell(3, 4)(volta.zeros(2, 5)), ShapeError, "inconsistent input_size"),
    (lambda: volta.nn.LSTMCell(3, 4)(volta.zeros(2, 3), (volta.zeros(3, 4), volta.zeros(2, 4))), ShapeError, "hidden0"),
    (lambda: rnn.pack_padded_sequence(volta.zeros(3, 2, 1), [2, 3]), ArgumentError, "sorted in decreasing order"),
    (lambda: rnn.pack_padded_sequence(volta.zeros(3, 2, 1), [3, 0]), ArgumentError, "greater than 0"),
    (lambda: rnn.pack_padded_sequence(volta.zeros(3, 2, 1), [3]), ShapeError, "batch_size"),
    (lambda: volta.nn.GRU(1, 4)(rnn.PackedSequence(volta.zeros(3, 1), volta.tensor([1, 2]))), ShapeError, "never grow"),
    (lambda: volta.nn.GRU(1, 4)(rnn.PackedSequence(volta.zeros(3, 1), volta.tensor([2, 2]))), ShapeError, "add up to the 3 rows"),
    (lambda: volta.nn.LSTM(3, 4)(volta.zeros(2, 2, 3), volta.zeros(1, 2, 4)), ShapeError, "pair of tensors"),
    (lambda: reshaped(volta.nn.LSTM(3, 4), "weight_hh_l0", (16, 5))(volta.zeros(2, 2, 3)), ShapeError, "must have the shapes"),
    (lambda: reshaped(volta.nn.GRU(3, 4), "bias_hh_l0", (4,))(volta.zeros(2, 2, 3)), ShapeError, "must have the shapes"),
    (lambda: rnn.pad_sequence([]), ArgumentError, "empty list")])
def test_wrong_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.gpu
def test_lengths_lie_on_the_cpu(gpu):
    with pytest.raises(DeviceError, match="on the CPU"):
        rnn.pack_padded_sequence(volta.zeros(3, 2, 1), volta.ones(2, device=gpu).long())
