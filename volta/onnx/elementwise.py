"""Translations of elementwise records, casts included."""
from __future__ import annotations

import math

from volta.dtypes import bool_, int32, int64
from volta.onnx.graph import TRANSLATIONS, Call, Graph, translates

# ---------------------------------------------------------------- one node each
_SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "hardswish": "HardSwish", "isinf": "IsInf", "isnan": "IsNaN", "log": "Log", "mish": "Mish",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
    "sqrt": "Sqrt", "root": "Sqrt", "tan": "Tan", "tanh": "Tanh", "sub": "Sub", "div": "Div", "pow": "Pow",
    "clamp_min": "Max", "clamp_max": "Min"}
_ROUNDED = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}
_COMPARED = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_OF_BOOL = {"add": ("Add", "Or"), "mul": ("Mul", "And"), "maximum": ("Max", "Or"), "minimum": ("Min", "And"),
            "bitwise_and": ("BitwiseAnd", "And"), "bitwise_or": ("BitwiseOr", "Or"), "bitwise_xor": ("BitwiseXor", "Xor"),
            "bitwise_not": ("BitwiseNot", "Not")}


def _direct(op):
    return lambda g, c: g.node(op, *[c[i] for i in range(len(c))])


TRANSLATIONS.update({name: _direct(op) for name, op in _SAME.items()})


@translates(*_OF_BOOL)
def _of_bool(g: Graph, c: Call):
    return g.node(_OF_BOOL[c.op][c.dtype is bool_], *[c[i] for i in range(len(c))])


@translates(*_ROUNDED)
def _rounded(g: Graph, c: Call):
    return g.node(_ROUNDED[c.op], c[0]) if c.dtype.is_floating_point else c[0]


@translates(*_COMPARED)
def _compared(g: Graph, c: Call):
    sides = [g.cast(c[i], int32) if c.dtype is bool_ else c[i] for i in (0, 1)]
    return g.node(_COMPARED[c.op], *sides)


@translates("eq")
def _equal(g: Graph, c: Call):
    return g.node("Equal", c[0], c[1])


@translates("ne")
def _unequal(g: Graph, c: Call):
    return g.node("Not", g.node("Equal", c[0], c[1]))


def _true(g, c, i):
    """An operand as bool."""
    x = c.inputs[i]
    return c[i] if getattr(x, "dtype", None) is bool_ else g.cast(c[i], bool_)


@translates(*_LOGICAL)
def _logical(g: Graph, c: Call):
    return g.node(_LOGICAL[c.op], _true(g, c, 0), _true(g, c, 1))


@translates("logical_not")
def _not(g: Graph, c: Call):
    return g.node("Not", _true(g, c, 0))


@translates("isfinite")
def _finite(g: Graph, c: Call):
    return g.node("Not", g.node("Or", g.node("IsInf", c[0]), g.node("IsNaN", c[0])))


@translates("cast", "copy_into")
def _cast(g: Graph, c: Call):
    source = c.inputs[-1]
    return c[len(c) - 1] if source.dtype is c.out.dtype else g.cast(c[len(c) - 1], c.out.dtype)


@translates("where")
def _where(g: Graph, c: Call):
    c.dtype = c.out.dtype
    return g.node("Where", c[0], c[1], c[2])


# ---------------------------------------------------------------- formulas
class _Formula:
    """Arithmetic with names of values and numbers, for what takes several nodes."""

    def __init__(self, g: Graph, c: Call, name: str) -> None:
        self.g, self.c, self.name = g, c, name

    def node(self, op: str, *others: object, **attributes: object) -> _Formula:
        """The result of a node of this and others."""
        names = [x.name if isinstance(x, _Formula) else self.g.scalar(x, self.c.dtype) for x in others]
        return _Formula(self.g, self.c, self.g.node(op, self.name, *names, **attributes))

    def __add__(self, x: object) -> _Formula:
        return self.node("Add", x)

    def __sub__(self, x: object) -> _Formula:
        return self.node("Sub", x)

    def __mul__(self, x: object) -> _Formula:
        return self.node("Mul", x)

    def __truediv__(self, x: object) -> _Formula:
        return self.node("Div", x)


def _trunc(x):
    return x.node("Sign") * x.node("Abs").node("Floor")


def _gelu_tanh(x):
    return x * 0.5 * (((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)).node("Tanh") + 1.0)


def _softplus(x, beta, threshold):
    scaled = x * beta
    return scaled.node("Greater", threshold).node("Where", x, scaled.node("Softplus") / beta)


def _elu(x, alpha, inner):
    return x.node("Greater", 0.0).node("Where", x, ((x.node("Min", 0.0) * inner).node("Exp") - 1.0) * alpha)


def _bce(x, target):
    """-(target * log(x) + (1 - target) * log(1 - x)), neither logarithm below -100."""
    hit, miss = x.node("Log").node("Max", -100.0), (x.node("Neg") + 1.0).node("Log").node("Max", -100.0)
    return (miss + target * (hit - miss)).node("Neg")


