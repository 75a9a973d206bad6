"""Compiles specialised shaders into pipelines, with bind group layouts shared by all kernels of one signature.

Knows wgpu-py's objects. Must not know buffers or recording.
"""
from __future__ import annotations

from volta._kernels.gpu.stream import Pipeline
from volta.errors import DeviceError
from volta.gpu import adapters, shaders

COMPUTE_STAGE = 4
USER_CHECKS = 0b11          # of WGPUShaderRuntimeChecks: bounds of every index, and of loops


class Compiler:
    """The pipelines and layouts of one device."""

    def __init__(self, device, token, immediates: bool) -> None:
        self.device = device
        self.token = token                  # marks the pipelines of this device
        self.immediates = immediates
        self.created = 0
        self._layouts: dict = {}            # access tuple -> (id, GPUBindGroupLayout)
        self._pipeline_layouts: dict = {}
        self.ring_layout = None if immediates else device.create_bind_group_layout(entries=[{
            "binding": 0, "visibility": COMPUTE_STAGE,
            "buffer": {"type": "uniform", "has_dynamic_offset": True, "min_binding_size": 0}}])

    def compile(self, file: str, overrides: dict, entry: str | None, text: str | None = None, checks: int = 0, absent: tuple = ()):
        """A Pipeline. Raises: DeviceError quoting file and line where the shader does not compile."""
        code = shaders.source(file, overrides, self.immediates, entry, text, "shader-int64" in self.device.features, absent)
        if code.uses_f16 and "shader-f16" not in self.device.features:
            raise DeviceError(f"pipeline {code.label}: float16 kernels need an adapter with shader-f16; use float32")
        limit = self.device.limits["max-storage-buffers-per-shader-stage"]
        if len(code.access) > limit:
            raise DeviceError(f"pipeline {code.label}: {len(code.access)} buffers, this device binds {limit} at most")
        layout_id, group_layout, layout = self._layout(code.access, code.params_size)
        try:
            native = self.device.create_compute_pipeline(
                label=code.label, layout=layout, compute={"module": self._module(code, checks), "entry_point": code.entry})
        except adapters.native().classes.GPUError as error:
            raise DeviceError(shaders.locate(code, str(error))) from None
        self.created += 1
        return Pipeline(self.token, code.label, self._address(native), self._address(group_layout), layout_id, code.access,
                        code.min_sizes, code.params_size, code.params_format, (native, layout, group_layout))

    def _module(self, code: shaders.Source, checks: int):
        """A module in which the compiler adds these checks: none to our own shaders, which it trusts."""
        api = adapters.native()
        ffi = api.ffi
        text = ffi.new("char[]", code.text.encode())
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = api.lib.WGPUSType_ShaderSourceWGSL
        source.code.data, source.code.length = text, len(text) - 1
        descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        api.error_handler.capture("volta")
        handle = api.lib.wgpuDeviceCreateShaderModuleTrusted(self.device._internal, descriptor, checks)
        error = api.error_handler.release("volta")
        module = api.GPUShaderModule(code.label, handle, self.device) if handle else None
        if error is not None or module is None:
            raise DeviceError(shaders.locate(code, error[1] if error else "no shader module was made"))
        return module

    def _layout(self, access: tuple, params_size: int):
        if access not in self._layouts:
            entries = [{"binding": k, "visibility": COMPUTE_STAGE,
                        "buffer": {"type": "storage" if kind == "read_write" else "read-only-storage"}}
                       for k, kind in enumerate(access)]
            self._layouts[access] = len(self._layouts), self.device.create_bind_group_layout(entries=entries)
        layout_id, group_layout = self._layouts[access]
        size = params_size if self.immediates else 0
        groups = [group_layout] if self.immediates or not params_size else [group_layout, self.ring_layout]
        key = access, size, len(groups)
        if key not in self._pipeline_layouts:
            self._pipeline_layouts[key] = self.device.create_pipeline_layout(bind_group_layouts=groups, immediate_size=size)
        return layout_id, group_layout, self._pipeline_layouts[key]

    def ring(self, stride: int, slots: int):
        """(buffer, bind group) through which parameters pass on adapters without immediates."""
        buffer = self.device.create_buffer(size=stride * slots, usage="UNIFORM | COPY_DST")
        group = self.device.create_bind_group(layout=self.ring_layout, entries=[
            {"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 128}}])
        return buffer, group

    @staticmethod
    def _address(native) -> int:
        return int(adapters.native().ffi.cast("uintptr_t", native._internal))
