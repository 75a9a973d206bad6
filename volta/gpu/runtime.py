"""One adapter's device as Volta uses it: the recorded stream, plus pipelines, limits and features.

Memory, launching and transfers are `stream.Stream`'s. Must not know tensors.
"""
from __future__ import annotations

import os
import threading

from volta._kernels import core
from volta._kernels.gpu.native import DeviceLink
from volta._kernels.gpu.stream import Stream
from volta.gpu import adapters
from volta.gpu.pipelines import USER_CHECKS, Compiler

RING_SLOTS = 256        # MAX_OPS of the stream
PARAMS_BYTES = 128


class Context(Stream):
    """A GPU: `alloc`, `pipeline`, `launch`, `upload`, `download`, `copy`, `clear`, `flush`, `synchronize`."""

    def __init__(self, index: int, adapter) -> None:
        self.index = index
        self.info = adapters.describe(index, adapter)
        link = DeviceLink()
        self._device = adapters.open_device(adapter, link)
        self.limits = dict(self._device.limits)
        self.features = frozenset(self._device.features)
        self.has_f16 = "shader-f16" in self.features
        self.start(link, self.limits)
        self.set_memory_limit(None)
        if self.info.is_software:
            self.batch.looks = 0            # the processor that looks is one that computes
        immediates = ("immediates" in self.features and self.limits["max-immediate-size"] >= PARAMS_BYTES
                      and os.environ.get("VOLTA_GPU_IMMEDIATES", "1") != "0")
        self.uses_immediates = immediates
        self._compiler = Compiler(self._device, self.token, immediates)
        self._pipelines: dict = {}
        self._compile_lock = threading.Lock()
        if not immediates:
            stride = max(PARAMS_BYTES, self.limits["min-uniform-buffer-offset-alignment"])
            ring, group = self._compiler.ring(stride, RING_SLOTS)
            self.batch.use_ring(Compiler._address(ring), Compiler._address(group), stride, (ring, group))

    def set_memory_limit(self, nbytes: int | None) -> None:
        """Allow at most this many bytes of blocks, live and pooled. None lifts the limit, but for a software adapter's: its memory is
        the machine's, of which any amount is promised, and the process killed that then writes to it."""
        if nbytes is None and self.info.is_software:
            nbytes = core.memory_size() // 8 * 7        # the rest is the program's own
        super().set_memory_limit(nbytes)

    def pipeline(self, file: str, *, entry: str | None = None, text: str | None = None, users: bool = False, absent: tuple = (),
                 **overrides):
        """The kernel in `shaders/<file>.wgsl`, or in a generated `text` of that name, compiled once per set of overrides.

        An override replaces the one-line declaration of its name: a type for an `alias`, a number or text for a `const`, an
        expression or body for a `fn`; or the whole new line. `entry` names the entry point where the file has several. Bindings of
        these numbers are left out (`absent`), and those behind them move up. A user's text (`users`) is compiled with checks of every
        index and loop; our own is trusted.
        Raises: DeviceError naming file and line where an override fits nothing or the shader does not compile.
        """
        key = (file, entry, text, users, absent, *sorted(overrides.items())) if overrides else (file, entry, text, users, absent)
        pipeline = self._pipelines.get(key)
        if pipeline is None:
            with self._compile_lock:
                self.link.check()
                pipeline = self._pipelines.get(key)
                if pipeline is None:
                    pipeline = self._pipelines[key] = self._compiler.compile(
                        file, overrides, entry, text, USER_CHECKS if users else 0, absent)
        return pipeline

    @property
    def pipelines_created(self) -> int:
        """Pipelines compiled so far."""
        return self._compiler.created

    def __repr__(self) -> str:
        return f"Context({self.index}, {self.info.name!r}, {self.info.backend})"
