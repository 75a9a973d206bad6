"""Optimizers and learning-rate schedules, under PyTorch's names."""
from volta.optim import algorithms, lr_scheduler
from volta.optim.algorithms import *  # noqa: F403 (as its __all__ says)
from volta.optim.optimizer import Optimizer

__all__ = ["Optimizer", "lr_scheduler"]
__all__ += algorithms.__all__
