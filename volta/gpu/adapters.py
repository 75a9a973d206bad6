"""Which adapters there are, which one `gpu:i` means, and how a device is requested from one.

Owns the only imports of wgpu. Must not know buffers, pipelines or the stream.
"""
from __future__ import annotations

import contextlib
import os
import sys
import threading
from dataclasses import dataclass, field
from functools import lru_cache, wraps

from volta._kernels.gpu.native import API_NAMES, protect_forked_child  # noqa: F401  (for what happens after a fork)
from volta.errors import DeviceError

# Requested where present. Never all features: an adapter may list experimental ones that no device can be made with.
WANTED_FEATURES = ("immediates", "timestamp-query", "shader-f16", "subgroup", "shader-float32-atomic", "shader-int64")

BACKENDS = ("Vulkan", "Metal", "D3D12")
TYPE_ORDER = {"DiscreteGPU": 0, "IntegratedGPU": 1, "CPU": 3}
LIMITS_SHOWN = (
    "max-buffer-size", "max-storage-buffer-binding-size", "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size", "max-compute-invocations-per-workgroup", "max-immediate-size",
)


@dataclass(frozen=True)
class Device:
    """One usable adapter."""

    index: int
    name: str
    backend: str
    type: str
    is_software: bool
    driver: str
    limits: dict = field(repr=False)
    features: tuple = field(repr=False)


def _once(function):
    """What the first call gave; other threads wait for it, since drivers do not bear being listed twice at once."""
    cached, lock = lru_cache(maxsize=1)(function), threading.RLock()

    @wraps(function)
    def wrapped():
        with lock:
            return cached()
    wrapped.cache_info = cached.cache_info
    return wrapped


@_once
def _import_wgpu():
    """(wgpu, its native module, None) or (None, None, why not)."""
    try:
        import wgpu
        from wgpu.backends.wgpu_native import _api as native
    except Exception as error:      # a broken library fails in many ways, all of which leave only the CPU
        return None, None, (f"the Python package 'wgpu' cannot be used ({type(error).__name__}: {error}); "
                            "install it with: pip install 'wgpu>=0.32,<0.33'")
    if not hasattr(native.lib, "wgpuDeviceCreateShaderModuleTrusted"):
        return None, None, (f"wgpu {wgpu.__version__} is too old or too new; install: pip install 'wgpu>=0.32,<0.33'")
    return wgpu, native, None


def native():
    """wgpu-py's module over wgpu-native. Raises: DeviceError where it cannot be imported."""
    _, module, reason = _import_wgpu()
    if module is None:
        raise DeviceError(f"gpu: {reason}")
    return module


@_once
def find() -> tuple[tuple, str | None]:
    """(usable adapters in index order, why there is none)."""
    wgpu, _, reason = _import_wgpu()
    if wgpu is None:
        return (), reason
    _keep_out_opengl()
    try:
        with _runtime_folder():
            every = list(wgpu.gpu.enumerate_adapters_sync())
    except Exception as error:
        return (), f"the system's graphics drivers cannot be listed ({type(error).__name__}: {error})"
    usable = _choose(every, os.environ.get("VOLTA_ADAPTER", "").strip().lower())
    return tuple(usable), None if usable else _nothing_found(every)


@contextlib.contextmanager
def _runtime_folder():
    """Vulkan drivers ask libwayland for displays, which prints an error each time where this variable is not set."""
    if "XDG_RUNTIME_DIR" in os.environ or not sys.platform.startswith("linux"):
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = os.environ.get("TMPDIR", "/tmp")
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


def _keep_out_opengl() -> None:
    # OpenGL adapters are never used, and their drivers' exit handlers crash forked children.
    from wgpu.backends.wgpu_native.extras import set_instance_extras
    try:
        set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
    except (RuntimeError, KeyError):      # the program has used wgpu before, or another version names them otherwise
        pass


def _choose(adapters: list, wish: str) -> list:
    """Adapters that may be used, best first. A software adapter only where it is asked for."""
    named = [a for a in adapters if a.info["backend_type"] in BACKENDS]
    if wish == "software":
        chosen = [a for a in named if a.info["adapter_type"] == "CPU"]
    elif wish:
        chosen = [a for a in named if wish in f"{a.info['device']} {a.info['description']}".lower()]
    else:
        chosen = [a for a in named if a.info["adapter_type"] != "CPU"]
    # One card may be listed by two backends; identical cards share the ids, so compare across backends only.
    vulkan = {_card(a) for a in chosen if a.info["backend_type"] == "Vulkan"}
    chosen = [a for a in chosen if a.info["backend_type"] == "Vulkan" or _card(a) not in vulkan]
    return sorted(chosen, key=lambda a: TYPE_ORDER.get(a.info["adapter_type"], 2))


