"""Every class of volta.nn beside PyTorch's: repr, state dict both ways, outputs, gradients, 20 steps of training, inputs refused."""
import inspect

import numpy as np
import pytest

import volta
from volta import nn

torch = pytest.importorskip("torch", reason="compares with PyTorch")

SEQUENCE, IMAGE, VOLUME = (2, 4, 8), (2, 4, 6, 7), (2, 4, 5, 6, 7)
BY_RANK = {1: SEQUENCE, 2: IMAGE, 3: VOLUME}
SIGNS, LABELS, CHANCES, LOGS = "signs", "labels", "chances", "logs"         # kinds of inputs that are no normal numbers

# Name: forms, each of arguments, options, and inputs: shapes, or (kind, shape).
LAYERS = {
    "Linear": [((4, 3), {}, [(2, 4)]), ((4, 3), {"bias": False}, [(2, 5, 4)])], "Identity": [((), {}, [(2, 3)])],
    "Bilinear": [((3, 4, 2), {}, [(5, 3), (5, 4)])],
    "Flatten": [((), {}, [IMAGE]), ((0, 1), {}, [IMAGE])], "Unflatten": [((1, (2, 2)), {}, [SEQUENCE])],
    "Embedding": [((7, 3), {"padding_idx": 1}, [(LABELS, (2, 4), 7)]), ((7, 3), {"max_norm": 1.0}, [(LABELS, (5,), 7)])],
    "EmbeddingBag": [((7, 3), {"mode": mode}, [(LABELS, (4, 5), 7)]) for mode in ("sum", "mean", "max")],
    "LayerNorm": [((7,), {}, [IMAGE]), (((6, 7),), {"bias": False}, [IMAGE])], "RMSNorm": [((7,), {}, [IMAGE])],
    "GroupNorm": [((2, 4), {}, [IMAGE])], "LocalResponseNorm": [((3,), {}, [IMAGE])],
    "PixelShuffle": [((2,), {}, [(2, 8, 3, 4)])], "PixelUnshuffle": [((2,), {}, [(2, 3, 4, 6)])], "ChannelShuffle": [((2,), {}, [IMAGE])],
    "Unfold": [((2,), {"stride": 2}, [IMAGE])], "Fold": [(((4, 5), 2), {}, [(2, 12, 12)])],
    "Upsample": [((), {"scale_factor": 2, "mode": mode}, [shape]) for mode, shape in (
        ("nearest", SEQUENCE), ("bilinear", IMAGE), ("trilinear", VOLUME), ("bicubic", IMAGE))],
    "UpsamplingNearest2d": [((), {"size": (5, 9)}, [IMAGE])], "UpsamplingBilinear2d": [((), {"scale_factor": 2}, [IMAGE])],
    "Softmax2d": [((), {}, [IMAGE])], "PReLU": [((4,), {}, [IMAGE]), ((), {}, [(3,)])], "GLU": [((1,), {}, [IMAGE])],
    "Threshold": [((0.1, 2.0), {}, [IMAGE])], "RReLU": [((), {}, [IMAGE])], "Dropout": [((0.0,), {}, [IMAGE])],
    "AlphaDropout": [((0.0,), {}, [IMAGE])], "FeatureAlphaDropout": [((0.0,), {}, [IMAGE])],
    "CosineSimilarity": [((1,), {}, [(3, 4), (3, 4)])], "PairwiseDistance": [((2.0,), {}, [(3, 4), (3, 4)])],
    # ------------------------------------------------------------ losses
    **{name: [((), {}, [(3, 4), (3, 4)]), ((), {"reduction": "sum"}, [(3, 4), (3, 4)])] for name in ("L1Loss", "MSELoss", "SmoothL1Loss",
                                                                                                "HuberLoss")},
    "NLLLoss": [((), {}, [(LOGS, (3, 5)), (LABELS, (3,), 5)])], "NLLLoss2d": [((), {}, [(LOGS, (2, 5, 3, 3)), (LABELS, (2, 3, 3), 5)])],
    "CrossEntropyLoss": [((), {"label_smoothing": 0.1}, [(3, 5), (LABELS, (3,), 5)])],
    "PoissonNLLLoss": [((), {}, [(3, 4), (CHANCES, (3, 4))])],
    "GaussianNLLLoss": [((), {}, [(3, 4), (3, 4), (CHANCES, (3, 4))])], "KLDivLoss": [((), {"reduction": "batchmean"}, [
        (LOGS, (3, 4)), (CHANCES, (3, 4))])], "BCELoss": [((), {}, [(CHANCES, (3, 4)), (CHANCES, (3, 4))])],
    "BCEWithLogitsLoss": [((), {}, [(3, 4), (CHANCES, (3, 4))])], "SoftMarginLoss": [((), {}, [(3, 4), (SIGNS, (3, 4))])],
    "HingeEmbeddingLoss": [((), {}, [(3, 4), (SIGNS, (3, 4))])], "MarginRankingLoss": [((0.1,), {}, [(3,), (3,), (SIGNS, (3,))])],
    "CosineEmbeddingLoss": [((), {}, [(3, 4), (3, 4), (SIGNS, (3,))])], "TripletMarginLoss": [((), {}, [(3, 4)] * 3)],
    "TripletMarginWithDistanceLoss": [((), {}, [(3, 4)] * 3)], "MultiLabelSoftMarginLoss": [((), {}, [(3, 4), (CHANCES, (3, 4))])],
    "MultiLabelMarginLoss": [((), {}, [(3, 4), (LABELS, (3, 4), 4)])], "MultiMarginLoss": [((), {}, [(3, 4), (LABELS, (3,), 4)])],
}
LAYERS |= {name: [((), {}, [IMAGE])] for name in (
    "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink "
    "Softsign Tanh Tanhshrink").split()}
