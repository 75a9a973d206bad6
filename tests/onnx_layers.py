"""Every layer with arguments and sample inputs, for the tests of the export to ONNX."""
from __future__ import annotations

from volta import nn


class Labels:
    """Integers below `high`."""
    def __init__(self, *shape: int, high: int) -> None:
        self.shape, self.high = shape, high


class Unit:
    """Numbers between 0 and 1."""
    def __init__(self, *shape: int) -> None:
        self.shape = shape


class Signs:
    """-1 and 1."""
    def __init__(self, *shape: int) -> None:
        self.shape = shape


class Layer:
    """How a layer is made, and the shapes (or kinds) of its inputs; the first `static` dimensions of no input may differ, or dimension
    `batch` of each, None for none."""
    def __init__(self, make, *inputs, batch: int | tuple | None = 0) -> None:
        self.make, self.inputs = make, inputs
        self.batch = batch if isinstance(batch, tuple) else (batch,) * len(inputs)


def _image(rank):
    return ((4, 9), (4, 9, 8), (4, 5, 6, 7))[rank - 1]


def _images(name, *arguments, **options):
    """A layer of one to three dimensions, for images of four channels."""
    return {f"{name}{rank}d": [Layer(lambda k=rank: getattr(nn, f"{name}{k}d")(*arguments, **options), (2, *_image(rank)))]
            for rank in (1, 2, 3)}


def _plain(name, *arguments, **options):
    return {name: [Layer(lambda: getattr(nn, name)(*arguments, **options), (3, 4, 6))]}


def _pair(name, *arguments, target=(3, 5), **options):
    """A loss of two inputs."""
    return {name: [Layer(lambda r=r: getattr(nn, name)(*arguments, reduction=r, **options), (3, 5), target)
                   for r in ("mean", "sum", "none")]}


