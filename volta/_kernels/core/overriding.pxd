# Calls that a mode or an argument takes over. While a program has no such class of tensors and no mode, asking costs one comparison.

cdef bint overriding

cdef bint in_mode() noexcept
cdef int switch_as_tensors(int enabled) noexcept
cdef object taken(object op, tuple args, dict options)
cdef object overridden(object op, tuple args, dict options)
