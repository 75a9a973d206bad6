"""The CPU's instruction sets."""
from volta._kernels.cpu import variant


def get_cpu_capability() -> str:
    """Which kernels run: "DEFAULT", "AVX2" or "AVX512"."""
    return {"baseline": "DEFAULT"}.get(variant, variant.upper())
