"""Differences that are as they should be, each with its reason. Everything else counts."""
from __future__ import annotations

import collections
import re

import numpy as np

COUNTS: collections.Counter = collections.Counter()

# Draws: the same seed gives other numbers than in PyTorch. All but values is compared.
DRAWS = frozenset("""rand rand_like randn randn_like randint randint_like randperm normal bernoulli multinomial
nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
nn.functional.rrelu native_dropout uniform exponential geometric cauchy log_normal
nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d svd_lowrank pca_lowrank""".split())
# What nobody wrote has no values to compare.
UNWRITTEN = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_".split())
# At the least integer divided by -1, at remainders by 0 and at counts to the greatest integer PyTorch ends the process or takes minutes.
FATAL = frozenset("bincount special.laguerre_polynomial_l __rmod__ __rdiv__ div floor_divide fmod remainder true_divide".split())

_PLACES = "argsort sort topk kthvalue median nanmedian mode"
_LAPACK = "geqrf linalg.qr qr linalg.householder_product ormqr linalg.lstsq linalg.eigh linalg.svd svd linalg.svdvals"
_MATRICES = "linalg.* logdet lu* qr geqrf svd cholesky* inverse pinverse ormqr lstsq slogdet det norm norm/nuc"
_NORMS = "*batch_norm *group_norm *instance_norm *layer_norm *rms_norm"
_BENT = """*.elu *.celu *.selu *.relu6 *.hardtanh *.hardshrink *.softshrink *.hardswish *.hardsigmoid *.threshold logit
*.leaky_relu *.prelu"""
_ARGUMENT = r" at | for "
_SMALL = r"-?(0\.0|[\d.]+e-(0[5-9]|[1-9]\d)|0\.000\d+)"        # next to nothing
_ROWS = "*.conv1d *.conv2d *.conv_transpose1d"


def _names(names: str) -> re.Pattern:
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*").replace(r"\?", ".") for name in names.split()) + r"\Z")


# (names of op_db, * for any beginning or end; what the form has in it; how the text begins or what it has in it; why)
def _rules(*rules: tuple[str, str, str, str]) -> tuple:
    return tuple((_names(names), re.compile(form), re.compile(text), why) for names, form, text, why in rules)


