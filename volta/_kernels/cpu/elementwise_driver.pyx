"""The driver of elementwise kernels: any strides, broadcasting, dtypes and threads around the loops of elementwise_*.pyx.in.

Layout: any strides, broadcasting, any rank up to 32; how rows reach the loops: elementwise_rows.pxd.
Threads: above cpu.PARALLEL_SIZE elements (divided by the operation's cost), split at multiples of 64 elements, so that
results do not depend on the number of threads. Shapes and dtypes are checked by the front end; what would read or write
outside memory (shapes that do not broadcast, a dtype without a loop) is refused here too.
"""
from libc.float cimport FLT_MAX
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint16_t, uint8_t

from volta._kernels.cpu.copy cimport contiguous_copy, copy_data, is_transposed, put_number
from volta._kernels.core.base cimport (
    BFLOAT16, BOOL, DTYPES, FLOAT16, FLOAT32, INT32, INT64, UINT8, DType, TensorBase, address, dtype_of, empty_host, empty_host_like,
    same_bytes)
from volta._kernels.core.threads cimport NOGIL_SIZE, threads_for
from volta._kernels.core.values cimport word_of
from volta._kernels.cpu.elementwise_rows cimport Work, run_range
from volta._kernels.cpu.half_lines cimport half_line, half_operation
from volta._kernels.cpu.iteration cimport (
    OPERANDS, WHOLE, Geometry, add_number, add_tensor, begin, collapse, overlaps, run_ranges, same_tuple, stored_as)

from volta.errors import ArgumentError, DTypeError, ShapeError

INTEGER_DIVISION = ("remainder", "floor_divide", "fmod", "div_trunc")
POWERS = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 3: "cube", -2: "inverse_square"}
KERNELS = {}
cdef dict APART = {"cube": None, "inverse_square": None}        # kernels of no record: what powers are made of

cdef enum:
    TRANSPOSED_SIZE = 262144                    # from here on a transposed operand is copied first,
    TURNED_SIZE = 1024                          # or from here where rows are of at least
    TURNED_ROW = 32                             # elements; 16-bit floats
    APART_SIZE = 512                            # elements from which what is repeated lies together first,
    APART_TIMES = 16                            # if it is so often
    HALF_SIZE = 512                             # from here on, where rows are of less than
    HALF_ROW = 64                               # elements


# ---------------------------------------------------------------- kernels

cdef inline int put_operand(char* out, int code, object value, Kernel kernel) except -1:
    """A number beside tensors of this dtype. As in PyTorch an integer of 64 bits wraps in a narrower dtype, and others are refused; where
    there is a kernel for numbers alone, those beyond the dtype are."""
    cdef long long n
    if kernel.strict and code == FLOAT32 and not kernel.power and not (-FLT_MAX <= <double>value <= FLT_MAX) and isfinite(<double>value):
        raise ArgumentError(f"{kernel.name}: {value} does not fit into {dtype_of(code)}; give an infinite one, or one within "
                            "volta.finfo(dtype)")
    if not isinstance(value, int):
        return put_number(out, code, value, kernel.name)
    n = word_of(kernel.name, value)
    if kernel.strict:
        return put_number(out, code, value, kernel.name)
    if code == INT64:
        (<int64_t*>out)[0] = n
    elif code == INT32:
        (<int32_t*>out)[0] = <int32_t>n
    elif code == UINT8:
        (<uint8_t*>out)[0] = <uint8_t>n
    else:
        return put_number(out, code, value, kernel.name)
    return 0


cdef bint turned_first(TensorBase x) noexcept:
    """Whether a transposed operand is read faster when its tiles have been turned: element by element, each comes from a line of its
    own."""
    cdef Py_ssize_t rank = len(x.shape), row = x.shape[rank - 1]
    if x.size >= TRANSPOSED_SIZE:
        return True
    if x.dtype.code == FLOAT16 or x.dtype.code == BFLOAT16:
        return row < HALF_ROW
    return x.size >= TURNED_SIZE and row >= TURNED_ROW


