from volta._kernels.cpu.conv_plan cimport Plan
from volta._kernels.cpu.real cimport real

cdef bint convolve_depthwise(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1
cdef bint weight_depthwise(Plan* p, const real* g, const real* x, real* out) except -1