class Unpooled(nn.Module):
    """MaxUnpool after MaxPool, which gives it its indices."""
    def __init__(self, rank: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{rank}d")(2)

    def forward(self, x):
        return self.unpool(*self.pool(x))


class Chosen(nn.Module):
    """A module of a container."""
    def __init__(self, container) -> None:
        super().__init__()
        self.container = container

    def forward(self, x):
        for each in self.container.values() if hasattr(self.container, "values") else self.container:
            x = each(x) if isinstance(each, nn.Module) else x * each
        return x


_ACTIVATIONS = ("CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "Mish", "PReLU",
                "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Identity",
                "AlphaDropout", "Dropout", "FeatureAlphaDropout", "Dropout1d", "Flatten")
_PADDINGS = {1: 2, 2: (1, 2, 2, 1), 3: (1, 2, 2, 1, 1, 0)}


def _norms():
    found = {}
    for rank in (1, 2, 3):
        found[f"BatchNorm{rank}d"] = [Layer(lambda k=rank: _moved(getattr(nn, f"BatchNorm{k}d")(4)), (2, *_image(rank)))]
        found[f"InstanceNorm{rank}d"] = [Layer(lambda k=rank, a=a: _moved(getattr(nn, f"InstanceNorm{k}d")(4, **a)), (2, *_image(rank)))
                                         for a in ({}, {"affine": True}, {"track_running_stats": True})]
    return found


def _moved(module):
    """With statistics and parameters that are not 0 and 1."""
    for t in module.state_dict().values():
        if t.dtype.is_floating_point:
            t.uniform_(0.5, 2.0)
    return module


def _recurrent(name):
    states = ((2, 3, 5),) * (2 if name == "LSTM" else 1)
    kind = getattr(nn, name)
    cases = [Layer(lambda: kind(4, 5), (6, 3, 4), batch=1), Layer(lambda: kind(4, 5, num_layers=2, batch_first=True), (3, 6, 4)),
             Layer(lambda: kind(4, 5, bidirectional=True, bias=False), (6, 3, 4), batch=1),
             Layer(lambda: kind(4, 5, bidirectional=True), (6, 3, 4), states if len(states) > 1 else states[0], batch=1),
             Layer(lambda: kind(4, 5), (6, 4), batch=None)]
    if name == "LSTM":
        cases.append(Layer(lambda: kind(4, 5, proj_size=3, num_layers=2), (6, 3, 4), batch=1))
    if name == "RNN":
        cases.append(Layer(lambda: kind(4, 5, nonlinearity="relu"), (6, 3, 4), batch=1))
    return {name: cases}


def _cell(name):
    kind, state = getattr(nn, name), ((3, 5), (3, 5)) if name == "LSTMCell" else (3, 5)
    return {name: [Layer(lambda: kind(4, 5), (3, 4)), Layer(lambda: kind(4, 5, bias=False), (3, 4), state)]}


_E, _HEADS = 8, 2
LAYERS: dict[str, list[Layer]] = {
    **{k: v for name in _ACTIVATIONS for k, v in _plain(name).items()},
    **_plain("GLU"), **_plain("LogSoftmax", 1), **_plain("Softmax", 1), **_plain("Softmin", 1), **_plain("Threshold", 0.1, 20.0),
    **_plain("Unflatten", 2, (2, 3)), **_plain("Linear", 6, 5), **_plain("LayerNorm", (4, 6)), **_plain("RMSNorm", 6),
    **_plain("GroupNorm", 2, 4), **_plain("LocalResponseNorm", 3), **_plain("SyncBatchNorm", 4),
    "Softmax2d": [Layer(nn.Softmax2d, (2, *_image(2)))], "ChannelShuffle": [Layer(lambda: nn.ChannelShuffle(2), (2, *_image(2)))],
    "Dropout2d": [Layer(nn.Dropout2d, (2, *_image(2)))], "Dropout3d": [Layer(nn.Dropout3d, (2, *_image(3)))],
    "MultiheadAttention": [
        Layer(lambda: nn.MultiheadAttention(_E, _HEADS), *[(5, 3, _E)] * 3, batch=1),
        Layer(lambda: nn.MultiheadAttention(_E, _HEADS, batch_first=True, add_bias_kv=True, add_zero_attn=True), *[(3, 5, _E)] * 3)],
    "Transformer": [Layer(lambda: nn.Transformer(_E, _HEADS, 1, 1, 16), (5, 3, _E), (4, 3, _E), batch=1)],
    "TransformerEncoderLayer": [
        Layer(lambda n=first: nn.TransformerEncoderLayer(_E, _HEADS, 16, batch_first=True, norm_first=n), (3, 5, _E))
        for first in (False, True)],
    "TransformerDecoderLayer": [Layer(lambda: nn.TransformerDecoderLayer(_E, _HEADS, 16), (5, 3, _E), (4, 3, _E), batch=1)],
    "TransformerEncoder": [Layer(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(_E, _HEADS, 16), 2), (5, 3, _E), batch=1)],
    "TransformerDecoder": [
        Layer(lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(_E, _HEADS, 16), 2), (5, 3, _E), (4, 3, _E), batch=1)],
    "ModuleDict": [Layer(lambda: Chosen(nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Tanh()})), (3, 6))],
    "ModuleList": [Layer(lambda: Chosen(nn.ModuleList([nn.Linear(6, 6), nn.Tanh()])), (3, 6))],
    "ParameterDict": [Layer(lambda: Chosen(nn.ParameterDict({"a": nn.Parameter(nn.Linear(6, 1).weight)})), (3, 6))],
    "ParameterList": [Layer(lambda: Chosen(nn.ParameterList([nn.Parameter(nn.Linear(6, 1).weight)])), (3, 6))],
    "Sequential": [Layer(lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)), (3, 6))],
    "DataParallel": [Layer(lambda: nn.DataParallel(nn.Linear(6, 4)), (3, 6))],
    "Bilinear": [Layer(lambda: nn.Bilinear(4, 5, 3), (3, 4), (3, 5))],
    "Embedding": [Layer(lambda: nn.Embedding(7, 4, padding_idx=1), Labels(3, 5, high=7))],
    "EmbeddingBag": [Layer(lambda m=m: nn.EmbeddingBag(7, 4, mode=m), Labels(3, 5, high=7)) for m in ("mean", "sum", "max")],
    "Fold": [Layer(lambda: nn.Fold((4, 5), 2, padding=1, stride=2), (2, 12, 9))],
    "Unfold": [Layer(lambda: nn.Unfold(2, dilation=2, padding=1), (2, *_image(2)))],
    "PixelShuffle": [Layer(lambda: nn.PixelShuffle(2), (2, *_image(2)))],
    "PixelUnshuffle": [Layer(lambda: nn.PixelUnshuffle(2), (2, 3, 4, 6))],
    # convolution
    **_images("Conv", 4, 6, 3, stride=2, padding=1, dilation=1, groups=2), **_images("ConvTranspose", 4, 6, 3, stride=2, padding=1,
                                                                                    output_padding=1, groups=2),
    # pooling
    **_images("MaxPool", 3, stride=2, padding=1, ceil_mode=True), **_images("AvgPool", 3, stride=2, padding=1, ceil_mode=True),
    **_images("AdaptiveMaxPool", 3), **_images("AdaptiveAvgPool", 3), **_images("LPPool", 2, 3),
    **{f"MaxUnpool{rank}d": [Layer(lambda k=rank: Unpooled(k), (2, 3, *(6, 4, 8)[:rank]))] for rank in (1, 2, 3)},
    # normalisation
    **_norms(),
    # padding
    **{f"{kind}Pad{rank}d": [Layer(lambda k=kind, r=rank: getattr(nn, f"{k}Pad{r}d")(_PADDINGS[r], *([1.5] if k == "Constant" else [])),
                                   (2, *_image(rank)))]
       for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero") for rank in (1, 2, 3)},
    # resampling
    "Upsample": [Layer(lambda s=s, m=m, a=a: nn.Upsample(scale_factor=s, mode=m, align_corners=a), (2, *_image(rank)))
                 for m, rank, a in (("nearest", 1, None), ("linear", 1, False), ("linear", 1, True), ("nearest", 2, None),
                                    ("bilinear", 2, False), ("bilinear", 2, True), ("bicubic", 2, False), ("bicubic", 2, True),
                                    ("nearest", 3, None), ("trilinear", 3, False), ("trilinear", 3, True), ("nearest-exact", 2, None))
                 for s in (2, 1.7)] + [Layer(lambda: nn.Upsample(size=(5, 20), mode="bilinear"), (2, *_image(2)))],
    "UpsamplingBilinear2d": [Layer(lambda: nn.UpsamplingBilinear2d(scale_factor=2), (2, *_image(2)))],
    "UpsamplingNearest2d": [Layer(lambda: nn.UpsamplingNearest2d(scale_factor=2), (2, *_image(2)))],
    # recurrence
    **_recurrent("LSTM"), **_recurrent("GRU"), **_recurrent("RNN"), **_cell("LSTMCell"), **_cell("GRUCell"), **_cell("RNNCell"),
    # losses
    **_pair("L1Loss"), **_pair("MSELoss"), **_pair("HuberLoss"), **_pair("SmoothL1Loss"), **_pair("SoftMarginLoss", target=Signs(3, 5)),
    **_pair("BCEWithLogitsLoss", target=Unit(3, 5)), **_pair("HingeEmbeddingLoss", target=Signs(3, 5)),
    **_pair("MultiLabelSoftMarginLoss", target=Unit(3, 5)), **_pair("KLDivLoss", target=Unit(3, 5)),
    **_pair("CrossEntropyLoss", target=Labels(3, high=5), label_smoothing=0.1), **_pair("NLLLoss", target=Labels(3, high=5)),
    **_pair("MultiMarginLoss", target=Labels(3, high=5)), **_pair("PoissonNLLLoss", target=Labels(3, 5, high=4), full=True),
    **_pair("MultiLabelMarginLoss", target=Labels(3, 5, high=5)),
    "NLLLoss2d": [Layer(nn.NLLLoss2d, (2, 3, 4, 4), Labels(2, 4, 4, high=3))],
    "BCELoss": [Layer(nn.BCELoss, Unit(3, 5), Unit(3, 5))],
    "CTCLoss": [Layer(nn.CTCLoss, (6, 3, 5), Labels(3, 2, high=4), Labels(3, high=6), Labels(3, high=2), batch=(1, 0, 0, 0))],
    "CosineEmbeddingLoss": [Layer(nn.CosineEmbeddingLoss, (3, 5), (3, 5), Signs(3))],
    "CosineSimilarity": [Layer(nn.CosineSimilarity, (3, 5), (3, 5))], "PairwiseDistance": [Layer(nn.PairwiseDistance, (3, 5), (3, 5))],
    "GaussianNLLLoss": [Layer(nn.GaussianNLLLoss, (3, 5), (3, 5), Unit(3, 5))],
    "MarginRankingLoss": [Layer(nn.MarginRankingLoss, (3,), (3,), Signs(3))],
    "TripletMarginLoss": [Layer(nn.TripletMarginLoss, *[(3, 5)] * 3)],
    "TripletMarginWithDistanceLoss": [Layer(nn.TripletMarginWithDistanceLoss, *[(3, 5)] * 3)],
    "LinearCrossEntropyLoss": [Layer(lambda: nn.LinearCrossEntropyLoss(6, 5), (3, 6), Labels(3, high=5))],
}

# Layers that are not exported, or not by themselves.
NOT = {
    "Module": "has no computation of its own", "LazyModuleMixin": "the same", "RNNBase": "what RNN, LSTM and GRU share",
    "RNNCellBase": "what the cells share",
    "AdaptiveLogSoftmaxWithLoss": "which labels are in which cluster decides the shapes inside",
    **{f"Fractional{rest}": "its windows are drawn anew in every run" for rest in ("MaxPool2d", "MaxPool3d")},
    **{name: "becomes the layer of that name at its first call" for name in vars(nn) if name.startswith("Lazy")},
}
