"""Kernels by device: `cpu.py` and `gpu.py` bind the names of the op records to code."""
