# Declarations: what an operation is, before anything is called.

cdef enum Promotion:
    ALONE = 0                               # inputs are taken as they are
    COMMON = 1                              # tensors are cast to PyTorch's common dtype
    FLOATING = 2                            # the same, and integers to float32
    EACH = 3                                # those of one declared kind among themselves; integers for floating point to float32

cdef enum Saved:                            # what a node keeps for its derivative
    INPUT = 0
    OUTPUT = 1
    DTYPE = 2                               # of an input
    DEVICE = 3                              # of an input

cdef enum Source:                           # where an argument of a derivative comes from
    KEPT = 0                                # what the node keeps, by its place there
    SHAPE = 1                               # of an input
    PARAM = 2                               # a keyword parameter of the call
    NEEDS = 3                               # which inputs want a gradient
    SHAPES = 4                              # of all inputs
    GRADIENT = 5                            # of one of several outputs
    ARRIVED = 6                             # the gradient that an input has got already

cdef enum Widening:                         # what goes with a float16 input
    WIDE = 1                                # float32
    MAY_BE_WIDE = 2                         # either of the two

cpdef enum:                                 # the type of an argument: bits
    UNKNOWN = 1                             # of a parameter that takes everything
    TENSOR = 2
    INTEGER = 4
    REAL = 8
    BOOLEAN = 16
    STRING = 32
    NONE = 64
    ELEMENT = 128                           # a dtype
    PLACE = 256                             # a device
    INTEGERS = 512                          # a tuple or list of them
    TENSORS = 1024
    LISTS = 2048                            # a tuple or list of INTEGERS
    REALS = 4096                            # a tuple or list of REAL or INTEGER
    GAPS = 8192                             # a tuple or list of INTEGER and NONE

cdef class Plan:
    # For one set of wanted gradients.
    cdef Py_ssize_t count                   # of what is kept
    cdef bint keeps                         # whether tensors or numbers are among it, which are freed after a backward pass
    cdef int* kinds                         # Saved
    cdef Py_ssize_t* places                 # of the input or output
    cdef tuple sources                      # per derivative function its (Source, value) pairs; None where no gradient is wanted

cdef class Primitive

cdef class Op:
    cdef dict __dict__                      # what programs hang on functions
    cdef readonly str name
    cdef public object details              # what tests and docs need: ops.table.Details
    cdef public object label                # of a composed op: how its nodes are called (`node_names`), or None
    cdef object _doc, _signature            # functions that make them: one is rarely asked for
    cdef public bint has_out                # whether calls may name tensors for the results, `out=`
    cdef object otherwise(self, tuple args, dict options, names)

cdef class Primitive(Op)

cdef class Composed(Op):
    cdef readonly object function
    cdef readonly Primitive record          # that serves calls without options, or None
    cdef bint in_float32
    cdef str first                          # name of the first parameter
    cdef list parameters                    # names of all
    cdef readonly Primitive declared        # what it takes: a record without kernels
    cdef tuple places                       # positions of its inputs among the parameters
    cdef bint leading                       # whether they are the first ones, in order
    cdef tuple kinds                        # per position: the bits of what may stand there; None before the first call
    cdef int more                           # the same of further positions
    cdef bint shows                         # whether results are views: `details.view`
    cdef void* vectorcall                   # set by calling.pyx
    cdef dict named                         # the same by name
    cdef bint paired                        # `keepdim` by name goes with a dimension
    cdef bint typed(self, tuple args, dict options) except -1
    cdef object given(self, object out, tuple args, dict options)
    cdef int check(self, tuple args, dict options) except -1

# The bit of an argument's type; 0 for any that has none, as lists have in lists in lists (which may contain themselves).
cdef int kind_of(object x, int depth=*)

cdef class Primitive(Op):
    cdef readonly str family
    cdef readonly tuple inputs              # names of the tensor inputs; a last one "*name" stands for any number
    cdef readonly tuple names               # of the same in public calls
    cdef readonly tuple outputs
    cdef readonly tuple writes              # positions of the inputs that the kernel changes
    cdef bint changes                       # whether there are any
    cdef public bint pointwise              # each element of a result comes from those at its place: results lie as the inputs do
    cdef public bint copies                 # whether it is that of one input, with each of its strides
    cdef public int pixels                  # bit mask of the inputs of which one that lies pixel by pixel makes all results lie so
    cdef readonly tuple wide                # positions of the outputs that stay float32 for float16 inputs
    cdef readonly object takes              # as declared
    cdef public object cpu                  # kernel on the CPU
    cdef public object gpu                  # kernel on a GPU
    cdef public int cpu_own, gpu_own        # of the dtypes that are stored alone, those that the kernel takes itself: bit masks by code
    cdef readonly object vjp                # one function per input, or one for all of them, or None
    cdef readonly object reference          # the same function composed of simpler ops
    cdef readonly int promotion
    cdef readonly bint is_view
    cdef readonly bint tests                # the result is bool, whatever the inputs are
    cdef public bint of_numbers             # two Python numbers are taken too, and make a tensor
    cdef public int tensors                 # how many inputs, from the first on, may not be Python numbers
    cdef public bint no_bool                # no operand may be bool, not even beside another dtype
    cdef public bint rounds                 # a Python number beside 16 bits is rounded to them before the kernel gets it
    cdef public bint factors                # a number in a tensor without dimensions stays as it is beside 16 bits, too, on the CPU
    cdef public bint unrecorded             # its in-place form leaves the history of what it changes as it is
    cdef public bint bounds                 # the second and third input are both tensors or both numbers
    cdef bint joint, variadic
    cdef Py_ssize_t count                   # named inputs
    cdef readonly tuple differentiable      # positions of the outputs that gradients come from
    cdef bint several                       # more than one of them
    cdef bint alike                         # all inputs are declared by one string
    cdef unsigned int common                # of a promoted op: bit mask of the dtypes that it takes
    cdef unsigned int* accepts              # per input a bit mask by dtype code, NULL where nothing is declared
    cdef Py_ssize_t* same                   # per input: the input whose dtype it must have, or -1
    cdef int* widened                       # Widening, where that one is float16
    cdef bint* optional
    cdef bint* promoted                     # whether an input takes part in promotion
    cdef dict plans                         # by mask of wanted gradients
    cdef unsigned long long last_mask
    cdef Plan last_plan
    cdef Plan plan(self, unsigned long long mask)

    cdef bint serves(self, tuple inputs, dict options)

ctypedef object (*apply_t)(Primitive, tuple, dict)
ctypedef int (*check_t)(Primitive, tuple) except -1
cdef void set_apply(apply_t function) noexcept
cdef apply_t graph_apply                    # `graph.apply`, for what the graph stands on
cdef void set_check(check_t function) noexcept
cdef void set_composed(object function)
