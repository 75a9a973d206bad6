"""Helpers of training that are no layer and no op, under PyTorch's names."""
from volta.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
