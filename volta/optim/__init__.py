"""Optimizers and learning-rate schedules, under PyTorch's names."""
from volta.optim import lr_scheduler
from volta.optim.adam import Adam, AdamW
from volta.optim.optimizer import Optimizer
from volta.optim.sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD", "lr_scheduler"]
