# Whether a function of some tensors may call kernels, or work on their memory, by itself.
from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.call cimport watching
from volta._kernels.core.grad_mode cimport grad_mode
from volta._kernels.core.histories cimport wants


cdef inline bint unseen_one(TensorBase x) except -1:
    """It lies on the host, and nobody watches."""
    return not (watching or x.storage.version < 0 or x.storage.device.is_gpu or x.storage.tangent is not None)


cdef inline bint bare_one(TensorBase x) except -1:
    """Nor does anybody record."""
    return unseen_one(x) and (not grad_mode() or not wants(x))
