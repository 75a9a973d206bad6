"""`volta.forward_ad`, where PyTorch has it."""
from volta.forward_ad import UnpackedDualTensor, dual_level, enter_dual_level, exit_dual_level, make_dual, unpack_dual

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
