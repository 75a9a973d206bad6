"""Settings of a library of kernels for NVIDIA's GPUs, without effect here."""
enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit = 10


def is_available() -> bool:
    """Whether the library is used: never."""
    return False


def version() -> None:
    """There is no version of what is not used."""
