"""The sampler of `volta.data` for several processes, where PyTorch has it."""
from volta.data import DistributedSampler

__all__ = ["DistributedSampler"]