LAYERS |= {name: [((1,), {}, [IMAGE])] for name in ("Softmax", "Softmin", "LogSoftmax")}
for n, shape in BY_RANK.items():
    LAYERS |= {
        f"Conv{n}d": [((4, 6, 3), {"padding": 1, "stride": 2, "groups": 2}, [shape]),
                      ((4, 2, 3), {"padding": "same", "padding_mode": "reflect", "bias": False}, [shape])],
        f"ConvTranspose{n}d": [((4, 6, 3), {"padding": 1, "stride": 2, "groups": 2, "output_padding": 1}, [shape])],
        f"BatchNorm{n}d": [((4,), {}, [shape]), ((4,), {"momentum": None, "affine": False}, [shape])],
        f"InstanceNorm{n}d": [((4,), {}, [shape]), ((4,), {"affine": True, "track_running_stats": True}, [shape])],
        f"MaxPool{n}d": [((2,), {"stride": 1, "padding": 1, "dilation": 2}, [shape])], f"LPPool{n}d": [((2, 2), {}, [shape])],
        f"AvgPool{n}d": [((3,), {"padding": 1, "count_include_pad": False}, [shape])], f"AdaptiveAvgPool{n}d": [((2,), {}, [shape])],
        f"AdaptiveMaxPool{n}d": [((2,), {}, [shape])], f"Dropout{n}d": [((0.0,), {}, [shape])], f"ZeroPad{n}d": [((1,), {}, [shape])],
        f"ConstantPad{n}d": [((2, 0.5), {}, [shape])], f"ReflectionPad{n}d": [((1,), {}, [shape])],
        f"ReplicationPad{n}d": [((2,), {}, [shape])], f"CircularPad{n}d": [((1,), {}, [shape])]}
# What has tests of its own beside PyTorch: in test_torch_recurrent.py, test_torch_attention.py, test_torch_layers.py and below.
ELSEWHERE = ("RNN RNNCell LSTM LSTMCell GRU GRUCell MultiheadAttention Transformer TransformerEncoder TransformerEncoderLayer "
             "TransformerDecoder TransformerDecoderLayer AdaptiveLogSoftmaxWithLoss SyncBatchNorm DataParallel CTCLoss MaxUnpool1d "
             "MaxUnpool2d MaxUnpool3d FractionalMaxPool2d FractionalMaxPool3d Module Sequential ModuleList ModuleDict ParameterList "
             "ParameterDict RNNBase RNNCellBase LinearCrossEntropyLoss").split()


def test_every_class_has_a_form():
    classes = {name for name, kind in vars(nn).items() if inspect.isclass(kind) and issubclass(kind, nn.Module) and name[0] != "_"}
    assert not {name for name in classes - set(LAYERS) - set(ELSEWHERE) if not name.startswith("Lazy")}


def drawn(rng, spec):
    kind, shape, *rest = spec if isinstance(spec[0], str) else ("normal", spec)
    if kind == LABELS:
        return rng.integers(0, rest[0], shape)
    array = {"normal": rng.standard_normal, SIGNS: lambda s: rng.choice([-1.0, 1.0], s), CHANCES: lambda s: rng.uniform(0.1, 0.9, s),
             LOGS: lambda s: -rng.uniform(0.1, 3.0, s)}[kind](shape)
    return array.astype(np.float32)


