"""The CPU's kernels by name: typed Cython from `volta/_kernels/cpu`, in the best variant for the running CPU. Every module there that has
a table `KERNELS` is found; `_ROOMS` says where a family has more modules than that of its name. The families that every program needs are
loaded at once, each of the others when a kernel of it is first called: all of them take a tenth of the time of `import volta`."""
from importlib import import_module
from importlib.util import find_spec

from volta._kernels import cpu
from volta._kernels.cpu import copy, elementwise, reduce, update
from volta.dtypes import bfloat16, float16, int8, int16
from volta.ops.table import RECORDS, bind, import_all

KERNELS: dict = {}
_FIRST = (copy, elementwise, reduce, update)

PRODUCTS = ("matmul", "linear")
ROWS = ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad", "row_norm", "row_norm_grad")
ADDED = ("index_add", "index_sum", "index_add_into", "scatter_add", "scatter_sum", "scatter_add_into")
# Kernels that take float16 themselves.
HALF = {*(name for module in _FIRST for name in module.KERNELS), *PRODUCTS, "gather", "index_select", "index_put", "extend", "cat", "roll",
        "columns", "triangle", "norm2", *ADDED, *ROWS}
# Those that take what else is computed in a wider dtype than it is stored in: all that copies, and what moves elements by their size;
# bfloat16 is taken by elementwise kernels and reductions, too.
MOVES = {*copy.KERNELS, "cat", "gather", "index_select", "index_put", "extend", "roll", "where", "columns", "triangle"}
OWN = {float16.code: HALF, int8.code: {*MOVES, "matmul", "dot"}, int16.code: MOVES,
       bfloat16.code: {*MOVES, *elementwise.KERNELS, *reduce.KERNELS, *PRODUCTS, *ROWS, "norm2", *ADDED}}


class _Late:
    """The kernel of a record whose family is not loaded yet."""
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *inputs, **params):
        _load_family(self.name)
        return RECORDS[self.name].cpu(*inputs, **params)


# Modules of families that have more than one, or one of another name; a kernel that is not found so is looked for in all.
_ROOMS = {"movement": ("join",), "creation": ("random",), "inplace": ("random", "index", "scatter"),
          "index": ("scatter",), "reduce": ("moments",), "activation": ("glu",), "sort": ("median", "search", "scatter"),
          "places": ("search",), "conv": ("conv_weight",), "update": ("norm",), "attention": ("slopes",),
          "pool": ("pool_largest", "pool_average"), "norm": ("row_norm",), "resample": ("windowed",)}


def _load_family(name: str) -> None:
    """Load the module that has this kernel."""
    family = RECORDS[name].family
    for room in (family, *_ROOMS.get(family, ())):
        place = f"{cpu.__name__}.{room}"
        if find_spec(place) is not None and name in getattr(import_module(place), "KERNELS", {}):
            _bind([import_module(place)])
            return
    load()


def _bind(modules) -> None:
    """Give the records that have none yet the kernels of these modules."""
    for module in modules:
        KERNELS.update(getattr(module, "KERNELS", {}))
    late = [name for name, op in RECORDS.items() if op.cpu is None or type(op.cpu) is _Late]
    bind({name: KERNELS[name] for name in late if name in KERNELS}, "cpu", own=OWN)


def load() -> None:
    """Load all families. A record that has no kernel then has None."""
    _bind(import_all(cpu))
    bind({name: None for name, op in RECORDS.items() if type(op.cpu) is _Late}, "cpu", own=OWN)


_bind(_FIRST)
for _name, _op in RECORDS.items():
    if _op.details.fits:
        KERNELS[_name].strict = True
bind({name: _Late(name) for name, op in RECORDS.items() if op.cpu is None}, "cpu", own=OWN)