cdef tuple broadcast_shape(str name, tuple a, tuple b):
    cdef Py_ssize_t i, x, y, rank = max(len(a), len(b)), la = rank - len(a), lb = rank - len(b)
    cdef list shape = []
    for i in range(rank):
        x = a[i - la] if i >= la else 1
        y = b[i - lb] if i >= lb else 1
        if x != y and x != 1 and y != 1:
            raise ShapeError(f"{name}: shapes {a} and {b} do not broadcast; sizes must be equal or 1")
        shape.append(y if x == 1 else x)
    return tuple(shape)


cdef class Kernel:
    """An elementwise operation: `kernel(*inputs)` gives a new tensor, `kernel.into(out, *inputs)` writes an existing one."""
    cdef readonly str name
    cdef readonly int arity
    cdef loop_t loops[DTYPES][16]                  # by dtype code and mask
    cdef bint swapped[16]                       # by mask
    cdef int result[DTYPES]                        # dtype code of the result
    cdef int cost[DTYPES]
    cdef int operation                          # of half_lines.pxd, or -1
    cdef bint integer_division
    cdef bint words                             # `where`: copies elements, whatever they are
    cdef bint power                             # `pow`: an exponent of 2 is a product
    cdef public bint strict                     # its numbers have to fit, which the record says

    def __cinit__(self, str name, int arity):
        self.name = name
        self.arity = arity
        self.operation = half_operation(name.encode())
        self.integer_division = name in INTEGER_DIVISION
        self.words = name == "where"
        self.power = name == "pow"

    def __repr__(self):
        return f"<elementwise kernel {self.name}>"

    def __reduce__(self):
        return (kernel_named, (self.name,))

    def __call__(self, *operands):
        cdef list inputs = self.counted(operands)
        cdef TensorBase out = self.quick_of_many(None, inputs)
        return self.general(None, inputs) if out is None else out

    def into(self, TensorBase out not None, *operands):
        """Write the result into `out`."""
        cdef list inputs = self.counted(operands)
        return out if self.quick_of_many(out, inputs) is not None else self.general(out, inputs)

    cdef list counted(self, tuple operands):
        if len(operands) != self.arity:
            raise TypeError(f"{self.name}: takes {self.arity} operands, got {len(operands)}")
        return list(operands)

    def dtypes(self):
        """The operand dtypes that it takes."""
        return [dtype_of(code) for code in range(DTYPES) if self.loops[self.loop_code(code)][0] != NULL]

    cdef int loop_code(self, int code) noexcept:
        """Code of the loops that serve this dtype: float16 and bfloat16 are computed in float32, unless there are loops over
        their words."""
        return FLOAT32 if self.converts(code) != WHOLE else code

    cdef int converts(self, int code) noexcept:
        return WHOLE if self.loops[code][0] != NULL else stored_as(code)

    cdef TensorBase quick(self, TensorBase out, TensorBase a, object b):
        """The result of one operand (b None) or two, where both are small, contiguous and alike, or b is a number; else None."""
        cdef TensorBase tb
        cdef char number[8]
        cdef int code = a.dtype.code, mask = 0
        cdef char* at[4]
        cdef char* pb = NULL
        if not a.contiguous or a.size >= NOGIL_SIZE or a.size == 0 or self.integer_division:
            return None
        if isinstance(b, TensorBase):
            tb = <TensorBase>b
            if not tb.contiguous or tb.dtype is not a.dtype or not same_tuple(a.shape, tb.shape):
                return None
            pb = address(tb)
        elif b is not None:
            if self.power or (self.operation < 0 and (code == FLOAT16 or code == BFLOAT16)):
                return None
            put_operand(number, self.loop_code(code), b, self)
            pb = number
            mask = 2
        if not self.has_line(code, mask):
            return None
        if out is None:
            out = empty_host_like(a, a.dtype if self.result[code] == code else dtype_of(self.result[code]))
        elif not out.contiguous or out.dtype.code != self.result[code] or not same_tuple(out.shape, a.shape):
            return None
        elif clashes(out, a) or (mask == 0 and pb != NULL and clashes(out, tb)):
            return None
        at[0], at[1], at[2], at[3] = address(a), pb, NULL, NULL
        self.line(code, mask, address(out), at, a.size)
        return out

    cdef bint has_line(self, int code, int mask) noexcept:
        return self.loops[code][mask] != NULL or (self.operation >= 0 and self.converts(code) != WHOLE)

    cdef void line(self, int code, int mask, char* out, char** at, Py_ssize_t n) noexcept:
        """Contiguous elements of this dtype, and numbers, of a dtype that has a line."""
        cdef int swapped = self.swapped[mask]
        if self.loops[code][mask] == NULL:
            half_line(self.operation, code == BFLOAT16, <uint16_t*>out, at, n, mask | -1 << self.arity)
        else:
            self.loops[code][mask](out, at[swapped], at[1 - swapped], at[2], at[3], n)

    cdef TensorBase quick_of_many(self, TensorBase out, list inputs):
        """The same of any number of operands."""
        cdef TensorBase a = None, x
        cdef char numbers[OPERANDS][8]
        cdef char* at[OPERANDS]
        cdef int code, k, mask = 0
        if self.words:
            return None
        for k in range(OPERANDS):
            at[k] = NULL
        for k in range(self.arity):
            if isinstance(inputs[k], TensorBase):
                x = <TensorBase>inputs[k]
                a = x if a is None else a
                if not x.contiguous or x.size >= NOGIL_SIZE or x.size == 0 or x.dtype is not a.dtype or not same_tuple(a.shape, x.shape):
                    return None
                at[k] = address(x)
            else:
                mask |= 1 << k
        if a is None:
            return None
        code = a.dtype.code
        if not self.has_line(code, mask):
            return None
        for k in range(self.arity):
            if at[k] == NULL:
                put_operand(numbers[k], self.loop_code(code), inputs[k], self)
                at[k] = numbers[k]
        if out is None:
            out = empty_host_like(a, a.dtype if self.result[code] == code else dtype_of(self.result[code]))
        elif not out.contiguous or out.dtype.code != self.result[code] or not same_tuple(out.shape, a.shape):
            return None
        else:
            for k in range(self.arity):
                if isinstance(inputs[k], TensorBase) and clashes(out, <TensorBase>inputs[k]):
                    return None
        self.line(code, mask, address(out), at, a.size)
        return out

    cdef TensorBase general(self, TensorBase out, list inputs):
        """Any strides, broadcasting, numbers, overlap and size. IN: out None makes a new tensor."""
        cdef Geometry g
        cdef Work w
        cdef char numbers[OPERANDS][8]
        cdef DType dtype = self.operand_dtype(inputs)
        cdef int code = dtype.code, k
        cdef bint zero = False
        if out is None:
            out = empty_host(self.output_shape(inputs), dtype_of(self.result[code]))
        else:
            self.check_out(out, inputs, code)
            if self.integer_division and dtype.category != 2:
                # A zero is met on the way; what is changed in place keeps its values then.
                copy_data(out, self.general(None, inputs))
                return out
        begin(&g, out.shape)
        add_tensor(&g, out)
        self.prepare(&w, out, code)
        for k in range(self.arity):
            if isinstance(inputs[k], TensorBase):
                inputs[k] = self.operand(out, <TensorBase>inputs[k])
                add_tensor(&g, <TensorBase>inputs[k])
                w.half[k + 1] = self.converts((<TensorBase>inputs[k]).dtype.code)
            else:
                # A number beside tensors of 16 bits stays float32, as the loop wants it.
                put_operand(numbers[k], self.loop_code(code), inputs[k], self)
                add_number(&g, numbers[k])
                w.itemsize[k + 1] = dtype_of(self.loop_code(code)).itemsize
            w.any_half = w.any_half or w.half[k + 1] != WHOLE
        if g.size == 0:
            return out
        if self.integer_division and dtype.category != 2:
            w.zero = &zero
        collapse(&g, True)
        if g.size < NOGIL_SIZE:
            run_range(&g, &w, 0, g.size)
        else:
            with nogil:
                run_ranges(run_range, &g, &w, threads_for(g.size * self.cost[code] * (2 if dtype.itemsize == 8 else 1)), 64)
        if zero:
            raise ArgumentError(f"{self.name}: integer division by zero; the divisor has an element that is 0")
        return out

    cdef void prepare(self, Work* w, TensorBase out, int code):
        cdef int k, size = dtype_of(code).itemsize
        w.loops = self.loops[self.loop_code(code)]
        w.swapped = self.swapped
        w.operation = self.operation if self.converts(code) != WHOLE else -1
        w.count = self.arity + 1
        for k in range(OPERANDS):
            w.itemsize[k] = size
            w.half[k] = WHOLE
        w.itemsize[0] = out.dtype.itemsize
        w.half[0] = self.converts(out.dtype.code)
        if self.words:
            w.itemsize[1] = 1
        w.any_half = w.half[0] != WHOLE
        w.zero = NULL

    cdef TensorBase operand(self, TensorBase out, TensorBase x):
        """x, or a copy where writing `out` would change it or reading it in rows, or time and again from afar, would waste the cache."""
        cdef bint apart = not x.contiguous and x.size >= APART_SIZE and x.size * APART_TIMES <= out.size
        if clashes(out, x) or apart or (x.size == out.size and x.size >= HALF_SIZE and is_transposed(x) and turned_first(x) and
                                        not is_transposed(out)):
            return contiguous_copy(x)
        return x

    cdef DType operand_dtype(self, list inputs):
        """The dtype of the tensors among the inputs. Raises: DTypeError if they differ or it has no loop."""
        cdef DType dtype = None
        cdef Py_ssize_t k
        for k in range(1 if self.words else 0, len(inputs)):
            if isinstance(inputs[k], TensorBase):
                if dtype is not None and dtype is not (<TensorBase>inputs[k]).dtype:
                    raise DTypeError(f"{self.name}: operands are {dtype} and {inputs[k].dtype}; cast them to one dtype")
                dtype = (<TensorBase>inputs[k]).dtype
        if dtype is None:                       # where(condition, 1, 0)
            dtype = dtype_of(self.code_of_numbers(inputs))
        if self.loops[self.loop_code(dtype.code)][0] == NULL:
            raise DTypeError(f"{self.name}: does not take {dtype}; it takes {', '.join(map(repr, self.dtypes()))}")
        if self.words and (not isinstance(inputs[0], TensorBase) or inputs[0].dtype.code != BOOL):
            raise DTypeError(f"{self.name}: the condition must be a volta.bool tensor")
        return dtype

    cdef int code_of_numbers(self, list inputs) except -1:
        """The dtype of a choice between Python numbers. (Generators would have the compiler read a machinery of their own.)"""
        cdef bint bools = True
        for x in inputs:
            if isinstance(x, float):
                return FLOAT32
        for x in inputs[1:]:
            bools = bools and isinstance(x, bool)
        return BOOL if bools else INT64

    cdef tuple output_shape(self, list inputs):
        cdef tuple shape = None, other
        for x in inputs:
            if isinstance(x, TensorBase):
                other = (<TensorBase>x).shape
                shape = other if shape is None or same_tuple(shape, other) else broadcast_shape(self.name, shape, other)
        return shape

    cdef int check_out(self, TensorBase out, list inputs, int code) except -1:
        cdef int result = self.result[code]
        if out.dtype.code != result:
            raise DTypeError(f"{self.name}: the result is {dtype_of(result)}, which cannot be written into {out.dtype}")
        cdef tuple shape = self.output_shape(inputs)
        if not same_tuple(out.shape, broadcast_shape(self.name, out.shape, shape)):
            raise ShapeError(f"{self.name}: the result has shape {shape}, which does not fit into {out.shape}")
        return 0


