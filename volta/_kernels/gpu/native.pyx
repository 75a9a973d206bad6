# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One device through wgpu-native's C functions: its handles, whether it still works, and new buffers.

wgpu-native aborts the process on an error inside submit or poll, so whatever could be wrong is checked before it is
recorded. Knows C functions (native.pxd); must not know blocks, batches or tensors.
"""
cimport cython
from cpython.ref cimport Py_INCREF
from libc.stdlib cimport calloc
from libc.string cimport memset

from volta.errors import DeviceError

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


cdef void _device_lost(const void* device, int reason, StringView message, void* userdata1, void* userdata2) noexcept nogil:
    # userdata1 is DeviceLink's flag, which is never freed: this may run at any time until the process ends.
    (<int*>userdata1)[0] = reason


@cython.final
cdef class DeviceLink:
    """Raw handles and functions of one device, and whether it still works."""

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

    cpdef int check(self) except -1:
        """Raises: DeviceError where the device cannot be used any more. Submitting to a lost one aborts the process, so every path to the
        queue passes here first."""
        if self.lost[0] != 0:
            raise DeviceError("gpu: the device was lost (driver reset, or removed); restart the process")
        if self.dead_reason is not None:
            raise DeviceError(f"gpu: {self.dead_reason}")
        return 0

    cdef int capture(self) except -1:
        # Errors of this thread's native calls from here on are kept for `take_error`.
        self._capture("volta")
        return 0

    cdef object take_error(self):
        # Ends `capture`: the (kind, text) of what went wrong, or None.
        return self._release("volta")

    cdef Handle new_buffer(self, uint64_t size, uint64_t usage, bint mapped) except? NULL:
        # A native buffer; NULL where the device is out of memory.
        cdef BufferDescriptor descriptor
        cdef Handle handle
        memset(&descriptor, 0, sizeof(descriptor))
        descriptor.usage = usage
        descriptor.size = size
        descriptor.mapped_at_creation = mapped
        self.capture()
        with nogil:
            handle = self.api.create_buffer(self.device, &descriptor)
        error = self.take_error()
        if error is None and handle != NULL:
            return handle
        if handle != NULL:
            self.api.buffer_release(handle)
        # wgpu reports a full device as a validation error with this text.
        if error is None or "memory" in error[1].lower():
            return NULL
        raise DeviceError(f"alloc: no buffer of {size} bytes: {error[1]}")



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


def protect_forked_child(held):
    """In a forked child: never release `held`, and leave the process before the drivers' exit handlers run.

    A driver's handlers wait for threads that the child does not have, or give back what the parent still uses. Handlers
    run newest first, so the one set here comes before them; Python's own have run by then.
    """
    Py_INCREF(held)
    volta_leave_early()
