"""Temporary: methods of functions that are not declared yet."""
# ruff: noqa
import functools
from volta._kernels import core
from volta._kernels.core import graph, inplace
from volta.ops import copy as copies
from volta.ops import creation, einsum, indexing, join, linalg, math, reduce, subscript, table, view
from volta.ops.checks import explained
from volta.ops.records import math as records
Number = object
def _named(method, name, text):
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", text
    return method


def _inplace(op, name=None):
    if len(op.inputs) == 1:
        def method(self) :
            return inplace.into(op, self)
    else:
        def method(self, other) :
            return inplace.into(op, self, other)
    return _named(method, name or op.name + "_", f"`{op.name}` in place.")


def _bitwise_inplace(op, name):
    def method(self, other) :
        math.need_integers(op.name + "_", self, other)
        return inplace.into(op, self, other)
    return _named(method, name, f"`{op.name}` in place.")


def _whole_inplace(function, op):
    """Rounding in place: one kernel where the dtype is floating, the function (which knows options and integers) otherwise."""
    @functools.wraps(function)
    def method(self, *args, **options) :
        if args or options or not self.dtype.is_floating_point:
            return replace(self, function, *args, **options)
        return inplace.into(op, self)
    return explained(_named(method, op.name + "_", f"`{op.name}` in place."))


def _replacing(function):
    """A composed function in place: computed, then copied in."""
    @functools.wraps(function)
    def method(self, *args, **options) :
        return replace(self, function, *args, **options)
    return explained(_named(method, function.__name__ + "_", f"`{function.__name__}` in place."))


def replace(t, function, *args, **options) :
    """t[...] = function(t, ...), recorded where gradients are wanted."""
    recorded = graph.is_grad_enabled() and t.requires_grad
    if recorded:
        inplace.check_inplace(function.__name__, t)
    out = function(copies.clone(inplace.as_before(t)) if recorded else t, *args, **options)     # a copy: the function may save its input
    inplace.check_stored(function.__name__, out.dtype, t)
    return inplace.overwrite(t, out) if recorded else t.copy_(out)


def _reflected(function):
    def method(self, other):
        plain = isinstance(other, (int, float, core.TensorBase))
        return function(other if plain else creation.tensor(other, device=self.device), self)
    return method


def _compare(op):
    def method(self, other):
        return NotImplemented if other is None or isinstance(other, str) else op(self, other)
    return method


def _install(Tensor) -> None:
    """Make the functions of `volta.ops` methods."""
    tables = {
        math: "sign reciprocal sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos tan tanh sigmoid relu neg abs floor ceil round trunc erf "
              "logical_not isnan isinf isfinite add sub mul remainder fmod floor_divide maximum minimum eq ne lt le gt ge logical_and "
              "logical_or logical_xor mulacc recip mod cmplt silu absolute negative multiply subtract divide true_divide less "
              "less_equal greater greater_equal not_equal bitwise_not clamp_min clamp_max addcdiv lerp log10 frac nan_to_num "
              "isclose allclose equal div pow bitwise_and bitwise_or bitwise_xor clamp square addcmul gelu",
        view: "reshape view flatten permute transpose t expand broadcast_to unsqueeze squeeze narrow shrink stride_op chunk unbind "
              "diagonal select swapaxes swapdims movedim unflatten ravel tensor_split unfold",
        copies: "flip repeat diag trace tile repeat_interleave fliplr flipud",
        join: "pad roll",
        reduce: "sum mean amax amin argmax argmin max min prod any all var std logsumexp norm softmax log_softmax count_nonzero",
        linalg: "matmul mm mv bmm dot outer addmm baddbmm",
        einsum: "inner",
        indexing: "gather scatter_add index_add index_select take_along_dim",
        subscript: "masked_fill masked_select nonzero",
        creation: "tril triu new_zeros new_ones new_empty new_full new_tensor",
    }
    for module, names in tables.items():
        for name in names.split():
            if name not in Tensor.__dict__:
                setattr(Tensor, name, explained(getattr(module, name)))
    Tensor.clip = Tensor.clamp
    for name in ("mul", "neg", "abs", "sqrt", "exp", "log", "relu", "sigmoid", "tanh", "maximum", "minimum", "remainder",
                 "reciprocal"):
        setattr(Tensor, name + "_", _inplace(table.PRIMITIVES[name]))
    for name in ("floor", "ceil", "round"):
        setattr(Tensor, name + "_", _whole_inplace(getattr(math, name), table.PRIMITIVES[name]))
    for module, names in ((math, "addcmul addcdiv lerp clamp_min clamp_max nan_to_num"), (indexing, "scatter_add index_add"),
                          (creation, "tril triu")):
        for name in names.split():
            setattr(Tensor, name + "_", _replacing(getattr(module, name)))
    Tensor.clip_, Tensor.moveaxis = Tensor.clamp_, Tensor.movedim
    _install_operators(Tensor)


