"""PyTorch's devices "mps" and "xpu". Apple's and Intel's GPUs are "gpu" here."""


def is_available() -> bool:
    """Whether the device exists: never."""
    return False


def is_built() -> bool:
    """Whether there is code for it: there is none."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0
