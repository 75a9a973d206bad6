# Roots of secular equations; see secular.pyx.
cdef double root_of(Py_ssize_t k, Py_ssize_t j, double rho, const double* squares, double* apart, Py_ssize_t* origin) noexcept nogil
