from volta._kernels.cpu.conv_plan cimport Plan
from volta._kernels.cpu.real cimport real

cdef bint weight_by_winograd(Plan* p, const real* g, const real* x, real* out) except -1
