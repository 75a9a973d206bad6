from volta._kernels.core.base cimport Storage
from volta._kernels.cpu.conv_plan cimport Plan
from volta._kernels.cpu.real cimport real

cdef bint convolve_by_product(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1
cdef bint weight_by_product(Plan* p, const real* g, const real* x, real* out) except -1
cdef Storage thinned(Plan* p, const real** x)
# Gradients of inputs of windows of one element some steps apart: whether a plan is one, the plan without steps, and its result spread.
cdef bint is_spread(Plan* p) noexcept nogil
cdef Plan beside(Plan* p) noexcept nogil
cdef void spread(Plan* p, const real* x, real* out)
