"""What records of elementwise ops have in common: how one is made, the samples, and what `help` says of the public ones."""
from __future__ import annotations

from volta.ops.table import BINARY_SHAPES, TERNARY_SHAPES, UNARY_SHAPES, Places, case, register

UNARY_CASES = tuple(case(s) for s in UNARY_SHAPES)
BINARY_CASES = tuple(case(*s) for s in BINARY_SHAPES)
TERNARY_CASES = tuple(case(*s) for s in TERNARY_SHAPES)


# What `help` says of the public ones: the formula, and an example's result and operands.
DOCS = {
    "neg": ("-input.", "tensor([-1.,  2.])", "[1.0, -2.0]"),
    "abs": ("The absolute value, |input|.", "tensor([1., 2.])", "[1.0, -2.0]"),
    "sign": ("-1, 0 or 1 by the sign of input; 0 for NaN.", "tensor([ 1.,  0., -1.])", "[3.0, 0.0, -2.0]"),
    "reciprocal": ("1 / input.", "tensor([ 0.5000, -0.2500])", "[2.0, -4.0]"),
    "sqrt": ("The square root; NaN for negative numbers.", "tensor([2., 3.])", "[4.0, 9.0]"),
    "rsqrt": ("1 / sqrt(input).", "tensor([0.5000, 0.2500])", "[4.0, 16.0]"),
    "exp": ("e ** input.", "tensor([1.0000, 2.7183])", "[0.0, 1.0]"),
    "exp2": ("2 ** input.", "tensor([8.0000, 0.5000])", "[3.0, -1.0]"),
    "expm1": ("e ** input - 1, exact near 0.", "tensor([0.0000, 1.7183])", "[0.0, 1.0]"),
    "log": ("The natural logarithm; NaN for negative numbers.", "tensor([0.0000, 2.3026])", "[1.0, 10.0]"),
    "log2": ("The logarithm to base 2.", "tensor([ 3., -1.])", "[8.0, 0.5]"),
    "log10": ("The logarithm to base 10.", "tensor([1., 0.])", "[10.0, 1.0]"),
    "log1p": ("log(1 + input), exact near 0.", "tensor([0.0000, 0.6931])", "[0.0, 1.0]"),
    "sin": ("The sine. Units: radians.", "tensor([0.0000, 0.8415])", "[0.0, 1.0]"),
    "cos": ("The cosine. Units: radians.", "tensor([1.0000, 0.5403])", "[0.0, 1.0]"),
    "tan": ("The tangent. Units: radians.", "tensor([0.0000, 1.5574])", "[0.0, 1.0]"),
    "sinc": ("sin(pi * input) / (pi * input), 1 at 0.", "tensor([1.0000, 0.6366])", "[0.0, 0.5]"),
    "tanh": ("(e**x - e**-x) / (e**x + e**-x).", "tensor([0.0000, 0.7616])", "[0.0, 1.0]"),
    "sigmoid": ("1 / (1 + e ** -input).", "tensor([0.5000, 0.8808])", "[0.0, 2.0]"),
    "erf": ("The error function, 2 / sqrt(pi) times the integral of e**-t**2 from 0 to input.", "tensor([0.0000, 0.8427])", "[0.0, 1.0]"),
    "relu": ("max(input, 0); NaN stays NaN.", "tensor([1., 0.])", "[1.0, -2.0]"),
    "silu": ("input * sigmoid(input).", "tensor([ 0.7311, -0.2384])", "[1.0, -2.0]"),
    "floor": ("The largest integer that is not above input.", "tensor([ 1., -2.])", "[1.5, -1.5]"),
    "ceil": ("The smallest integer that is not below input.", "tensor([ 2., -1.])", "[1.5, -1.5]"),
    "trunc": ("The integer part: rounded towards 0.", "tensor([ 1., -1.])", "[1.5, -1.5]"),
    "angle": ("The angle of real numbers in the complex plane: pi below 0, else 0; NaN of NaN. Units: radians.",
              "tensor([0.0000, 3.1416])", "[1.0, -2.0]"),
    "frac": ("input - trunc(input): what follows the point, with the sign of input.", "tensor([ 0.5000, -0.5000])", "[1.5, -1.5]"),
    "logical_not": ("Whether input is 0.", "tensor([ True, False])", "[0.0, 2.0]"),
    "bitwise_not": ("Every bit inverted; for bool, logical not.", "tensor([-1, -6])", "[0, 5]"),
    "isnan": ("Whether input is NaN.", "tensor([False,  True])", "[1.0, float('nan')]"),
    "isinf": ("Whether input is an infinity.", "tensor([False,  True])", "[1.0, float('-inf')]"),
    "isfinite": ("Whether input is neither NaN nor an infinity.", "tensor([ True, False])", "[1.0, float('inf')]"),
    "mul": ("input * other.", "tensor([3., 8.])", "[1.0, 2.0]", "[3.0, 4.0]"),
    "pow": ("input ** exponent, as in C; integers have no negative powers.", "tensor([8., 9.])", "[2.0, 3.0]", "[3.0, 2.0]"),
    "xlogy": ("input * log(other), 0 where input is 0.", "tensor([0.0000, 1.3863])", "[0.0, 2.0]", "[0.0, 2.0]"),
    "remainder": ("input - floor(input / other) * other, with the sign of other.", "tensor([2., 1.])", "[5.0, -5.0]", "[3.0, 3.0]"),
    "fmod": ("input - trunc(input / other) * other, with the sign of input.", "tensor([ 2., -2.])", "[5.0, -5.0]", "[3.0, 3.0]"),
    "floor_divide": ("floor(input / other).", "tensor([ 1., -2.])", "[5.0, -5.0]", "[3.0, 3.0]"),
    "maximum": ("The larger one; NaN where either is NaN.", "tensor([3., 4.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "minimum": ("The smaller one; NaN where either is NaN.", "tensor([1., 2.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "clamp_min": ("input, or `min` where that is larger.", "tensor([3., 4.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "clamp_max": ("input, or `max` where that is smaller.", "tensor([1., 2.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "eq": ("input == other.", "tensor([ True, False])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "ne": ("input != other.", "tensor([False,  True])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "lt": ("input < other.", "tensor([False,  True])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "le": ("input <= other.", "tensor([True, True])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "gt": ("input > other.", "tensor([False,  True])", "[1.0, 4.0]", "[1.0, 3.0]"),
    "ge": ("input >= other.", "tensor([ True, False])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "logical_and": ("Whether both are other than 0.", "tensor([False,  True])", "[0.0, 2.0]", "[1.0, 3.0]"),
    "logical_or": ("Whether either is other than 0.", "tensor([True, True])", "[0.0, 2.0]", "[1.0, 3.0]"),
    "logical_xor": ("Whether exactly one is other than 0.", "tensor([ True, False])", "[0.0, 2.0]", "[1.0, 3.0]"),
    "bitwise_and": ("The bits set in both; for bool, logical and.", "tensor([2, 4])", "[6, 5]", "[3, 4]"),
    "bitwise_or": ("The bits set in either; for bool, logical or.", "tensor([7, 5])", "[6, 5]", "[3, 4]"),
    "bitwise_xor": ("The bits set in exactly one; for bool, logical exclusive or.", "tensor([5, 1])", "[6, 5]", "[3, 4]"),
    "mulacc": ("a * b + c in one pass. Volta's own.", "tensor([ 8., 14.])", "[1.0, 2.0]", "[3.0, 4.0]", "[5.0, 6.0]"),
    "asin": ("The angle whose sine is input; NaN beyond 1. Units: radians.", "tensor([0.0000, 1.5708])", "[0.0, 1.0]"),
    "acos": ("The angle whose cosine is input; NaN beyond 1. Units: radians.", "tensor([1.5708, 0.0000])", "[0.0, 1.0]"),
    "atan": ("The angle whose tangent is input. Units: radians.", "tensor([0.0000, 0.7854])", "[0.0, 1.0]"),
    "sinh": ("(e**x - e**-x) / 2.", "tensor([0.0000, 1.1752])", "[0.0, 1.0]"),
    "cosh": ("(e**x + e**-x) / 2.", "tensor([1.0000, 1.5431])", "[0.0, 1.0]"),
    "asinh": ("The inverse of sinh.", "tensor([0.0000, 0.8814])", "[0.0, 1.0]"),
    "acosh": ("The inverse of cosh; NaN below 1.", "tensor([0.0000, 1.3170])", "[1.0, 2.0]"),
    "atanh": ("The inverse of tanh; NaN beyond 1.", "tensor([0.0000, 0.5493])", "[0.0, 0.5]"),
    "erfc": ("1 - erf(input), exact where that is small.", "tensor([1.0000, 0.1573])", "[0.0, 1.0]"),
    "erfinv": ("The inverse of erf; NaN beyond 1.", "tensor([0.0000, 0.4769])", "[0.0, 0.5]"),
    "lgamma": ("The logarithm of |Gamma(input)|.", "tensor([0.6931, 3.1781])", "[3.0, 5.0]"),
    "digamma": ("The derivative of lgamma.", "tensor([-0.5772,  0.4228])", "[1.0, 2.0]"),
    "i0": ("The modified Bessel function of the first kind, of order 0.", "tensor([1.0000, 1.2661])", "[0.0, 1.0]"),
    "erfcx": ("erfc(input) * e**(input**2), without underflow.", "tensor([1.0000, 0.4276])", "[0.0, 1.0]"),
    "ndtr": ("The normal distribution function: the chance of a number below input.", "tensor([0.5000, 0.8413])", "[0.0, 1.0]"),
    "ndtri": ("The inverse of ndtr; NaN beyond [0, 1].", "tensor([0.0000, 1.2816])", "[0.5, 0.9]"),
    "log_ndtr": ("log(ndtr(input)), exact where that is small.", "tensor([ -0.6931, -53.2313])", "[0.0, -10.0]"),
    "entr": ("-input * log(input), 0 at 0 and -infinity below.", "tensor([0.3466, 0.0000])", "[0.5, 0.0]"),
    "xlog1py": ("input * log(1 + other), 0 where input is 0.", "tensor([0.0000, 1.3863])", "[0.0, 2.0]", "[-1.0, 1.0]"),
    "zeta": ("Hurwitz's zeta function: the sum of (k + other)**-input over k >= 0; NaN for input < 1, and below 0 for broken inputs.",
             "tensor([1.6449, 0.2021])", "[2.0, 3.0]", "[1.0, 2.0]"),
    "igamma": ("The regularised lower incomplete gamma function: the integral of t**(input - 1) * e**-t from 0 to other, over "
               "Gamma(input). Its derivative is by other alone.", "tensor([0.6321, 0.5940])", "[1.0, 2.0]", "[1.0, 2.0]"),
    "igammac": ("The regularised upper incomplete gamma function, 1 - igamma(input, other), exact where that is small. Its derivative is "
                "by other alone.", "tensor([0.3679, 0.4060])", "[1.0, 2.0]", "[1.0, 2.0]"),
    "i1": ("The modified Bessel function of the first kind, of order 1.", "tensor([0.0000, 0.5652])", "[0.0, 1.0]"),
    "i0e": ("i0(input) * e**-|input|, without overflow.", "tensor([1.0000, 0.4658])", "[0.0, 1.0]"),
    "i1e": ("i1(input) * e**-|input|, without overflow.", "tensor([0.0000, 0.2079])", "[0.0, 1.0]"),
    "bessel_j0": ("The Bessel function of the first kind, of order 0.", "tensor([1.0000, 0.7652])", "[0.0, 1.0]"),
    "bessel_j1": ("The Bessel function of the first kind, of order 1.", "tensor([0.0000, 0.4401])", "[0.0, 1.0]"),
    "bessel_y0": ("The Bessel function of the second kind, of order 0; NaN below 0.", "tensor([0.0883, 0.5104])", "[1.0, 2.0]"),
    "bessel_y1": ("The Bessel function of the second kind, of order 1; NaN below 0.", "tensor([-0.7812, -0.1070])", "[1.0, 2.0]"),
    "modified_bessel_k0": ("The modified Bessel function of the second kind, of order 0; NaN below 0.",
                           "tensor([0.4210, 0.1139])", "[1.0, 2.0]"),
    "modified_bessel_k1": ("The modified Bessel function of the second kind, of order 1; NaN below 0.",
                           "tensor([0.6019, 0.1399])", "[1.0, 2.0]"),
    "scaled_modified_bessel_k0": ("modified_bessel_k0(input) * e**input, without underflow.", "tensor([1.1445, 0.8416])", "[1.0, 2.0]"),
    "scaled_modified_bessel_k1": ("modified_bessel_k1(input) * e**input, without underflow.", "tensor([1.6362, 1.0335])", "[1.0, 2.0]"),
    "airy_ai": ("The Airy function Ai; NaN below -1e10, where its phase is lost.", "tensor([0.3550, 0.1353])", "[0.0, 1.0]"),
    "spherical_bessel_j0": ("sin(input) / input, 1 at 0: the spherical Bessel function of order 0.",
                            "tensor([1.0000, 0.8415])", "[0.0, 1.0]"),
    "signbit": ("Whether the sign bit is set: below 0, or -0.", "tensor([False,  True])", "[1.0, -0.0]"),
    "atan2": ("The angle of the point (other, input). Units: radians.", "tensor([0.7854, 3.1416])", "[1.0, 0.0]", "[1.0, -1.0]"),
    "hypot": ("sqrt(input**2 + other**2), without overflow.", "tensor([ 5., 13.])", "[3.0, 5.0]", "[4.0, 12.0]"),
    "copysign": ("|input| with the sign bit of other.", "tensor([-1.,  2.])", "[1.0, -2.0]", "[-0.0, 3.0]"),
    "logaddexp": ("log(exp(input) + exp(other)), without overflow.", "tensor([  0.6931, 100.6931])", "[0.0, 100.0]", "[0.0, 100.0]"),
    "logaddexp2": ("log2(2**input + 2**other), without overflow.", "tensor([  1., 101.])", "[0.0, 100.0]", "[0.0, 100.0]"),
    "fmax": ("The larger one, or the one that is not NaN.", "tensor([3., 4.])", "[1.0, 4.0]", "[3.0, float('nan')]"),
    "fmin": ("The smaller one, or the one that is not NaN.", "tensor([1., 4.])", "[1.0, 4.0]", "[3.0, float('nan')]"),
    "gcd": ("The greatest common divisor, >= 0.", "tensor([2, 5])", "[4, 5]", "[-6, 0]"),
    "lcm": ("The least common multiple, >= 0.", "tensor([12,  0])", "[4, 5]", "[-6, 0]"),
    "bitwise_left_shift": ("input * 2 ** other in the bits of the dtype; 0 for a shift that is negative or as wide as those.",
                           "tensor([4, 0])", "[1, 1]", "[2, 64]"),
    "bitwise_right_shift": ("input / 2 ** other rounded down; 0 or -1 for a shift that is negative or as wide as the dtype.",
                            "tensor([ 2, -1])", "[8, -8]", "[2, 64]"),
    "hardsigmoid": ("relu6(input + 3) / 6.", "tensor([0.0000, 0.5000, 1.0000])", "[-4.0, 0.0, 4.0]"),
    "hardswish": ("input * relu6(input + 3) / 6. Source: Howard et al. 2019.", "tensor([-0.3333,  4.0000])", "[-1.0, 4.0]"),
    "logsigmoid": ("log(sigmoid(input)).", "tensor([-0.6931, -0.0486])", "[0.0, 3.0]"),
    "mish": ("input * tanh(softplus(input)). Source: Misra 2019.", "tensor([0.0000, 0.8651])", "[0.0, 1.0]"),
}


def _record(name, inputs, names, vjp, *, takes, public=True, promote=None, function=True, method=True, inplace=True, operator=None,
            reflected=False, aliases=(), kinds=None, room="", tensors=0, rounds=False, factors=False, unrecorded=False,
            **options):
    """An elementwise record. Where it takes nothing but floating point numbers, integers are converted. In a `room`, such as "special",
    it is a function of that module alone. The first `tensors` inputs may not be Python numbers, as in PyTorch. One beside 16 bits is
    rounded to them first where the record `rounds`; factors, divisors and limits are computed with as they are, with `factors` also those
    in tensors without dimensions. The in-place form of an `unrecorded` one leaves the history of what it changes as it is."""
    doc = places = None
    if public:
        formula, result, *operands = DOCS[name]
        where = f"{room}." if room else "" if function else "nn.functional."
        call = f"{where}{name}({', '.join(f'volta.tensor({x})' for x in operands)})"
        doc = f"{formula}\n\n>>> volta.{call}\n{result}"
        function, method, inplace = (each and not room for each in (function, method, inplace))
        places = Places(function, method, inplace, None, False, operator, reflected, aliases)
    op = register(name, inputs, names=names, vjp=vjp, takes=takes, promote=promote or ("float" if takes == "f" else "common"),
                  kinds=kinds or takes, public=places, room=room, doc=doc, **options)
    op.tensors, op.rounds, op.factors, op.unrecorded = tensors, rounds, factors, unrecorded
    return op


def unary(name, vjp=None, *, takes="f", family="unary", **options):
    """A record of one tensor."""
    return _record(name, ("x",), ("input",), (vjp,) if vjp else None, takes=takes, family=family, cases=UNARY_CASES, **options)


def binary(name, vjp=None, *, takes="fi", family="binary", second="other", cases=BINARY_CASES, **options):
    """A record of two."""
    return _record(name, ("a", "b"), ("input", second), vjp, takes=takes, family=family, cases=cases, **options)


def ternary(name, inputs, vjp, *, cases=TERNARY_CASES, **options):
    """A record of three."""
    return _record(name, inputs, ("input", *inputs[1:]) if inputs[0] == "x" else inputs, vjp, family="ternary", cases=cases, **options)


def gradient(name, second, vjp=None, *, numbers=None, domain=(-2.0, 2.0), **options):
    """A record of the derivative of an activation: of the gradient, of what the activation kept, and of numbers, given with samples."""
    numbers = numbers or {}
    cases = tuple(case(shape, shape, *numbers.values()) for shape in ((6,), (3, 4), (0, 2)))
    return register(name, ("g", second, *numbers), vjp=vjp, family="grad", promote="float", takes="f", domain=domain, cases=cases,
                    **options)
