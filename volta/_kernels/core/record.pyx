# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Declarations of operations: `Primitive` (a record: kernels and a derivative), `Composed` (a function of other ops).

Both are what users call, as functions and as methods. Knows no device, no kernel and no graph: `call.pyx` calls kernels, `graph.pyx`
records.
"""
import inspect

from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
from libc.stdlib cimport calloc, free

from volta.errors import ArgumentError, CallError, DTypeError
from volta._kernels.core.base cimport BOOL_MASK, DTYPES, DType, Device, FLOAT32, FLOAT_MASK, INTEGER_MASK, TensorBase, dtype_of, is_half
from volta._kernels.core.order cimport disown, given_by, relabel
from volta._kernels.core.overriding cimport overridden, overriding, taken

cdef extern from "Python.h":
    object PyMethod_New(object function, object instance)
    object PyObject_Call(object function, tuple args, PyObject* options)
    Py_ssize_t PyDict_GET_SIZE(dict)
    long long PyLong_AsLongLongAndOverflow(object, int* overflow) except? -1

cdef apply_t graph_apply = NULL             # set by graph.pyx
cdef check_t _check = NULL                  # set by call.pyx
cdef object _composed = None                # set by call.pyx: (op, args, options) -> result or NotImplemented, while there are observers
cdef object _named = None                   # set by the op table: (name, module or None) -> Op, for unpickling
cdef object _kinds = None                   # function -> what may stand at each place, for more positions, and under each name: masks
cdef object _settled = None                 # (function, args, options) -> the same with numbers as Python's; or DTypeError
cdef object _in_float32 = None              # (function, args, options) -> result, computed in float32
cdef object _fill = None                    # (op, args, options, out) -> out, filled with the result


def configure(named, kinds, settled, in_float32, fill):
    """Give this module the pieces of higher layers that it calls."""
    global _named, _kinds, _settled, _in_float32, _fill
    _named, _kinds, _settled, _in_float32, _fill = named, kinds, settled, in_float32, fill


cdef void set_apply(apply_t function) noexcept:
    global graph_apply
    graph_apply = function


cdef void set_composed(object function):
    global _composed
    _composed = function


cdef void set_check(check_t function) noexcept:
    global _check
    _check = function


def _op_named(name, module=None):
    return _named(name, module)


# ---------------------------------------------------------------- what is common to all ops

cdef dict _SPELLINGS = {                     # NumPy's, torch.linalg's, and those of torch's overloads
    "axis": ("dim",), "keepdims": ("keepdim",), "x": ("input",), "a": ("input",), "A": ("input",), "x1": ("input",), "x2": ("other",),
    "sections": ("indices_or_sections",), "indices": ("indices_or_sections",), "tensor_indices_or_sections": ("indices_or_sections",),
    "from": ("low",), "to": ("high",), "tau": ("input2",), "element": ("elements",), "test_element": ("test_elements",),
    "tensor": ("input",), "split_size": ("split_size_or_sections",), "other": ("src", "B"), "input": ("A", "x", "tensor"), "b": ("B",)}
cdef object _ELSEWHERE = object()           # no result yet


cdef dict _stored(str op, dict options, names):
    """The options of what makes a tensor without PyTorch's words for how that is stored, which may say only what is so."""
    cdef object layout = options.get("layout")
    if "layout" not in names and layout is not None and str(layout).rpartition(".")[2] != "strided":     # also "torch.strided"
        raise ArgumentError(f"{op}: tensors are strided, layout={layout} is not available; leave it out")
    if options.get("pin_memory"):
        raise ArgumentError(f"{op}: there is no pinned memory, pin_memory=True is not available; leave it out")
    return {name: x for name, x in options.items() if name in names or name not in ("layout", "pin_memory")}