def _logistic_loss(x, target):
    positive = x.node("Greater", 0.0)
    return x * (positive.node("Where", 1.0, 0.0) - target) + (x.node("Abs").node("Neg").node("Exp") + 1.0).node("Log")


def _huber(x, target, delta):
    size = (x - target).node("Abs")
    return size.node("LessOrEqual", delta).node("Where", size * size * 0.5, (size - delta * 0.5) * delta)


def _cosine_loss(x, target, margin):
    beyond = target.node("Equal", -1.0).node("Where", (x - margin).node("Max", 0.0), 0.0)
    return target.node("Equal", 1.0).node("Where", x * -1.0 + 1.0, beyond)


def _xlogy(a, b):
    nothing = a.node("Equal", 0.0).node("And", b.node("IsNaN").node("Not"))
    return nothing.node("Where", 0.0, a * b.node("Log"))


def _floor_divide(a, b):
    return (a / b).node("Floor") if a.c.dtype.is_floating_point else (a - a.node("Mod", b)) / b


def _remainder(a, b):
    return a - b * (a / b).node("Floor") if a.c.dtype.is_floating_point else a.node("Mod", b)


def _wrapped(i, n):
    return i.node("Less", 0).node("Where", i + n, i)


def _sinc(x):
    angle = x * math.pi
    return angle.node("Equal", 0.0).node("Where", 1.0, angle.node("Sin") / angle)


_FORMULAS = {
    "rsqrt": lambda x: x.node("Sqrt").node("Reciprocal"), "exp2": lambda x: (x * math.log(2)).node("Exp"),
    "expm1": lambda x: x.node("Exp") - 1.0, "log2": lambda x: x.node("Log") / math.log(2), "log10": lambda x: x.node("Log") / math.log(10),
    "log1p": lambda x: (x + 1.0).node("Log"), "gelu": lambda x: x * 0.5 * ((x / math.sqrt(2)).node("Erf") + 1.0), "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * x.node("Sigmoid"), "trunc": lambda x: _trunc(x) if x.c.dtype.is_floating_point else x,
    "angle": lambda x: x.node("Less", 0.0).node("Where", math.pi, x.node("IsNaN").node("Where", x, 0.0)),
    "frac": lambda x: x - _trunc(x), "logsigmoid": lambda x: x.node("Neg").node("Softplus").node("Neg"),
    "hardsigmoid": lambda x: x.node("HardSigmoid", alpha=1 / 6, beta=0.5), "erfc": lambda x: x.node("Erf").node("Neg") + 1.0,
    "leaky_relu": lambda x, slope: x.node("Greater", 0.0).node("Where", x, x * slope), "elu": _elu, "softplus": _softplus, "bce": _bce,
    "logistic_loss": _logistic_loss, "huber": _huber, "cosine_loss": _cosine_loss,
    "absolute_difference": lambda a, b: (a - b).node("Abs"), "softsign": lambda x: x.node("Softsign"),
    "squared_difference": lambda a, b: (a - b) * (a - b),
    "clamp": lambda x, low, high: x.node("Max", low).node("Min", high), "hardtanh": lambda x, low, high: x.node("Clip", low, high),
    "mulacc": lambda a, b, c: a * b + c, "add_product": lambda x, a, b, value: a * b * value + x,
    "add_quotient": lambda x, a, b, value: a * value / b + x, "lerp": lambda a, b, w: (b - a) * w + a,
    "threshold": lambda x, limit, value: x.node("LessOrEqual", limit).node("Where", value, x),
    "nan_to_num": lambda x, nan, largest: x.node("IsNaN").node("Where", nan, x.node("Clip", largest.node("Neg"), largest)),
    "hardshrink": lambda x, limit: x.node("Abs").node("LessOrEqual", limit).node("Where", 0.0, x),
    "softshrink": lambda x, limit: x - x.node("Clip", limit.node("Neg"), limit), "selu": lambda x: x.node("Selu"),
    "positive_part": lambda x: x.node("Greater", 0.0).node("Where", x, 0.0),
    "wrapped": _wrapped, "joined": lambda i, n, j, m: _wrapped(i, n) * m + _wrapped(j, m), "sinc": _sinc,
    "xlogy": _xlogy, "hypot": lambda a, b: (a * a + b * b).node("Sqrt"),
    "remainder": _remainder, "fmod": lambda a, b: a.node("Mod", b, fmod=1), "floor_divide": _floor_divide,
    "div_trunc": lambda a, b: _trunc(a / b) if a.c.dtype.is_floating_point else a / b}


@translates(*_FORMULAS)
def _formula(g: Graph, c: Call):
    return _FORMULAS[c.op](*[_Formula(g, c, c[i]) for i in range(len(c))]).name


@translates("bitwise_left_shift")
def _left_shift(g: Graph, c: Call):
    power = g.node("Pow", g.scalar(2, int64), g.cast(c[1], int64))
    return g.node("Mul", c[0], g.cast(power, c.dtype))
