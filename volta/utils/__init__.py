"""Helpers of training that are no layer and no op, under PyTorch's names."""
from volta.late import modules_of as _modules_of
from volta.utils import checkpoint, data
from volta.utils.swap import swap_tensors

__all__ = ["checkpoint", "data", "swap_tensors"]

__getattr__ = _modules_of(__name__)
