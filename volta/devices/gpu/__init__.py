"""Kernels of the GPU: WGSL from `shaders/`, a module per family; `kernels.py` binds them to the op table when a GPU is first used."""
