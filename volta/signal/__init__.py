"""Windows of signals, under the names of torch.signal."""
from volta.signal import windows

__all__ = ["windows"]
