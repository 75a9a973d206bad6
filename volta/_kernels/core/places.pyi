"""Types of finding places."""
from volta._kernels.core.base import TensorBase

def true_places(t: TensorBase) -> TensorBase: ...
