"""What packages look up in torch.utils.cpp_extension before they build code in C++ or CUDA, which `refused.py` refuses."""
from __future__ import annotations

__all__ = ["CUDA_HOME", "ROCM_HOME"]

CUDA_HOME = ROCM_HOME = None            # no compiler of another vendor is used
