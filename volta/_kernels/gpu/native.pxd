# wgpu-native's C types and functions that the hot path calls by address. The addresses come from wgpu-py's own library
# handle (volta/gpu/adapters.py), so that both speak to the same loaded library. Layouts follow webgpu.h 29.
from libc.stdint cimport uint32_t, uint64_t

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
    void (*copy_buffer)(Handle encoder, Handle source, uint64_t source_offset, Handle target, uint64_t target_offset,
                        uint64_t size) noexcept nogil
    void (*clear_buffer)(Handle encoder, Handle buffer, uint64_t offset, uint64_t size) noexcept nogil
    Handle (*finish)(Handle encoder, const void* descriptor) noexcept nogil
    void (*command_buffer_release)(Handle commands) noexcept nogil
    uint64_t (*submit)(Handle queue, size_t count, const Handle* commands) noexcept nogil
    void (*write_buffer)(Handle queue, Handle buffer, uint64_t offset, const void* data, size_t size) noexcept nogil
    uint32_t (*poll)(Handle device, uint32_t wait, const uint64_t* submission) noexcept nogil

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


cdef class DeviceLink:
    cdef Api api
    cdef Handle device
    cdef Handle queue
    cdef int* lost                   # OUT of _device_lost: 0 while the device works
    cdef object _capture
    cdef object _release
    cdef public object dead_reason   # text once the link must not be used any more (exit, fork), else None

    cpdef int check(self) except -1
    cdef int capture(self) except -1
    cdef object take_error(self)
    cdef Handle new_buffer(self, uint64_t size, uint64_t usage, bint mapped) except? NULL
