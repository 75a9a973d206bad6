# wgpu-native's C types and functions that the hot path calls by address. The addresses come from wgpu-py's own library
# handle (volta/gpu/adapters.py), so that both speak to the same loaded library. Layouts follow webgpu.h 29.

ctypedef void* Handle

cdef struct StringView:
    const char* data
    size_t length

cdef struct BufferDescriptor:
    void* next
    StringView label
    uint64_t usage
    uint64_t size
    uint32_t mapped_at_creation

cdef struct BindGroupEntry:
    void* next
    uint32_t binding
    Handle buffer
    uint64_t offset
    uint64_t size
    Handle sampler
    Handle texture_view

cdef struct BindGroupDescriptor:
    void* next
    StringView label
    Handle layout
    size_t entry_count
    BindGroupEntry* entries

ctypedef void (*MapCallback)(int status, StringView message, void* userdata1, void* userdata2) noexcept nogil

cdef struct MapCallbackInfo:
    void* next
    int mode
    MapCallback callback
    void* userdata1
    void* userdata2

cdef struct Api:
    Handle (*create_buffer)(Handle device, const BufferDescriptor* descriptor) noexcept nogil
    void (*buffer_release)(Handle buffer) noexcept nogil
    uint64_t (*map_async)(Handle buffer, uint64_t mode, size_t offset, size_t size, MapCallbackInfo info) noexcept nogil
    void* (*mapped_range)(Handle buffer, size_t offset, size_t size) noexcept nogil
    const void* (*const_mapped_range)(Handle buffer, size_t offset, size_t size) noexcept nogil
    void (*unmap)(Handle buffer) noexcept nogil
    Handle (*create_bind_group)(Handle device, const BindGroupDescriptor* descriptor) noexcept nogil
    void (*bind_group_release)(Handle group) noexcept nogil
    Handle (*create_encoder)(Handle device, const void* descriptor) noexcept nogil
    void (*encoder_release)(Handle encoder) noexcept nogil
    Handle (*begin_pass)(Handle encoder, const void* descriptor) noexcept nogil
    void (*end_pass)(Handle compute_pass) noexcept nogil
    void (*pass_release)(Handle compute_pass) noexcept nogil
    void (*set_pipeline)(Handle compute_pass, Handle pipeline) noexcept nogil
    void (*set_bind_group)(Handle compute_pass, uint32_t index, Handle group, size_t count, const uint32_t* offsets) noexcept nogil
    void (*set_immediates)(Handle compute_pass, uint32_t offset, const void* data, size_t size) noexcept nogil
    void (*dispatch)(Handle compute_pass, uint32_t x, uint32_t y, uint32_t z) noexcept nogil
    void (*copy_buffer)(Handle encoder, Handle source, uint64_t source_offset, Handle target, uint64_t target_offset, uint64_t size) noexcept nogil
    void (*clear_buffer)(Handle encoder, Handle buffer, uint64_t offset, uint64_t size) noexcept nogil
    Handle (*finish)(Handle encoder, const void* descriptor) noexcept nogil
    void (*command_buffer_release)(Handle commands) noexcept nogil
    uint64_t (*submit)(Handle queue, size_t count, const Handle* commands) noexcept nogil
    void (*write_buffer)(Handle queue, Handle buffer, uint64_t offset, const void* data, size_t size) noexcept nogil
    uint32_t (*poll)(Handle device, uint32_t wait, const uint64_t* submission) noexcept nogil

