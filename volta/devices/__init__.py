"""The kernels of each device, bound to the op records by name."""
from volta._kernels.core import call
from volta.device import configure
from volta.devices import meta, stored


def _bind_gpu_kernels() -> None:
    import volta.devices.gpu.kernels  # noqa: F401  (binds them)


configure(_bind_gpu_kernels)
call.configure(widened=stored.compute, narrowed=stored.narrowed, of_meta=meta.kernel_of)
