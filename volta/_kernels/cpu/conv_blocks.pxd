from volta._kernels.cpu.conv_plan cimport Plan
from volta._kernels.cpu.real cimport real

cdef bint convolve_by_blocks(Plan* whole, const real* x, const real* weight, const real* bias, real* out) except -1