cdef list _parameters(function):
    """Names of a function's parameters. `inspect.signature` would take a fifth of the time of `import volta`."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__self__") or hasattr(function, "__wrapped__") or code.co_flags & 0b1100:
        # bound, or with *args or **kwargs
        return list(inspect.signature(function).parameters)
    return list(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])


cdef class Op:
    """A public operation: a function, and a method where a tensor class has it as an attribute. Other classes that do (`act = torch.relu`)
    have the function, as with PyTorch's, which are no functions of Python's."""

    def __get__(self, instance, owner):
        return PyMethod_New(self, instance) if isinstance(instance, TensorBase) else self

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}>"

    def __reduce__(self):
        return (_op_named, (self.name, getattr(self, "__module__", None)))

    cdef object otherwise(self, tuple args, dict options, names):
        """The result of a call with `out`, or with NumPy's spellings of arguments; _ELSEWHERE for any other."""
        cdef object out
        if self.has_out and "out" in options:
            out = options.pop("out")
            return self(*args, **options) if out is None else _fill(self, args, options, out)
        if ("layout" in options or "pin_memory" in options) and ("requires_grad" in names or self.name in ("tril_indices", "triu_indices")):
            return self(*args, **_stored(self.name, options, names))
        for name in options:
            if name in _SPELLINGS and name not in names:
                for spelled in _SPELLINGS[name]:
                    if spelled in names and spelled not in options:
                        return self(*args, **{spelled if k == name else k: v for k, v in options.items()})
        return _ELSEWHERE

    def document(self, doc, signature):
        """Set what gives `help` and `inspect.signature` what they show."""
        self._doc, self._signature = doc, signature

    @property
    def __name__(self):
        return self.name

    @property
    def __qualname__(self):
        return self.name

    @property
    def __signature__(self):
        return None if self._signature is None else self._signature()


cdef int kind_of(object x, int depth=2):
    cdef int kind, overflow, one
    if isinstance(x, TensorBase):
        return TENSOR
    if x is None:
        return NONE
    if type(x) is int:
        PyLong_AsLongLongAndOverflow(x, &overflow)
        return 0 if overflow else INTEGER
    if type(x) is bool:
        return BOOLEAN
    if type(x) is float:
        return REAL
    if type(x) is str:
        return STRING
    if isinstance(x, DType):
        return ELEMENT
    if isinstance(x, Device):
        return PLACE
    if depth == 0 or not isinstance(x, (tuple, list)):
        return 0
    kind = INTEGERS | TENSORS | LISTS | REALS | GAPS
    for each in x:
        one = kind_of(each, depth - 1)
        kind &= (INTEGERS | REALS | GAPS if one == INTEGER else REALS if one == REAL else TENSORS if one == TENSOR
                 else GAPS if one == NONE else LISTS if one & INTEGERS else 0)
    return kind