RULES = _rules(
    ("*", "out|layout", "(.* afterwards: )?strides of (nothing|ones)", "a dimension that has no step has no stride"),
    ("isinf to to_sparse *.rms_norm *.pad/constant constant_pad_nd", "", "(.* afterwards: )?strides of (nothing|ones)",
     "steps of dimensions without any, as some ways to make a result leave them"),
    ("*", "grad", "accepted.*derivative for", "derivatives that PyTorch has not"),
    ("*", "grad grad", "accepted.*does not require grad|type: str 'none'", "second derivatives that are zeros here, and none in PyTorch"),
    ("*", "grad", r"type: NoneType None and Fact Fact\(values=array\((\[\], shape=\([0-9, ]*\), |[^1-9]*)(dtype|\Z)",
     "zeros where PyTorch has no gradient"),
    ("*", "", "raised.*(on the CPU alone|float64 is not available on the GPU)", "what a GPU has not"),
    ("*", "", "accepted.*(INTERNAL ASSERT|Expected X.is_contiguous|Expected a proper Tensor but got None|view size is not compatible"
     "|grad_input must be contiguous"
     "|cannot be represented as a SymInt)",
     "PyTorch's assertions about itself"),
    (_PLACES, "", r"(\[1\] )?values: -?\d+ and -?\d+ at", "of equal elements others may be named"),
    ("msort sort topk kthvalue median nanmedian mode", "grad.*(planted|layout|float16)", "values", "gradients of equal elements"),
    ("as_strided_scatter", "grad", r"(\[\d\] )?(values|type: )", "gradients of what is overwritten"),
    ("*", "^one more|^None ", "accepted", "None stands for an argument left out"),
    ("*", "^input=|^x=|^axis=", "", "NumPy's spellings of arguments, which PyTorch's Python functions have not"),
    ("*", "^number |^method", "accepted.*TypeError", "a number stands for a tensor"),
    ("signal.windows*", _ARGUMENT, "raised|accepted|class", "lengths of 0 or 1 of kinds that PyTorch only looks at beyond these"),
    ("*.max_unpool?d*", _ARGUMENT, "raised|accepted|class", "sizes that PyTorch only compares, where an output_size is given"),
    ("*.multi_head_attention_forward", _ARGUMENT, "raised: DTypeError", "arguments that PyTorch's function in Python does not use"),
    ("histogramdd isin uniform randint_like rsub sub", _ARGUMENT, "raised: DTypeError|accepted", "truth values, edges that are integers"),
    ("broadcast_to permute reshape view_copy movedim *layer_norm *rms_norm", "^first ", "class|accepted",
     "one number for a sequence of one, as methods take it"),
    ("*.batch_norm *.ctc_loss *.multi_margin_loss *.adaptive_max_pool1d squeeze to tensordot", _ARGUMENT, "accepted",
     "tensors and arrays for numbers, where an overload of PyTorch's takes none"),
    ("""*polygamma tensordot to_sparse view scatter arange *.ctc_loss *.interpolate *.upsample* *.poisson_nll_loss *.gaussian_nll_loss
     linalg.pinv""", _ARGUMENT, "class|accepted.*bool tensor", "the class of an error about an argument of another kind"),
    ("cross index_reduce/* scatter lu", _ARGUMENT, "warned", "warnings that PyTorch gives once"),
    ("nonzero", "out", "accepted.*must be Tensor, not tuple", "a tuple of tensors as out of a tuple"),
    ("grid_sampler*", _ARGUMENT, "raised.*must be 0, 1 or 2", "modes that PyTorch does not check"),
    ("linspace* logspace*", "", "raised.*(finite|fit into)", "ends that the dtype has not"),
    (_LAPACK, "planted", "not finite", "what LAPACK makes of infinities and NaN"),
    ("*", "planted", "accepted.*_LinAlgError", "PyTorch's LAPACK does not converge where there is NaN"),
    (_MATRICES, "expanded|mixed", "values|not finite|raised: LinAlgError|accepted.*_LinAlgError",
     "singular matrices: a pivot is 0 or a rounding of it, by the order of sums"),
    ("norm linalg.norm* linalg.vector_norm linalg.matrix_norm", "grad", "not finite", "gradients of norms at 0 and beside NaN"),
    (_NORMS, "planted| for (momentum|eps)", "(.* afterwards: )?not finite", "infinite weights, variances and NaN in norms"),
    (_BENT, "grad.*planted", "", "gradients of activations at NaN, as on CUDA"),
    (_NORMS, "", "accepted.*(mixed dtype|expected scalar type)", "halves beside parameters of float32"),
    ("*.max_pool1d* *.avg_pool* *.local_response_norm", "", "accepted.*not implemented for",
     "pools of integers, some of which PyTorch has"),
    ("*.pad/*", "", "accepted.*for 'Bool'", "padding of bool"),
    ("bucketize searchsorted histogram", "planted|integer|dtype", "values", "boundaries out of order"),
    ("*.scaled_dot_product_attention", "planted", "", "what is masked has no part, beside NaN and infinity too"),
    ("*", "error", "shares", "memory that grows is memory of its own"),
    ("digamma *polygamma* mvlgamma* lgamma", "", "(.* afterwards: )?values", "PyTorch's trigamma has 10 digits"),
    ("*polygamma*", "", "(.* afterwards: )?not finite", "poles, where PyTorch's sine of pi is not 0"),
    ("special.airy* special.bessel*", "", "(.* afterwards: )?(values|not finite)", "PyTorch's Bessel functions of float64 have 7 digits"),
    ("special.*polynomial_?", "", "(.* afterwards: )?(values|not finite)",
     "NaN is what PyTorch's polynomials drop, and large orders have few digits"),
    ("cov", "grad|integer|planted", "values|not finite", "covariances of large elements have few digits"),
    ("cov", "0-d", "input 0 afterwards", "PyTorch's cov changes its input"),
    ("round*", "", "accepted.*round_vml_cpu", "rounding integers to decimals"),
    ("var* std*", "planted", "not finite", "variances of infinite elements, beside which means are NaN"),
    ("special.modified_bessel_i?", "out that wants a gradient", "raised", "other names of i0 and i1, which have derivatives"),
    ("ASGD NAdam", "steps", ".*(dtype: float32 and float64|values)", "numbers of a state are in double precision, in PyTorch in float32"),
    ("LBFGS", "steps", ".*keys: .'al'. and", "what the two loops leave behind"),
    ("*", "steps", r"\[\w+\] type: int \d+ and float", "defaults that are whole numbers"),
    ("LBFGS", "steps", "(.* afterwards: )?values", "where a line search ends follows from roundings"),
    ("Muon", "steps", ".*values", "Muon's products are of bfloat16 in PyTorch"),
    ("*.cosine_embedding_loss *.gaussian_nll_loss *.triplet_margin_loss *.hinge_embedding_loss", "dtype",
     "values|dtype|accepted|raised: DTypeError",
     "integers beside floats in losses"),
    ("float_power", "", "accepted.*(dtype Double|dtype Float but)", "float32 in the place of float64 on a GPU"),
    ("*.conv3d *.conv_transpose2d", "dtype", "raised.*bias must be",
     "a bias of another dtype, which PyTorch takes beside weights of one element, and in groups where the output is padded by a stride"),
    ("*.conv_transpose*", "dtype", "accepted.*not implemented for", "transposed convolutions of integers, some of which PyTorch has"),
    ("*.batch_norm *.instance_norm", r"no \d", r"accepted.*select\(\)", "norms without channels or elements"),
    ("gcd", "integer least", "values", "the greatest divisor of the least integer"),
    ("linalg.ldl_solve", "dtype|integer", "raised|values", "pivots that PyTorch does not check"),
    ("linalg.multi_dot lu_solve linalg.lu_solve linalg.cholesky_ex linalg.pinv/hermitian matrix_exp", "planted|float16", "not finite",
     "NaN and infinities by the order of products"),
    ("mode", "planted", "not finite", "NaN in mode is another number each time"),
    ("*.linear", "out permuted", "accepted.*must match the size", "an out of three dimensions that PyTorch's linear does not fit"),
    ("*.linear_cross_entropy/*", "grad grad", "", "second derivatives in chunks, which PyTorch has not"),
    ("signbit", "planted|bfloat16", "values: True and False", "the sign of NaN"),
    ("signal.windows*", "nan for", "not finite", "a window of one place is 1"),
    ("scatter* put index_copy index_put", "expanded|mixed", "values", "places that are written twice"),
    ("*.hardsigmoid *.celu *.binary_cross_entropy", "grad.*float64", "values", "constants of float32 in PyTorch's kernels of float64"),
    ("addbmm addmm", "inf for alpha", "not finite", "an infinite factor of each product, or of their sum"),
    ("addbmm", r"no \d", "accepted.*can't be cast", "factors that are no integers, of nothing"),
    ("addmv", r"no \d", "shape|warned", "PyTorch gives the shape of what is added, for a matrix without rows"),
    ("broadcast_shapes", " at |one more", "", "shapes that are no tuples of ints"),
    ("cumulative_trapezoid trapezoid trapz gradient corrcoef special.zeta", "integer (least|greatest)", "values|not finite",
     "beyond int64 PyTorch wraps"),
    ("cumsum cumprod", "inplace dtype bool", "raised: DTypeError", "a sum of bool, in a bool without dimensions"),
    ("var std matmul mm *.linear linalg.multi_dot empty *.embedding_bag", "(out|layout) expanded", "raised.*single memory",
     "what is written and repeats its elements"),
    ("matmul *.linear", "out", "strides|warned|accepted.*(must match the size|doesn't match the broadcast)",
     "PyTorch reshapes an out beside vectors"),
    ("gather", "dtype", "raised: IndexTypeError", "an index of another dtype, without elements"),
    ("grid_sampler_3d", "grad planted", "values", "NaN among places of volumes, as on CUDA"),
    ("histogramdd lu", "one more", "raised: TypeError", "arguments by position that are None"),
    ("index_put", "0-d", "class", "a mask without dimensions"),
    ("ldexp", "out is input|dtype", "raised: ShapeError|warned", "an out that is too small and read, too"),
    ("linalg.eigh", "", r"(\[1\] )?values: -?(\d\.\d{3})\d* and -?\2", "vectors of either sign"),
    ("linalg.lstsq", "planted", "raised: LinAlgError", "without full rank beside NaN"),
    ("linalg.vecdot roll logsumexp rand_like randn_like mode *.bilinear *.adaptive_avg_pool1d", r"no \d| at | for |dtype",
     "accepted|raised",
     "arguments that PyTorch does not look at, or does, where there are no elements"),
    ("tensordot *.bilinear", "refused dtype", "raised: DTypeError", "products of bool without elements"),
    ("lu_solve lu_unpack", r"integer|no \d", "raised", "pivots that do not fit, of nothing"),
    ("linalg.solve linalg.solve_ex lu_solve linalg.matrix_power", "dtype", "accepted.*(Half|BFloat16)|strides of nothing",
     "halves of nothing"),
    ("linalg.matrix_power", "out of", "accepted", "an out of another dtype"),
    ("native_batch_norm *.batch_norm *.gaussian_nll_loss", "(nan|inf) (at|for)", "not finite|input|raised: ArgumentError",
     "an eps that is no number"),
    ("native_batch_norm", "out of (other size|less)", "accepted|shape", "outs of statistics are resized, as others are"),
    ("new_empty_strided", "negative", "raised: ShapeError", "negative strides of nothing"),
    (_ROWS, "layout", "strides: ", "results lie row by row where channels lie side by side without a second dimension"),
    ("*.batch_norm *.instance_norm", "dtype", "raised: DTypeError", "running statistics of another dtype, or of nothing"),
    ("*.binary_cross_entropy_with_logits", "planted", "not finite", "infinite logits"),
    ("*.ctc_loss", "integer", "raised: IndexRangeError", "labels that PyTorch does not check"),
    ("*.ctc_loss", r"no \d", "accepted.*must not be empty", "alignments of an empty batch"),
    ("*.ctc_loss", "grad (planted|layout)", "not finite", "gradients beside NaN, and of what are no logarithms of probabilities"),
    ("*.embedding_bag", "integer|dtype bool", "raised: (IndexRangeError|DTypeError)", "offsets that PyTorch does not check"),
    ("*.embedding_bag", r"no \d", "accepted.*step must be", "bags of nothing"),
    ("*.embedding_bag", "grad layout (expanded|mixed)", "values", "offsets that leave indices over"),
    ("*.fractional_max_pool?d *.max_unpool?d*", _ARGUMENT, "raised: ArgumentError|accepted.*(must either be|should be a sequence)",
     "sizes that PyTorch does not check, or that stand for all dimensions"),
    ("*.instance_norm *.layer_norm *.normalize *.linear_cross_entropy/*", "grad planted", "values|not finite", "beside NaN and infinity"),
    ("*.kl_div *.poisson_nll_loss", "dtype float64", "values", "a part in float32 beside float64"),
    ("*.linear_cross_entropy/*", "dtype", "class|raised: DTypeError", "which argument is named first"),
    ("*.local_response_norm", "float16", "same", "halves of nothing"),
    ("*.logsigmoid", "out overlaps", "raised", "an out that overlaps what is read"),
    ("*.multi_margin_loss *.multilabel_margin_loss", r"no \d", "not finite", "what nobody wrote"),
    ("*.scaled_dot_product_attention *.multi_head_attention_forward", "nan ", "raised: ArgumentError", "a probability that is NaN"),
    ("*.scaled_dot_product_attention", "grad", f"values: {_SMALL} and {_SMALL}",
     "where one key takes all, gradients cancel to the roundings of fused attention, in PyTorch of four dimensions alone"),
    ("*.scaled_dot_product_attention", "grad.*float16", "values", "from a result of halves, as in PyTorch's of four dimensions"),
    ("*.scaled_dot_product_attention", "grad grad", "values", "second derivatives where one key takes all have few digits"),
    ("where", "^out", "accepted.*TypeError", "a number stands for a tensor"),
    ("*.cross_entropy", "grad planted", "not finite", "classes of infinite logits"),
    ("logcumsumexp *.normalize *.soft_margin_loss scatter_reduce/prod linalg.householder_product linalg.lu",
     "grad grad", f"values: {_SMALL} and {_SMALL}",
     "terms that cancel"),
    ("linalg.householder_product", "grad grad.*float64", "values", "second derivatives with few digits"),
    ("normal*", "out of less", "raised: ShapeError", "an out that does not have the shape of the means"),
    ("std std_mean", "grad layout expanded.*float64", "values", "the mean of equal elements may be a rounding away"),
    ("*.nll_loss", "dtype", "accepted.*expected scalar type", "halves beside weights of float32"),
    ("*.conv_transpose3d", "layout", "strides", "row-major where oneDNN does not take so large an output_padding"),
    ("*.rms_norm LSTM bucketize searchsorted *.conv?d", "", "warned: .*(fused implementation|oneDNN|non-contiguous|zero-padded)",
     "warnings of what makes PyTorch slow"),
    ("Transformer", "", "warned: .*nested", "there are no nested tensors"),
    ("lu_solve lu cholesky qr triangular_solve index_reduce/* meshgrid/* cross chain_matmul scatter", "",
     "warned: .*UserWarning.* and ..\\Z",
     "PyTorch's once are once for each form"),
    ("*", "", "accepted.*(not implemented for '(Half|BFloat16)'|Unsupported dtype Half|Unsupported dtype BFloat16)",
     "halves that PyTorch's CPU kernels have not"),
)
# On a GPU, beside PyTorch on the CPU (ARCHITECTURE.md, "Values that a kernel meets").
ON_GPU = _rules(
    ("*.avg_pool?d *_reduce/mean *.poisson_nll_loss *.margin_ranking_loss *.cosine_embedding_loss *.softsign *.local_response_norm",
     "integer (least|greatest)", "values", "integers wrap at 32 bits"),
    ("*.binary_cross_entropy bernoulli cov multinomial histc histogramdd *.gaussian_nll_loss normal", "planted|error",
     "accepted.*(between 0 and 1|p_in >= 0|contains either|invalid multinomial|is not finite|negative entry|be negative|std >= 0)",
     "floats that nobody looks at"),
    ("cov", "correction|planted", "warned", "weights of which not all is known"),
    ("masked_fill", "dtype uint8", "accepted.*without overflow", "a number in a tensor, which nobody looks at"),
    ("repeat_interleave", "layout expanded", "accepted.*does not match required", "counts of which not all extremes are known"),
    ("linalg.* pca_lowrank", "", "class: .*DeviceError.*on the CPU alone", "what a GPU has not is refused first"),
    ("*.scaled_dot_product_attention", "plain", "strides", "results of attention lie place by place, as on CUDA"),
    ("*.multi_head_attention_forward", "planted", "not finite", "weights next to nothing, which are 0, beside infinity"),
    ("*.one_hot", "integer greatest", "raised: OutOfMemoryError", "more classes than memory"),
)