def _where(self, condition, other):
    """Elements of this tensor where `condition` holds, else of `other`."""
    return math.where(condition, self, other)


def _install_operators(Tensor) -> None:
    e = records
    Tensor.__pos__ = lambda self: self
    Tensor.__neg__, Tensor.__abs__ = lambda self: e.neg(self), lambda self: e.abs(self)
    Tensor.__pow__, Tensor.__rpow__ = math.pow, _reflected(e.pow_op)
    Tensor.__mod__, Tensor.__rmod__ = Tensor.remainder, _reflected(e.remainder)
    Tensor.__floordiv__, Tensor.__rfloordiv__ = Tensor.floor_divide, _reflected(e.floor_divide)
    Tensor.__ipow__ = _named(lambda self, other: self.pow_(other), "__ipow__", "`pow` in place.")
    Tensor.__matmul__ = explained(linalg.matmul)
    Tensor.__rmatmul__ = _reflected(Tensor.__matmul__)
    Tensor.__invert__ = math.bitwise_not
    Tensor.__and__ = Tensor.__rand__ = math.bitwise_and
    Tensor.__or__ = Tensor.__ror__ = math.bitwise_or
    Tensor.__xor__ = Tensor.__rxor__ = math.bitwise_xor
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", _compare(table.PRIMITIVES[name]))
    for name, op in (("iadd", e.add), ("isub", e.sub), ("imul", e.mul), ("itruediv", e.div_op), ("imod", e.remainder),
                     ("ifloordiv", e.floor_divide)):
        setattr(Tensor, f"__{name}__", _inplace(op, f"__{name}__"))
    for name in ("and", "or", "xor"):
        setattr(Tensor, f"__i{name}__", _bitwise_inplace(table.PRIMITIVES["bitwise_" + name], f"__i{name}__"))



def pow_(self, exponent):
    math.check_exponent("pow_", self, exponent)
    return inplace.into(records.pow_op, self, exponent)
def add_(self, other, *, alpha = 1):
    return inplace.into(records.add, self, other if alpha == 1 else math.scaled("add_", self, other, alpha))
def sub_(self, other, *, alpha = 1):
    return inplace.into(records.sub, self, other if alpha == 1 else math.scaled("sub_", self, other, alpha))
def div_(self, other, *, rounding_mode = None):
    return inplace.into(records.div_op, self, other) if rounding_mode is None else replace(self, math.div, other, rounding_mode=rounding_mode)
def clamp_(self, min = None, max = None):
    return replace(self, math.clamp, min, max)
def masked_fill_(self, mask, value):
    return replace(self, subscript.masked_fill, mask, value)
def type_as(self, other):
    return copies.cast(self, other.dtype)
def view_as(self, other):
    return view.view(self, other.shape)
def reshape_as(self, other):
    return view.reshape(self, other.shape)
def expand_as(self, other):
    return view.expand(self, other.shape)
def split(self, split_size, dim: int = 0):
    return view.split(self, split_size, dim)

class _Legacy: pass

def undeclared(cls):
    for f in (pow_, add_, sub_, div_, clamp_, masked_fill_, type_as, view_as, reshape_as, expand_as, split):
        setattr(_Legacy, f.__name__, explained(f))
    for name in ("to", "contiguous", "clone"):
        setattr(_Legacy, name, explained(getattr(copies, name)))
    _install(_Legacy)
    for name, f in vars(_Legacy).items():
        if name not in vars(cls) or name.startswith("__") and name not in ("__dict__", "__doc__", "__module__", "__weakref__", "__hash__") and isinstance(getattr(cls, name), type(object.__eq__)):
            if name not in ("__dict__", "__weakref__"):
                setattr(cls, name, f)
