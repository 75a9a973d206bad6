"""Settings of CUDA, without effect here."""
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True)
_kinds = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether Volta was built with CUDA: never; GPUs are used through wgpu."""
    return False


def _setting(kind):
    def enable(enabled: bool) -> None:
        """Allow a kind of attention kernel. There is one here, which is always used."""
        _kinds[kind] = bool(enabled)

    def is_enabled() -> bool:
        """What was set."""
        return _kinds[kind]
    return enable, is_enabled


enable_flash_sdp, flash_sdp_enabled = _setting("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _setting("mem_efficient")
enable_math_sdp, math_sdp_enabled = _setting("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _setting("cudnn")


@contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[None]:
    """Allow these kinds of attention kernels inside the `with`. There is one here, which is always used."""
    warnings.warn("sdp_kernel is deprecated; write nn.attention.sdpa_kernel", FutureWarning, stacklevel=3)
    before = dict(_kinds)
    _kinds.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _kinds.update(before)
