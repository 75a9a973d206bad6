"""`volta.derivatives`, where PyTorch has it."""
from volta.derivatives import hessian, hvp, jacobian, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