def _card(adapter) -> tuple:
    return adapter.info["vendor_id"], adapter.info["device_id"]


def _nothing_found(every: list) -> str:
    wish = os.environ.get("VOLTA_ADAPTER", "").strip()
    seen = ", ".join(f"{a.info['device']} ({a.info['backend_type']}, {a.info['adapter_type']})" for a in every) or "none"
    if wish:
        return f"no adapter fits VOLTA_ADAPTER={wish!r}; adapters seen: {seen}"
    return (f"no GPU adapter was found (adapters seen: {seen}); install a Vulkan driver for the GPU, or set "
            "VOLTA_ADAPTER=software to use a software adapter")


def describe(index: int, adapter) -> Device:
    """What users see of an adapter."""
    info = adapter.info
    return Device(
        index=index, name=info["device"], backend=info["backend_type"], type=info["adapter_type"],
        is_software=info["adapter_type"] == "CPU", driver=info["description"],
        limits={name: adapter.limits[name] for name in LIMITS_SHOWN if name in adapter.limits},
        features=tuple(sorted(set(WANTED_FEATURES) & set(adapter.features))),
    )


def open_device(adapter, link):
    """Request a device with the adapter's own limits, and attach `link` to it; gives wgpu-py's GPUDevice.

    Done by hand because wgpu-py only logs the loss of a device, and submitting to a lost one aborts the process: `link`
    brings a callback that needs no Python. Raises: DeviceError where the driver refuses.
    """
    api = native()
    ffi, lib = api.ffi, api.lib
    held, descriptor = _descriptor(api, adapter, link)
    answer = []

    @ffi.callback("void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)")
    def on_device(status, device, message, userdata1, userdata2):
        answer.append((status, device, api.from_c_string_view(message)))

    info = ffi.new("WGPURequestDeviceCallbackInfo *", {"mode": lib.WGPUCallbackMode_AllowProcessEvents, "callback": on_device})
    lib.wgpuAdapterRequestDevice(adapter._internal, descriptor, info[0])
    if not answer or answer[0][0] != lib.WGPURequestDeviceStatus_Success:
        why = answer[0][2] if answer else "the driver did not answer"
        raise DeviceError(f"gpu: no device from {adapter.info['device']}: {why}")
    handle = answer[0][1]
    queue = lib.wgpuDeviceGetQueue(handle)
    # One reference more than is ever released: a device destroyed at interpreter exit, or in a forked child, may hang.
    lib.wgpuDeviceAddRef(handle)
    device = api.GPUDevice("volta", handle, adapter, api._get_features(handle, device=True),
                           api._get_limits(handle, device=True), api.GPUQueue("", queue, None))
    device._volta_held = held
    addresses = [int(ffi.cast("uintptr_t", ffi.addressof(lib, name))) for name in API_NAMES]
    link.attach(int(ffi.cast("uintptr_t", handle)), int(ffi.cast("uintptr_t", queue)), addresses, api.error_handler)
    return device


def _descriptor(api, adapter, link):
    """(objects that must stay alive with the device, WGPUDeviceDescriptor pointer)."""
    ffi, lib = api.ffi, api.lib
    native_limits = ffi.new("WGPUNativeLimits *")
    native_limits.chain.sType = lib.WGPUSType_NativeLimits
    limits = ffi.new("WGPULimits *")
    limits.nextInChain = ffi.addressof(native_limits, "chain")
    lib.wgpuAdapterGetLimits(adapter._internal, limits)
    numbers = [_feature_number(api, name) for name in WANTED_FEATURES if name in adapter.features]
    features = ffi.new("WGPUFeatureName[]", sorted(numbers))

    @ffi.callback("void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)")
    def on_error(device, kind, message, userdata1, userdata2):
        # Either an open capture of this thread takes it, or it is logged.
        api.error_handler.handle_error(api.enum_int2str["ErrorType"].get(kind, "Unknown"), api.from_c_string_view(message))

    lost, flag = link.lost_callback
    descriptor = ffi.new("WGPUDeviceDescriptor *")
    descriptor.requiredFeatureCount = len(numbers)
    descriptor.requiredFeatures = features
    descriptor.requiredLimits = limits
    descriptor.deviceLostCallbackInfo.mode = lib.WGPUCallbackMode_AllowSpontaneous
    descriptor.deviceLostCallbackInfo.callback = ffi.cast("WGPUDeviceLostCallback", lost)
    descriptor.deviceLostCallbackInfo.userdata1 = ffi.cast("void *", flag)
    descriptor.uncapturedErrorCallbackInfo.callback = on_error
    return (native_limits, limits, features, on_error, link), descriptor


def _feature_number(api, name: str) -> int:
    number = api.enummap.get(f"FeatureName.{name}")
    return api.enum_str2int["NativeFeature"][name] if number is None else number