cdef class Composed(Op):
    """A function of other ops. Arguments are compared with the annotations before it runs, by a bit each; what that does not
    decide (an integer of NumPy's), `_settled` does. A call without options goes to the elementwise `record`, where there is one.
    `takes` says what some of its arguments may be, in the words of `Primitive`. With `in_float32`, a float16 or bfloat16 first input,
    and what comes with it, is widened and the result is rounded once: steps of their own in float16 would overflow at 65,504 and round
    many times. It is refused where `details.halves` is False, and unless it is empty where that is None."""

    def __init__(self, str name, function, *, Primitive record=None, bint in_float32=False, dict takes=None, details=None):
        cdef list parameters = _parameters(function)
        self.name = name
        self.parameters = parameters
        self.function = function
        self.record = record
        self.in_float32 = in_float32
        self.details, self.shows = details, details is not None and details.view
        self.first = parameters[0] if parameters else None
        if takes is not None:
            self.declared = Primitive(self.__name__, tuple(takes), takes=takes)
            self.places = tuple([parameters.index(i) for i in takes])
            self.leading = self.places == tuple(range(len(takes)))

    @property
    def __signature__(self):
        return inspect.signature(self.function)

    @property
    def __name__(self):
        """Without what tells it from a function of the same name, as in "functional.relu"."""
        return self.name.rpartition(".")[2]

    @property
    def __module__(self):
        return self.function.__module__

    @property
    def __wrapped__(self):
        return self.function

    @property
    def __defaults__(self):
        return self.function.__defaults__

    @property
    def __kwdefaults__(self):
        """Of arguments by name alone, which packages look at to find out whether there is an option."""
        return self.function.__kwdefaults__

    @property
    def __doc__(self):
        return inspect.getdoc(self.function)

    cdef bint typed(self, tuple args, dict options) except -1:
        """Whether the arguments are of the commonest types that the annotations name."""
        cdef Py_ssize_t i
        cdef object name
        if self.kinds is None:
            self.kinds, self.more, self.named, self.paired = _kinds(self.function)
        for i in range(PyTuple_GET_SIZE(args)):
            if not <int>(self.kinds[i] if i < PyTuple_GET_SIZE(self.kinds) else self.more) & (kind_of(<object>args[i]) | UNKNOWN):
                return False
        for name in options:
            if not <int>self.named.get(name, UNKNOWN) & (kind_of(options[name]) | UNKNOWN):
                return False
        return not self.paired or PyTuple_GET_SIZE(args) > 1 or "keepdim" not in options or "dim" in options

    cdef int check(self, tuple args, dict options) except -1:
        """Raise unless the arguments are of the dtypes that are declared."""
        cdef Py_ssize_t place, n = PyTuple_GET_SIZE(args)
        cdef list values
        if self.leading and n <= PyTuple_GET_SIZE(self.places) and not len(options):
            return _check(self.declared, args)
        values = []
        for place in self.places:
            values.append(args[place] if place < n else options.get(self.declared.inputs[len(values)], 0))
        return _check(self.declared, tuple(values))

    def __call__(self, *args, **options):
        cdef object x
        if overriding:
            x = overridden(self, args, options)
            if x is not NotImplemented:
                return x
        if _composed is not None:
            x = _composed(self, args, options)
            if x is not NotImplemented:
                return x
        if self.record is not None and self.record.serves(args, options):
            return graph_apply(self.record, args, {})
        if options:
            x = self.otherwise(args, options, self.parameters)
            if x is not _ELSEWHERE:
                return x
        if not self.typed(args, options):
            x = taken(self, args, options)      # what is no tensor may answer itself: a sparse one
            if x is not NotImplemented:
                return x
            args, options = _settled(self.function, args, options)
        if self.declared is not None:
            self.check(args, options)
        if self.in_float32:
            x = args[0] if PyTuple_GET_SIZE(args) else options.get(self.first)
            if isinstance(x, TensorBase) and is_half((<TensorBase>x).dtype.code):
                if self.details.halves is False or not self.details.halves and (<TensorBase>x).size:
                    raise DTypeError(f"{self.name}: takes float32 and float64, got {(<TensorBase>x).dtype}; convert it with .float()")
                return self.given(_in_float32(self.function, args, options), args, options)
        return self.given(PyObject_Call(self.function, args, <PyObject*>options if options else NULL), args, options)

    cdef object given(self, object out, tuple args, dict options):
        """The result. A `Result` is printed under the name of the function that gave it: several share a class."""
        if self.label is not None:
            relabel(out, args, options, self.label)
        if isinstance(out, TensorBase):
            if (<TensorBase>out)._view is not None and not self.shows:
                disown((out,), args, options)
        elif isinstance(out, tuple):
            if not PyTuple_CheckExact(out):
                given_by(out, self.name)
            if not self.shows:
                disown(<tuple>out, args, options)
        return out


# ---------------------------------------------------------------- records

cdef dict _KINDS = {"f": FLOAT_MASK, "i": INTEGER_MASK, "b": BOOL_MASK}          # bit masks by dtype code


cdef unsigned int _mask(str kinds) except? 0:
    """Bit mask of a declaration: kinds such as "fi", or the name of one dtype."""
    cdef unsigned int mask = 0
    for code in range(DTYPES):
        if dtype_of(code).name == kinds:
            return 1 << code
    for kind in kinds:
        mask |= _KINDS[kind]
    return mask


cdef class Plan:
    def __cinit__(self, list saves, tuple sources):
        cdef Py_ssize_t i
        self.count, self.sources = len(saves), sources
        self.kinds = <int*>calloc(self.count + 1, sizeof(int))
        self.places = <Py_ssize_t*>calloc(self.count + 1, sizeof(Py_ssize_t))
        if self.kinds == NULL or self.places == NULL:
            raise MemoryError()
        for i in range(self.count):
            self.kinds[i], self.places[i] = saves[i]
            self.keeps = self.keeps or self.kinds[i] == INPUT or self.kinds[i] == OUTPUT

    def __dealloc__(self):
        free(self.kinds)
        free(self.places)


