"""What Volta runs on, for a report of a fault: `python -m volta info`."""
from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np

import volta
from volta._kernels import cpu
from volta._kernels.core import threads

__all__ = ["get_pretty_env_info"]


def versions_and_cpu() -> list[str]:
    """Two lines: versions, and how the CPU computes."""
    return [f"volta {volta.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}",
            f"CPU kernels: {cpu.variant}, {volta.get_num_threads()} threads on {threads.usable_processors()} processors"]


def gpus(full: bool = True) -> list[str]:
    """A line for each GPU, or why there is none; with `full` what its adapter can do as well."""
    lines = []
    for gpu in volta.gpu.devices():
        lines.append(f"GPU {gpu.index}: {gpu.name}, {gpu.backend}, driver {gpu.driver or 'unknown'}")
        if full:
            lines += [f"    {', '.join(gpu.features)}", *(f"    {name} {value:,}" for name, value in gpu.limits.items())]
    return lines or [f"GPU: none can be used: {volta.gpu.unavailable_reason()}"]


def get_pretty_env_info() -> str:
    """Versions, CPU and GPUs as lines of text.

    >>> import volta.utils.collect_env
    >>> "CPU kernels: " in volta.utils.collect_env.get_pretty_env_info()
    True
    """
    return "\n".join(versions_and_cpu() + gpus())


def main(arguments: Sequence[str] = ()) -> int:
    """The command; gives its exit status."""
    if arguments:
        print("usage: python -m volta info")
        return 0 if arguments[0] in ("-h", "--help") else 2
    print(get_pretty_env_info())
    return 0