def twins(name, args, options, device):
    theirs, ours = (getattr(library.nn, name)(*args, **options) for library in (torch, volta))
    assert repr(theirs) == repr(ours) and list(theirs.state_dict()) == list(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours.to(device)


def trained(library, module, arrays, place):
    """Output and gradients of the first of 20 steps, the loss of each, and the state after them."""
    def tensor(a):
        return library.tensor(a, device=place, requires_grad=a.dtype == np.float32 and not (np.abs(a) == 1).all())
    inputs = [tensor(a) for a in arrays]
    optimizer = library.optim.SGD(parameters, 0.05, 0.9) if (parameters := list(module.parameters())) else None
    first, losses = None, []
    for _ in range(20 if parameters else 1):
        module.zero_grad()
        out = module(*inputs)
        loss = (out * out).mean() + out.mean()
        loss.backward() if loss.requires_grad else None
        if first is None:
            first = [np.array(x.detach().cpu().numpy()) for x in (out, *(x.grad for x in (*inputs, *parameters) if x.grad is not None))]
        losses.append(loss.item())
        optimizer.step() if optimizer else None
    return first, losses, {key: np.array(value.cpu().numpy()) for key, value in module.state_dict().items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, form", [(name, i) for name, forms in LAYERS.items() for i in range(len(forms))])
def test_layers(name, form, device, rng):
    args, options, specs = LAYERS[name][form]
    theirs, ours = twins(name, args, options, device)
    if name == "RReLU":
        theirs.eval(), ours.eval()
    arrays = [drawn(rng, spec) for spec in specs]
    wanted, found = trained(torch, theirs, arrays, "cpu"), trained(volta, ours, arrays, device)
    for w, f in zip(wanted[0], found[0], strict=True):
        assert w.dtype == f.dtype
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(found[1], wanted[1], rtol=5e-4, atol=1e-5)
    for key, value in wanted[2].items():
        np.testing.assert_allclose(found[2][key], value, rtol=2e-3, atol=2e-4, err_msg=key)
    theirs.load_state_dict({key: torch.from_numpy(value) for key, value in found[2].items()})
    assert all(np.array_equal(value.numpy(), found[2][key], equal_nan=True) for key, value in theirs.state_dict().items())




# What is done to an input, with which most layers and losses of PyTorch can do nothing.
WRONG = {
    "a number": lambda x: x.reshape(-1)[0],
    "one channel more": lambda x: np.concatenate([x, x[:, :1]], 1) if x.ndim > 1 else x,
    "wider": lambda x: np.concatenate([x, x[..., :1]], -1), "deeper": lambda x: x.reshape((1,) * (7 - x.ndim) + x.shape),
    "another kind": lambda x: x.astype(np.int64 if x.dtype == np.float32 else np.float32),
    "one sample": lambda x: x[0] if x.ndim > 1 else x}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_wrong_inputs(name, rng):
    """What PyTorch refuses is refused; but integers in a few places where they are as good as their floats."""
    for args, options, specs in LAYERS[name]:
        theirs, ours = (getattr(library.nn, name)(*args, **options) for library in (torch, volta))
        for k, (change, wrong) in ((k, item) for k in range(len(specs)) for item in WRONG.items()):
            arrays = [drawn(rng, spec) for spec in specs]
            arrays[k] = wrong(arrays[k])
            try:
                theirs(*map(torch.tensor, arrays))
            except NotImplementedError:                     # one of PyTorch's kernels has not been written
                continue
            except (RuntimeError, ValueError, IndexError, TypeError):
                if change != "another kind" or name != "GaussianNLLLoss":
                    with pytest.raises((RuntimeError, ValueError, IndexError, TypeError)):
                        ours(*map(volta.tensor, arrays))


@pytest.mark.parametrize("rank", BY_RANK)
def test_unpooling(rank, device, rng):
    array, results = rng.standard_normal(BY_RANK[rank]).astype("f"), []
    for library, place in ((torch, "cpu"), (volta, device)):
        x = library.tensor(array, device=place, requires_grad=True)
        values, places = getattr(library.nn, f"MaxPool{rank}d")(2, return_indices=True)(x)
        out = getattr(library.nn, f"MaxUnpool{rank}d")(2)(values * 2, places, output_size=x.shape)
        (out ** 2).sum().backward()
        results.append([np.array(t.detach().cpu().numpy()) for t in (values, places, out, x.grad)])
    for wanted, found in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling(rank, device, rng):
    array, samples, results = rng.standard_normal(BY_RANK[rank]).astype("f"), rng.random((2, 4, rank)).astype("f"), []
    for library, place in ((torch, "cpu"), (volta, device)):
        x = library.tensor(array, device=place, requires_grad=True)
        pool = getattr(library.nn, f"FractionalMaxPool{rank}d")(2, output_size=3, return_indices=True,
                                                                _random_samples=library.tensor(samples, device=place))
        out, places = pool(x)
        (out ** 2).sum().backward()
        results.append([np.array(t.detach().cpu().numpy()) for t in (out, places, x.grad)])
    for wanted, found in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"blank": 2, "reduction": "sum", "zero_infinity": True}])
def test_ctc(options, device, rng):
    scores, results = rng.standard_normal((9, 2, 5)).astype("f"), []
    for library, place in ((torch, "cpu"), (volta, device)):
        x = library.tensor(scores, device=place, requires_grad=True)
        loss = library.nn.CTCLoss(**options)(x.log_softmax(2), library.tensor([[1, 3, 3], [4, 1, 0]], device=place),
                                             library.tensor([9, 7]), library.tensor([3, 2]))
        loss.backward()
        results.append([np.array(t.detach().cpu().numpy()) for t in (loss, x.grad)])
    for wanted, found in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
