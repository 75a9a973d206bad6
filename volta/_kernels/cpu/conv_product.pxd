from volta._kernels.core.base cimport Storage
from volta._kernels.cpu.conv_plan cimport Plan
from volta._kernels.cpu.tile cimport real

cdef bint convolve_by_product(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1
cdef bint weight_by_product(Plan* p, const real* g, const real* x, real* out) except -1
cdef Storage thinned(Plan* p, const real** x)
