# Whether calls are recorded, a flag of each thread.

cdef int grad_mode() noexcept
cdef int switch_grad_mode(int enabled) noexcept
