"""torch.autograd.profiler: the older form of `volta.profiler`."""
from __future__ import annotations

from typing import Any

from volta import profiler
from volta.profiler import EventList, FunctionEvent, kineto_available, record_function

__all__ = ["EventList", "FunctionEvent", "kineto_available", "profile", "record_function"]


class profile(profiler.profile):
    """`volta.profiler.profile` of everything inside a `with` block, unless `enabled` is False."""

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None, record_shapes: bool = False,
                 with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False,
                 use_kineto: bool = False, use_cpu: bool = True, experimental_config: Any = None, acc_events: bool = False,
                 custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None) -> None:
        super().__init__(record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack,
                         with_modules=with_modules, acc_events=acc_events)
        self.enabled = enabled

    def start(self) -> None:
        """Begin, where it is enabled."""
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> EventList:
        """What was recorded."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, those inside others once. Units: microseconds."""
        return self.events().self_cpu_time_total

    def table(self, *args: Any, **options: Any) -> str:
        """The events as text."""
        return self.events().table(*args, **options)

    def total_average(self) -> FunctionEvent:
        """All events together."""
        return self.events().total_average()
