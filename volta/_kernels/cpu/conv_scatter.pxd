from volta._kernels.cpu.conv_plan cimport Plan
from volta._kernels.cpu.real cimport real

cdef bint gradient_by_scatter(Plan* p, const real* g, const real* weight, real* out) except -1