# Function names, in the order of Api's fields.
API_NAMES = (
    "wgpuDeviceCreateBuffer", "wgpuBufferRelease", "wgpuBufferMapAsync", "wgpuBufferGetMappedRange",
    "wgpuBufferGetConstMappedRange", "wgpuBufferUnmap", "wgpuDeviceCreateBindGroup", "wgpuBindGroupRelease",
    "wgpuDeviceCreateCommandEncoder", "wgpuCommandEncoderRelease", "wgpuCommandEncoderBeginComputePass",
    "wgpuComputePassEncoderEnd", "wgpuComputePassEncoderRelease", "wgpuComputePassEncoderSetPipeline",
    "wgpuComputePassEncoderSetBindGroup", "wgpuComputePassEncoderSetImmediates",
    "wgpuComputePassEncoderDispatchWorkgroups", "wgpuCommandEncoderCopyBufferToBuffer",
    "wgpuCommandEncoderClearBuffer", "wgpuCommandEncoderFinish", "wgpuCommandBufferRelease",
    "wgpuQueueSubmitForIndex", "wgpuQueueWriteBuffer", "wgpuDevicePoll",
)

cdef enum:
    USAGE_MAP_READ = 1
    USAGE_MAP_WRITE = 2
    USAGE_COPY_SRC = 4
    USAGE_COPY_DST = 8
    USAGE_STORAGE = 128
    MAP_MODE_READ = 1
    MAP_MODE_WRITE = 2
    MAP_SUCCESS = 1
    CALLBACK_SPONTANEOUS = 3


cdef void _map_done(int status, StringView message, void* userdata1, void* userdata2) noexcept nogil:
    # Runs inside wgpuDevicePoll, on whichever thread polls; no Python here.
    (<int*>userdata1)[0] = status


cdef void _device_lost(const void* device, int reason, StringView message, void* userdata1, void* userdata2) noexcept nogil:
    # userdata1 is DeviceLink's flag, which is never freed: this may run at any time until the process ends.
    (<int*>userdata1)[0] = reason


cdef class DeviceLink:
    """Raw handles and functions of one device, and whether it still works."""

    cdef Api api
    cdef Handle device
    cdef Handle queue
    cdef int* lost                   # OUT of _device_lost: 0 while the device works
    cdef object _capture
    cdef object _release
    cdef public object dead_reason   # text once the link must not be used any more (exit, fork), else None

    def __cinit__(self):
        self.lost = <int*>calloc(1, sizeof(int))
        if self.lost == NULL:
            raise MemoryError()

    @property
    def lost_callback(self):
        """(address of the device-lost callback, address of its flag)."""
        return <size_t>&_device_lost, <size_t>self.lost

    def attach(self, size_t device, size_t queue, addresses, error_handler):
        """Take over the handles; `addresses` are those of API_NAMES, in order."""
        cdef size_t* table = <size_t*>&self.api
        if len(addresses) * sizeof(size_t) != sizeof(Api):
            raise DeviceError(f"gpu: {sizeof(Api) // sizeof(size_t)} function addresses needed, got {len(addresses)}")
        for i, address in enumerate(addresses):
            table[i] = <size_t>address
        self.device = <Handle>device
        self.queue = <Handle>queue
        self._capture = error_handler.capture
        self._release = error_handler.release

    cdef int check(self) except -1:
        # Submitting to a lost device aborts the process, so every path to the queue passes here first.
        if self.lost[0] != 0:
            raise DeviceError("gpu: the device was lost (driver reset, or removed); restart the process")
        if self.dead_reason is not None:
            raise DeviceError(f"gpu: {self.dead_reason}")
        return 0

    def mark_lost(self):
        """Treat the device as lost; for tests."""
        self.lost[0] = 1


cdef extern from *:
    """
    #include <stdio.h>
    #if defined(__GLIBC__)
    #include <stdlib.h>
    #include <unistd.h>
    static void volta_leave(int status, void *unused) { (void)unused; fflush(NULL); _exit(status); }
    static void volta_leave_early(void) { on_exit(volta_leave, NULL); }
    #else
    static void volta_leave_early(void) { }
    #endif
    """
    void volta_leave_early()


def protect_forked_child(keep):
    """In a forked child: never release `keep`, and leave the process before the drivers' exit handlers run.

    A driver's handlers wait for threads that the child does not have, or give back what the parent still uses. Handlers
    run newest first, so the one set here comes before them; Python's own have run by then.
    """
    Py_INCREF(keep)
    volta_leave_early()
