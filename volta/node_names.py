"""What PyTorch calls the steps of a graph, where it is not the record's name: `AddmmBackward0`. A digit ends a name here, "Addmm0".

`STEPS` names records, or is asked with the node; `LABELS` names the results of composed functions, whose last step is another record:
one name; a tuple of two, where the result is a tuple, and where it is one tensor of one argument; a list: the place of an argument, the
name where that is no tensor, and where it is one (-1: with one argument, with more); or a function of the arguments. Knows no op.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from volta._kernels.core.graph import Node

NOT_IMPLEMENTED = "torch::autograd::NotImplemented"
COPY_SLICES = "torch::autograd::CopySlices"


def _reduction(name: str) -> Callable:
    """A reduction over all dimensions, or over some."""
    def named(node: Node) -> str:
        dims, rank = node.params["dim"], len(node.shapes[0])
        return f"{name}{int(node.params['keepdim'] or (len(dims) if isinstance(dims, tuple) else 1) < rank)}"
    return named


def _numbers(*names: str) -> Callable:
    """By the first operand that is a number; the last name is for tensors."""
    def named(node: Node) -> str:
        return next((name for name, shape in zip(names, node.shapes) if name and shape is None), names[-1])
    return named


def _slice(node: Node) -> str:
    """The last step of a subscript."""
    params, shape = node.params, node.shapes[0]
    axes = params.get("axes")
    if axes is not None and axes[-1:] and axes[-1] < 0:
        return "Unsqueeze0"
    for d in range(len(shape) - 1, -1, -1):
        if axes is not None and d not in axes:
            return "Select0"
        if (params["starts"][d], params["sizes"][d], params["steps"][d]) != (0, shape[d], 1):
            return "Slice0"
    return "Slice0" if axes is None else "Unsqueeze0"


def _reshape(node: Node) -> str:
    """What comes after a product of other than two matrices."""
    parent = node.parents[0]
    op = getattr(parent, "op", None)
    if op == "linear" and parent.shapes[2] is None:
        return "UnsafeView0"
    if op != "matmul" or parent.slots is not None:
        return "View0"
    before = node.shapes[0]
    if len(before) == 2 and parent.shapes[1][-1:] == (1,) == before[-1:]:
        return "Mv0"
    return "Squeeze4" if len(before) == 2 and before[0] == 1 else "UnsafeView0"


STEPS: dict[str, str | Callable[[Node], str]] = {
    "reshape": _reshape, "cast": "ToCopy0", "contiguous": "Clone0", "place": "ConstantPadNd0", "mulacc": _numbers("", "Add0", "Addcmul0"),
    "scatter_sum": "ScatterAdd0", "index_sum": "IndexAdd0",
    "matmul": lambda node: "Mm0" if len(node.shapes[0]) == len(node.shapes[1]) == 2 else "UnsafeView0",
    "linear": lambda node: "Mm0" if node.shapes[2] is None else "Addmm0", "conv2d": "Convolution0", "conv3d": "Convolution0",
    "max_pool": "MaxPool2DWithIndices0", "avg_pool": "AvgPool2D0", "batch_norm": "NativeBatchNorm0", "row_norm": "NativeLayerNorm0",
    "logsigmoid": "LogSigmoid0", "nll": "NllLoss0", "cross_entropy": "NllLoss0", "cross_entropy_softmax": "NllLoss0",
    "huber": "HuberLoss0", "bce": "BinaryCrossEntropy0", "logistic_loss": "BinaryCrossEntropyWithLogits0", "norm2": "LinalgVectorNorm0",
    "distances": "Cdist0", "inv": "LinalgInvEx0", "det": "LinalgDet0", "svd": "LinalgSvd0", "cholesky": "LinalgCholeskyEx0",
    "solve": "LinalgSolveEx0", "_SetItem": COPY_SLICES, "Overwrite": lambda node: COPY_SLICES if node.function.view else "Fill2",
    "sum": _reduction("Sum"), "mean": _reduction("Mean"), "prod": _reduction("Prod"), "slice": _slice,
    "sub": _numbers("Rsub1", "", "Sub0"), "pow": _numbers("Pow2", "Pow0", "Pow1"), "div": _numbers("Mul0", "", "Div0"),
    "lerp": _numbers("", "", "Lerp0", "Lerp1"), "remainder": _numbers("Remainder1", "Remainder0", "Remainder1"),
    "floor_divide": NOT_IMPLEMENTED, "heaviside": NOT_IMPLEMENTED,
    "clamp": lambda node: "Clamp0" if any(node.shapes[1:]) else "Clamp1", "add_product": "Addcmul0", "add_quotient": "Addcdiv0",
    "triangle": lambda node: "Triu0" if node.params["upper"] else "Tril0", "amax": "Amax0", "root": "Sqrt0", "index_select": "Index0",
    "cross": "LinalgCross0", "slogdet": "LinalgSlogdet0", "eigh": "LinalgEigh0", "qr": "LinalgQr0", "pinv": "LinalgPinv0",
    "matrix_exp": "LinalgMatrixExp0", "triangular": "LinalgSolveTriangular0", "lu": "LinalgLuFactorEx0", "selu": "Elu0",
    "dropout": "Mul0", "bag_sum": "EmbeddingBag0", "columns": "Im2Col0", "fold": "Col2Im0", "attention":
    "ScaledDotProductFlashAttentionForCpu0", "squared_difference": "MseLoss0"}


def _split(args: tuple, options: dict) -> str:
    size = args[1] if len(args) > 1 else next(iter(options.values()), 0)
    return "Split0" if hasattr(size, "__index__") else "SplitWithSizes0"


def _diag(args: tuple, options: dict) -> str:
    return "DiagEmbed0" if args and args[0].ndim == 1 else "DiagonalBackward0_copy"


def _div(args: tuple, options: dict) -> str | None:
    return "Div2" if options.get("rounding_mode") else None


def _cross_entropy(args: tuple, options: dict) -> str:
    x, target = args[0] if args else options["input"], args[1] if len(args) > 1 else options["target"]
    return "Div1" if target.dtype.is_floating_point else "NllLoss2D0" if x.ndim > 2 else "NllLoss0"


def _pad(args: tuple, options: dict) -> str:
    mode, pad = args[2] if len(args) > 2 else options.get("mode", "constant"), args[1] if len(args) > 1 else options["pad"]
    kinds = {"reflect": "ReflectionPad", "replicate": "ReplicationPad"}
    return f"{kinds[mode]}{len(pad) // 2}D0" if mode in kinds else COPY_SLICES if mode == "circular" else "ConstantPadNd0"


_MODES = {"nearest": "UpsampleNearest", "nearest-exact": "UpsampleNearestExact", "linear": "UpsampleLinear",
          "bilinear": "UpsampleBilinear", "trilinear": "UpsampleTrilinear", "bicubic": "UpsampleBicubic"}


def _interpolate(args: tuple, options: dict) -> str | None:
    kind = _MODES.get(args[3] if len(args) > 3 else options.get("mode", "nearest"))
    antialias = "Aa" if options.get("antialias") else ""
    return kind and f"{kind}{(args[0] if args else options['input']).ndim - 2}D{antialias}0"


def _adaptive(rank: int) -> Callable:
    def named(args: tuple, options: dict) -> str:
        size = args[1] if len(args) > 1 else options.get("output_size")
        return "Mean1" if size == 1 or size == (1,) * rank else f"AdaptiveAvgPool{rank}D0"
    return named


def _grid_sample(args: tuple, options: dict) -> str:
    return f"GridSampler{(args[0] if args else options['input']).ndim - 2}D0"


LABELS: dict[str, str | tuple[str, str] | list | Callable[[tuple, dict], str | None]] = {
    **{name: f"{stem}0" for name, stem in (word.split(":") for word in """
        addmm:Addmm addmv:Addmv addbmm:Addbmm baddbmm:Baddbmm addr:Addr bmm:Bmm mv:Mv dot:Dot vdot:Vdot einsum:View inner:View
        kron:UnsafeView chain_matmul:View linalg.multi_dot:View aminmax:Aminmax std:Std std_mean:StdMean var_mean:VarMean
        mode:Mode kthvalue:Kthvalue nansum:Nansum polygamma:Polygamma mvlgamma:Mvlgamma ldexp:Ldexp deg2rad:Deg2Rad
        rad2deg:Rad2Deg t:T transpose:Transpose swapaxes:Transpose unsqueeze:Unsqueeze repeat:Repeat tile:Repeat
        diag_embed:DiagEmbed trace:Trace flip:Flip fliplr:Flip flipud:Flip rot90:Rot90 roll:Roll select:Select chunk:Split
        split_with_sizes:SplitWithSizes unbind:Unbind index_select:IndexSelect take:Take masked_select:MaskedSelect
        masked_scatter:MaskedScatter scatter_reduce:ScatterReduce index_add:IndexAdd index_copy:IndexCopy index_fill:IndexFill
        index_put:IndexPut put:Put index_reduce:IndexReduce stack:Stack block_diag:BlockDiag cartesian_prod:Stack combinations:Stack
        sort:Sort msort:Sort topk:Topk cholesky:Cholesky linalg.lstsq:LinalgLstsq triangular_solve:TriangularSolve cov:Squeeze
        celu:Celu prelu:PreluKernel rrelu:RreluWithNoise normalize:Div conv1d:Convolution conv_transpose1d:Convolution
        conv_transpose2d:Convolution conv_transpose3d:Convolution max_pool3d:MaxPool3DWithIndices avg_pool3d:AvgPool3D
        functional.batch_norm:NativeBatchNorm functional.group_norm:NativeGroupNorm functional.instance_norm:View rms_norm:Mul
        functional.embedding:Embedding functional.embedding_bag:EmbeddingBag affine_grid:AffineGridGenerator pixel_shuffle:PixelShuffle
        pixel_unshuffle:PixelUnshuffle functional.unfold:Im2Col functional.fold:Col2Im mse_loss:MseLoss smooth_l1_loss:SmoothL1Loss
        huber_loss:HuberLoss binary_cross_entropy:BinaryCrossEntropy
        functional.binary_cross_entropy_with_logits:BinaryCrossEntropyWithLogits soft_margin_loss:SoftMarginLoss
        multi_margin_loss:MultiMarginLoss multilabel_margin_loss:MultilabelMarginLoss pdist:Pdist renorm:Renorm dist:Dist
        functional.adaptive_max_pool2d:AdaptiveMaxPool2D functional.adaptive_max_pool3d:AdaptiveMaxPool3D vander:Flip gradient:Cat
        rsub:Rsub linalg.lu_factor:LinalgLuFactorEx linalg.pinv:LinalgPinv linalg.vector_norm:LinalgVectorNorm glu:Glu
        fill:Fill diagonal_scatter:DiagonalScatter select_scatter:SelectScatter slice_scatter:SliceScatter""".split())},
    "rsub": "Rsub1", "quantile": "Squeeze4", "nanquantile": "Squeeze4", "max_pool1d": "Squeeze1", "avg_pool1d": "Squeeze1",
    "functional.adaptive_max_pool1d": "Squeeze1", "adaptive_avg_pool1d": "Squeeze1", "cosine_similarity": "Sum1",
    "pairwise_distance": "Norm1", "sum_to_size": "Sum1",
    "max": ("Max0", "Max1"), "min": ("Min0", "Min1"), "median": ("Median1", "Median0"), "nanmedian": ("Nanmedian1", "Nanmedian0"),
    "clamp": [1, "Clamp1", "Clamp0"], "masked_fill": [2, "MaskedFill0", "MaskedFill1"], "scatter": [3, "Scatter1", "Scatter0"],
    "squeeze": [-1, "Squeeze0", "Squeeze1"], "split": _split, "diag": _diag, "div": _div,
    "cross_entropy": _cross_entropy, "pad": _pad, "interpolate": _interpolate, "adaptive_avg_pool2d": _adaptive(2),
    "adaptive_avg_pool3d": _adaptive(3), "grid_sample": _grid_sample}


def written(name: str) -> str:
    """The whole name."""
    return f"{name[:-1]}Backward{name[-1]}" if name[-1].isdigit() and "Backward" not in name else name
