"""A wide comparison of Volta with PyTorch, driven by PyTorch's own samples of its ops, layers and optimizers.

No test: `python -m tests.differences --help` runs it where PyTorch is installed. What it finds is mended, with a small test of its own.
"""
