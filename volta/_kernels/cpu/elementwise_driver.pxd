# What a module of elementwise loops uses of the driver.

# OUT: po. IN: pa, pb, pc, pd, each n elements or one, as the loop's mask says.
ctypedef void (*loop_t)(char* po, char* pa, char* pb, char* pc, char* pd, Py_ssize_t n) noexcept nogil

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
