from volta._kernels.cpu.conv_plan cimport Plan
from volta._kernels.cpu.real cimport real

cdef bint convolve_by_pixels(Plan* p, const real* x, const real* weight, const real* bias, real* out, bint sparse) except -1