# PyTorch writes beyond an out= of another size or layout, which ends the process later.
WRITES_BEYOND = frozenset("linalg.lu lu_unpack narrow_copy nn.functional.avg_pool3d tril triu".split())


def skipped(name: str) -> frozenset:
    """What is not compared of an op."""
    return frozenset({"values"}) if name in DRAWS or name in UNWRITTEN else frozenset()


def unchanged(theirs: object, before: list) -> bool:
    """Whether PyTorch, which raised too, left its inputs alone."""
    return all(a.shape == b.shape and np.array_equal(a.values, b.values, equal_nan=a.values.dtype.kind == "f")
               for a, b in zip(before, theirs.inputs))


def _is_part(value: object) -> bool:
    """Whether an argument by position is a probability: a number, or one in a tensor."""
    value = value.values() if hasattr(value, "wants") else value
    return isinstance(value, (float, np.floating, np.ndarray)) and np.ndim(value) == 0 and bool(0 < value < 1)


def cause(name: str, form: str, text: str, args: object, gpu: bool) -> str | None:
    """Why a difference is accepted; None where it is not."""
    drawn = args is not None and name.endswith(("attention_forward", "dot_product_attention")) and text.startswith(("values", "not finite"))
    if drawn and (
            args[1].get("dropout_p") or any(map(_is_part, args[0]))):
        return "draws of dropout"
    rules = ON_GPU + RULES if gpu else RULES
    return next((why for names, forms, texts, why in rules if names.match(name) and forms.search(form) and texts.match(text)), None)


def count(cause: str) -> None:
    COUNTS[cause] += 1
