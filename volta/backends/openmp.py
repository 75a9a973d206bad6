"""Threads of the CPU's kernels."""


def is_available() -> bool:
    """Whether kernels run in several threads by OpenMP."""
    return True