cdef class Primitive(Op):
    """One operation: a kernel for each device and its derivative.

    `inputs` names the tensor inputs; a last name "*rest" stands for any number. `names` are those of public calls.
    `tests` says that the result is bool. `takes` says what each input may be: kinds out of f (floating point), i (integer), b (bool),
    for all inputs alike, or a dict by input of kinds, a dtype's name, "=other" (the dtype of that input), "wide other" (the same, but
    float32 where it is float16) or "=other or wide" (either of these); "?" at the end allows None. `writes` names the inputs that the
    kernel changes, `wide` the outputs that stay float32 for float16 inputs.

    `vjp` holds a function per input (None where there is no gradient), or a single function that gives all of them as a
    tuple. The parameters of such a function are named after what they receive: first `g`, the gradient of the output (or, of an op with
    several `differentiable` outputs, `g_<output>`, None where there is none), then an input, an output, a keyword parameter of
    the op, `<input>_shape`, `<input>_dtype`, `<input>_device`, `needs` (which inputs want a gradient) or `shapes` (of all inputs). Only
    what is named is saved. One may be `<input>_arrived`: the gradient that the input has got already, which may be overwritten; where it
    is not None, the function gives the sum of it and its own. Without `vjp`, `reference` is recorded in the op's place.
    """

    def __init__(self, str name, tuple inputs, *, vjp=None, str family="", tuple outputs=("out",), reference=None, str promote="none",
                 takes=None, tuple writes=(), tuple wide=(), tuple differentiable=(), tuple names=(), bint tests=False, details=None):
        self.name = name
        self.variadic = len(inputs) > 0 and inputs[len(inputs) - 1].startswith("*")
        self.inputs = tuple([i.removeprefix("*") or "tensors" for i in inputs])
        self.names = names or self.inputs
        self.count = len(inputs)
        self.outputs = outputs
        self.family = family
        self.reference = reference
        self.promotion = ("none", "common", "float", "each").index(promote)
        self.details = details
        self.writes = tuple([self.inputs.index(i) for i in writes])
        self.changes = len(writes) > 0
        self.wide = tuple([outputs.index(o) for o in wide])
        self.differentiable = tuple([outputs.index(o) for o in differentiable or outputs[:1]])
        self.several = len(self.differentiable) > 1
        self.is_view = family == "view"
        self.tests = tests
        self.pointwise = self.promotion == COMMON or self.promotion == FLOATING
        self.plans = {}
        if self.count > 62:
            raise ArgumentError(f"{name}: {self.count} named inputs, at most 62 are possible; let the last one be any number, '*name'")
        self._set_vjp(vjp)
        self._set_takes(takes)

    def __dealloc__(self):
        free(self.accepts)
        free(self.same)
        free(self.widened)
        free(self.optional)
        free(self.promoted)

    def _set_vjp(self, vjp):
        self.vjp = vjp
        self.joint = callable(vjp)
        functions = (vjp,) if self.joint else (vjp or ())
        if functions and not self.joint and len(functions) != self.count:
            raise ArgumentError(f"{self.name}: {len(functions)} vjp functions for {self.count} inputs")

    def _set_takes(self, takes):
        cdef Py_ssize_t i, n = self.count
        cdef str name, kinds
        self.takes = takes
        self.common = BOOL_MASK | INTEGER_MASK | FLOAT_MASK
        self.same = <Py_ssize_t*>calloc(n + 1, sizeof(Py_ssize_t))
        self.widened = <int*>calloc(n + 1, sizeof(int))
        self.optional = <bint*>calloc(n + 1, sizeof(bint))
        self.promoted = <bint*>calloc(n + 1, sizeof(bint))
        for i in range(n):
            self.same[i], self.promoted[i] = -1, self.promotion == COMMON or self.promotion == FLOATING
        if takes is None:
            return
        self.accepts = <unsigned int*>calloc(n + 1, sizeof(unsigned int))
        if isinstance(takes, str):
            self.alike = True
            self.common = _mask(takes)
            takes = {each: takes if self.promotion or each == self.inputs[0] else "=" + self.inputs[0] for each in self.inputs}
        for i, name in enumerate(self.inputs):
            kinds = takes[name]
            self.optional[i] = kinds.endswith("?")
            kinds = kinds.removesuffix("?")
            if kinds.startswith(("=", "wide ")):
                self.widened[i] = WIDE if kinds[0] == "w" else MAY_BE_WIDE if kinds.endswith(" or wide") else 0
                self.same[i] = self.inputs.index(kinds.removesuffix(" or wide").removeprefix("=").removeprefix("wide "))
                self.accepts[i] = self.accepts[self.same[i]] | (1 << FLOAT32 if self.widened[i] else 0)
            else:
                self.accepts[i] = _mask(kinds)
                if self.promotion and kinds == "b":             # the condition of `where`
                    self.promoted[i] = False
                elif self.promotion:
                    self.common = self.accepts[i]

    def _sources(self, function):
        """Where each argument comes from: (what, name or position)."""
        names = _parameters(function)
        if not self.several:
            names = names[1:]
        return tuple([self._source(name) for name in names])

    def _source(self, str name):
        if self.several and name.startswith("g_") and name[2:] in self.outputs:
            return ("gradient", self.outputs.index(name[2:]))
        for kind, suffix in (("input", ""), ("shape", "_shape"), ("dtype", "_dtype"), ("device", "_device"), ("arrived", "_arrived")):
            if name.endswith(suffix) and name.removesuffix(suffix) in self.inputs:
                return (kind, self.inputs.index(name.removesuffix(suffix)))
        if name in self.outputs:
            return ("output", self.outputs.index(name))
        return (name, 0) if name in ("needs", "shapes") else ("param", name)

    cdef Plan plan(self, unsigned long long mask):
        """What to keep, and what each derivative function gets, for these wanted gradients."""
        cdef object found
        if self.last_plan is not None and self.last_mask == mask:
            return self.last_plan
        found = self.plans.get(mask)
        if found is None:
            found = self.plans[mask] = self._plan(mask)
        self.last_plan, self.last_mask = <Plan>found, mask
        return <Plan>found

    def _plan(self, unsigned long long mask):
        wanted = [self._sources(self.vjp)] if self.joint else [self._sources(self.vjp[i]) if mask >> i & 1 else None
                                                               for i in range(self.count)]
        codes = {"input": INPUT, "output": OUTPUT, "dtype": DTYPE, "device": DEVICE}
        saves = sorted({(codes[kind], place) for sources in wanted if sources for kind, place in sources if kind in codes})

        def located(source):
            kind, value = source
            if kind in codes:
                return (KEPT, saves.index((codes[kind], value)))
            return ({"shape": SHAPE, "param": PARAM, "needs": NEEDS, "shapes": SHAPES, "gradient": GRADIENT,
                     "arrived": ARRIVED}[kind], value)

        return Plan(saves, tuple([None if s is None else tuple(map(located, s)) for s in wanted]))

    def __call__(self, *inputs, **params):
        cdef Py_ssize_t n = PyTuple_GET_SIZE(inputs)
        cdef object x
        if overriding:
            x = overridden(self, inputs, params)
            if x is not NotImplemented:
                return x
        if (n == self.count or self.variadic and n > self.count) and not ((self.promotion or self.has_out) and PyDict_GET_SIZE(params)):
            return graph_apply(self, inputs, params)             # all are given, and `params` are options
        return self._call_by_name(inputs, params)

    def _call_by_name(self, inputs, params):
        if self.has_out:
            result = self.otherwise(inputs, params, self.names)
            if result is not _ELSEWHERE:
                return result
        if not params.keys().isdisjoint(self.names):
            inputs, params = self._bound(inputs, params)
        if params and self.promotion:
            raise TypeError(f"{self.name}() got an unexpected keyword argument {next(iter(params))!r}")
        if len(inputs) < self.count or len(inputs) > self.count and not self.variadic:
            raise CallError(f"{self.name}: takes {', '.join(self.names) if self.names else 'no tensors'}, got "
                                f"{len(inputs)} of {self.count}")
        return graph_apply(self, inputs, params)

    cdef bint serves(self, tuple inputs, dict options):
        """Whether a function with options that stands on this record may leave a call to it."""
        cdef Py_ssize_t i
        if len(options) or PyTuple_GET_SIZE(inputs) != self.count:
            return False
        for i in range(self.count):
            if <object>inputs[i] is None:
                return False
        return not self.bounds or isinstance(<object>inputs[1], TensorBase) == isinstance(<object>inputs[2], TensorBase)

    @property
    def __doc__(self):
        return None if self._doc is None else self._doc()

    def _bound(self, inputs, params):
        """Inputs given by keyword, in their places."""
        given = dict(zip(self.names, inputs))
        named = {name: value for name, value in params.items() if name in self.names}
        if twice := named.keys() & given.keys():
            raise CallError(f"{self.name}: {min(twice)} was given twice")
        given |= named
        missing = [name for name in self.names if name not in given]
        if missing or len(inputs) > len(self.names):
            raise CallError(f"{self.name}: takes {', '.join(self.names)}, got {', '.join(given)}")
        return tuple([given[name] for name in self.names]), {name: params[name] for name in params if name not in named}
