# What a module of elementwise loops uses of the driver.
from volta._kernels.cpu.elementwise_rows cimport loop_t

cdef struct Loop:
    const char* name                            # of the operation
    int arity
    int code                                    # dtype of the operands
    int result                                  # dtype of the result
    int cost                                    # cheap element operations
    int mask                                    # which operands are one repeated element
    bint swapped                                # whether the loop wants the first two operands exchanged
    loop_t loop

# Enter the loops of a module.
cdef int register(const Loop* loops, int n) except -1
# The shape that both broadcast to. Raises: ShapeError, naming `name`.
cdef tuple broadcast_shape(str name, tuple a, tuple b)
