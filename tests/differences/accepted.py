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
# At the least integer divided by -1, at remainders by 0 and at counts up to the greatest integer PyTorch ends the process.
FATAL = frozenset("bincount __rmod__ __rdiv__ div floor_divide fmod remainder true_divide".split())

_PLACES = "argsort sort topk kthvalue median nanmedian mode"
_LAPACK = "geqrf linalg.qr qr linalg.householder_product ormqr linalg.lstsq linalg.eigh linalg.svd svd linalg.svdvals"
_MATRICES = "linalg.* logdet lu* qr geqrf svd cholesky* inverse pinverse ormqr lstsq slogdet det norm"
_NORMS = "*batch_norm *group_norm *instance_norm *layer_norm *rms_norm"
_BENT = """*.elu *.celu *.selu *.relu6 *.hardtanh *.hardshrink *.softshrink *.hardswish *.hardsigmoid *.threshold logit
*.leaky_relu *.prelu"""
_ARGUMENT = r" at | for "


def _names(names: str) -> re.Pattern:
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*").replace(r"\?", ".") for name in names.split()) + r"\Z")


# (names of op_db, * for any beginning or end; what the form has in it; how the text begins or what it has in it; why)
RULES = tuple((_names(names), re.compile(form), re.compile(text), why)
              for names, form, text, why in (
    ("*", "", "(.* afterwards: )?strides of (nothing|ones)", "a dimension that has no step has no stride"),
    ("*", "grad", "accepted.*derivative for", "derivatives that PyTorch has not"),
    ("*", "grad grad", "accepted.*does not require grad|type: str 'none'", "second derivatives that are zeros here, and none in PyTorch"),
    ("*", "grad", r"type: NoneType None and Fact Fact\(values=array\((\[\], shape=\([0-9, ]*\), |[^1-9]*)(dtype|\Z)",
     "zeros where PyTorch has no gradient"),
    ("*", "", "raised.*(on the CPU alone|float64 is not available on the GPU)", "what a GPU has not"),
    ("*", "", "accepted.*(INTERNAL ASSERT|view size is not compatible|cannot be represented as a SymInt)",
     "PyTorch's assertions about itself"),
    (_PLACES, "", "values", "of equal elements others may be named"),
    ("as_strided_scatter", "grad", "", "gradients of what is overwritten"),
    ("*", "^one more|^None ", "accepted", "None stands for an argument left out"),
    ("*", "^input=|^x=|^axis=", "", "NumPy's spellings of arguments, which PyTorch's Python functions have not"),
    ("*", "^number ", "accepted.*TypeError", "a number stands for a tensor"),
    ("*", _ARGUMENT, "class", "the class of an error about the kind of an argument"),
    ("*", _ARGUMENT, "raised: (DTypeError|TypeError|CallError|ArgumentError: normal: needs)", "stricter about the kind of an argument"),
    ("*", _ARGUMENT, "accepted.*(TypeError|IndexError|It is expected|expects dims to be int)",
     "more kinds of arguments: NumPy's, a number for a sequence"),
    ("nonzero", "out", "accepted.*must be Tensor, not tuple", "a tuple of tensors as out of a tuple"),
    ("grid_sampler*", _ARGUMENT, "raised.*must be 0, 1 or 2", "modes that PyTorch does not check"),
    ("linspace* logspace*", "", "raised.*(finite|fit into)", "ends that the dtype has not"),
    (_LAPACK, "planted", "not finite", "what LAPACK makes of infinities and NaN"),
    ("*", "planted", "accepted.*_LinAlgError", "PyTorch's LAPACK does not converge where there is NaN"),
    (_MATRICES, "expanded|mixed", "", "singular matrices: a pivot is 0 or a rounding of it, by the order of sums"),
    ("norm linalg.norm* linalg.vector_norm linalg.matrix_norm", "grad", "not finite", "gradients of norms at 0 and beside NaN"),
    (_NORMS, "planted| for (momentum|eps)", "(.* afterwards: )?not finite", "infinite weights, variances and NaN in norms"),
    (_BENT, "grad.*planted", "", "gradients of activations at NaN, as on CUDA"),
    (_NORMS, "", "accepted.*(mixed dtype|expected scalar type)", "halves beside parameters of float32"),
    ("*.max_pool1d* *.local_response_norm", "", "accepted.*not implemented for", "pools of integers, some of which PyTorch has"),
    ("*.pad/*", "", "accepted.*(for 'Bool'|Padding size)", "padding of bool, and of any number of dimensions"),
    ("bucketize searchsorted", "planted|integer", "values", "boundaries out of order"),
    ("*.scaled_dot_product_attention", "planted", "", "what is masked has no part, beside NaN and infinity too"),
    ("*", "error", "shares", "memory that grows is memory of its own"),
    ("digamma *polygamma* mvlgamma* cov special.airy* special.bessel* special.*polynomial_?", "", "(.* afterwards: )?(values|not finite)",
     "PyTorch's trigamma has 10 digits, its Bessel functions of float64 7, large covariances fewer; NaN is what its polynomials drop"),
    ("round*", "", "accepted.*round_vml_cpu", "rounding integers to decimals"),
    ("var* std*", "grad.*planted", "not finite", "variances of infinite elements, beside which means are NaN"),
    ("var* std*", "out", "accepted.*Unsupported dtype", "halves that PyTorch's CPU kernels have not"),
    ("special.modified_bessel_i?", "out that wants a gradient", "raised", "other names of i0 and i1, which have derivatives"),
    ("ASGD NAdam", "steps", ".*(dtype: float32 and float64|values)", "numbers of a state are in double precision, in PyTorch in float32"),
    ("LBFGS", "steps", ".*keys: .'al'. and", "what the two loops leave behind"),
    ("*", "steps", r"\[\w+\] type: int \d+ and float", "defaults that are whole numbers"),
    ("LBFGS", "steps", "(.* afterwards: )?values", "where a line search ends follows from roundings"),
    ("Muon", "steps", "", "Muon's products are of bfloat16 in PyTorch"),
    ("*.cosine_embedding_loss *.gaussian_nll_loss *.triplet_margin_loss", "dtype", "", "integers beside floats in losses"),
    ("float_power", "", "accepted.*(dtype Double|dtype Float but)", "float32 in the place of float64 on a GPU"),
    ("*.conv3d *.conv_transpose*", "dtype", "raised.*bias must be", "a bias of another dtype, which some of PyTorch's convolutions take"),
    ("*.conv_transpose*", "dtype", "accepted.*not implemented for", "transposed convolutions of integers, some of which PyTorch has"),
    ("*.batch_norm *.instance_norm", "no 5", "accepted", "norms without channels"),
    ("gcd", "integer least", "values", "the greatest divisor of the least integer"),
    ("linalg.ldl_solve", "dtype|integer", "raised|values", "pivots that PyTorch does not check"),
    ("linalg.multi_dot", "grad planted", "not finite", "NaN by the order of products"),
    ("mode", "planted", "not finite", "NaN in mode is another number each time"),
    ("*.linear", "out permuted", "accepted.*must match the size", "an out of three dimensions that PyTorch's linear does not fit"),
    ("*.linear_cross_entropy/*", "grad grad", "", "second derivatives in chunks, which PyTorch has not"),
    ("signbit", "planted", "values", "the sign of NaN"),
    ("signal.windows*", "0.0 at", "raised", "a window of a number of places that is no integer"),
    ("scatter* put index_copy index_put", "expanded|mixed", "values", "places that are written twice"),
    ("*", "", "accepted.*not implemented for '(Half|BFloat16)'", "halves that PyTorch's CPU kernels have not"),
))

# PyTorch writes beyond an out= of another size, which ends the process later.
WRITES_BEYOND = frozenset(("lu_unpack", "narrow_copy"))


def skipped(name: str) -> frozenset:
    """What is not compared of an op."""
    return frozenset({"values"}) if name in DRAWS or name in UNWRITTEN else frozenset()


def unchanged(theirs: object, before: list) -> bool:
    """Whether PyTorch, which raised too, left its inputs alone."""
    return all(a.shape == b.shape and np.array_equal(a.values, b.values, equal_nan=a.values.dtype.kind == "f")
               for a, b in zip(before, theirs.inputs))


def cause(name: str, form: str, text: str, args: object) -> str | None:
    """Why a difference is accepted; None where it is not."""
    drawn = args is not None and name.endswith(("attention_forward", "dot_product_attention")) and text.startswith(("values", "not finite"))
    if drawn and (
            args[1].get("dropout_p") or any(type(value) is float and 0 < value < 1 for value in args[0])):
        return "draws of dropout"
    return next((why for names, forms, texts, why in RULES if names.match(name) and forms.search(form) and texts.match(text)), None)


def count(cause: str) -> None:
    COUNTS[cause] += 1
