"""PyTorch's device "mps". Apple's GPUs are "gpu" here."""


def is_available() -> bool:
    """Whether the device "mps" exists: never."""
    return False


def is_built() -> bool:
    """Whether there is code for it: there is none."""
    return False
