"""The parts of `volta.autograd` that custom functions are made of, where PyTorch has them."""
from volta.autograd import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