cdef bint clashes(TensorBase out, TensorBase x):
    """Whether writing `out` element by element would change elements of x before they are read."""
    if same_bytes(out.storage, x.storage) and out.offset == x.offset and out.dtype.itemsize == x.dtype.itemsize and same_tuple(
            out._strides, x._strides) and same_tuple(out.shape, x.shape):
        return False
    return overlaps(out, x)


cdef class Unary(Kernel):
    def __call__(self, TensorBase x not None):
        cdef TensorBase out = self.quick(None, x, None)
        return self.general(None, [x]) if out is None else out

    def into(self, TensorBase out not None, TensorBase x not None):
        """Write the result into `out`."""
        return out if self.quick(out, x, None) is not None else self.general(out, [x])


cdef class Binary(Kernel):
    def __call__(self, a, b not None):
        cdef TensorBase out = self.quick(None, <TensorBase>a, b) if isinstance(a, TensorBase) else None
        return self.general(None, [a, b]) if out is None else out

    def into(self, TensorBase out not None, a, b not None):
        """Write the result into `out`."""
        return out if isinstance(a, TensorBase) and self.quick(out, <TensorBase>a, b) is not None else self.general(out, [a, b])


cdef class Power(Binary):
    """Powers: some to a number are products, roots and reciprocals, and integers have none to a negative number."""

    def __call__(self, a, b):
        cdef TensorBase out = self.by_parts(None, a, b)
        return Binary.__call__(self, a, b) if out is None else out

    def into(self, TensorBase out not None, a, b):
        """Write the result into `out`."""
        return Binary.into(self, out, a, b) if self.by_parts(out, a, b) is None else out

    cdef TensorBase by_parts(self, TensorBase out, a, b):
        """The power by quicker kernels, into `out` unless that is None; None where there are none."""
        cdef TensorBase x
        cdef Kernel product = KERNELS["mul"]
        if isinstance(b, TensorBase):
            return None
        x = <TensorBase?>a
        if b < 0 and x.dtype.category != 2:
            raise DTypeError(f"pow: integers ({x.dtype}) to the negative power {b} are no integers; convert to float first")
        if b == 2:
            return product(x, x) if out is None else product.into(out, x, x)
        if x.dtype.code == FLOAT16:
            return None
        if x.dtype.category == 2 and b in POWERS:
            product = KERNELS.get(POWERS[b]) or APART[POWERS[b]]
            return product(x) if out is None else product.into(out, x)
        if b == 3:
            a = product(x, x)
            return product.into(a if out is None else out, a, x)
        return None


def kernel_named(str name):
    """The kernel with this name."""
    return KERNELS[name]


cdef int register(const Loop* loops, int n) except -1:
    """Enter the loops of a module."""
    cdef const Loop* x
    cdef Kernel kernel
    cdef str name
    cdef dict kernels
    cdef int i, code
    for i in range(n):
        x = &loops[i]
        name = x.name.decode()
        kernels = APART if name in APART else KERNELS
        if kernels.get(name) is None:
            kernels[name] = (Power if name == "pow" else {1: Unary, 2: Binary}.get(x.arity, Kernel))(name, x.arity)
        kernel = <Kernel>kernels[name]
        kernel.loops[x.code][x.mask] = x.loop
        kernel.swapped[x.mask] = x.swapped
        kernel.result[x.code] = x.result
        kernel.cost[x.code] = x.cost
        if x.code == FLOAT32 and not kernel.words:
            for code in (FLOAT16, BFLOAT16):
                kernel.result[<int>code] = code if x.result == FLOAT32 else x.result
                kernel.cost[<int>code] = x.cost
    return 0
