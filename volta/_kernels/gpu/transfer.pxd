# Uploads and downloads: what transfer.pyx defines.
from libc.stdint cimport uint64_t

from volta._kernels.gpu.batch cimport Batch
from volta._kernels.gpu.elements cimport Form, Sink
from volta._kernels.gpu.native cimport DeviceLink, Handle
from volta._kernels.gpu.pool cimport Buffer, Pool

cdef class Staging:
    cdef Handle handle
    cdef uint64_t size
    cdef char* data             # the mapped memory, NULL while not mapped for writing
    cdef int* status            # 0 while a map is pending; MAP_SUCCESS once mapped
    cdef bint pending


cdef class Transfers:
    cdef DeviceLink link
    cdef Pool pool
    cdef Batch batch
    cdef uint64_t max_buffer
    cdef list read_staging, write_staging
    cdef char* scratch
    cdef readonly uint64_t uploads, downloads, upload_bytes, download_bytes

    cdef object upload(self, Buffer buffer, data, long long offset, str elements)
    cdef int download(self, Buffer buffer, array, long long offset, str elements) except -1
    cdef int write_small(self, Buffer buffer, chunks, bint direct, Sink* sink, uint64_t nbytes, uint64_t offset) except -1
    cdef int write_now(self, Buffer buffer, const void* data, uint64_t size, uint64_t offset) except -1
    cdef int pour_all(self, Sink* sink, chunk) except -1
    cdef int write_staged(self, Buffer buffer, chunks, Sink* sink, uint64_t nbytes, uint64_t offset) except -1
    cdef int send_piece(self, Staging staging, uint64_t nbytes, Buffer buffer, uint64_t offset) except -1
    cdef int read(self, Buffer buffer, char* target, Form form, uint64_t nbytes, uint64_t offset) except -1
    cdef Staging take_staging(self, list idle, uint64_t size, uint64_t usage)
    cdef Staging find_idle(self, list idle, uint64_t size, uint64_t usage)
    cdef Py_ssize_t count_staging(self, list idle, uint64_t size) except -1
    cdef int keep_staging(self, list idle, Staging staging) except -1
    cdef int start_map(self, Staging staging, uint64_t mode) except -1
    cdef int wait_mapped(self, Staging staging, uint64_t mode, const uint64_t* index) except -1
