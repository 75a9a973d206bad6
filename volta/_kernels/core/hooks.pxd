# What changes the recording: anomaly mode, and hooks on what nodes keep. While neither is used, each costs one comparison.

from volta._kernels.core.base cimport TensorBase

cdef int anomalies
cdef int hooked                             # hooks in force, of all threads

cdef class Packed:
    cdef object value                       # what the hook gave

cdef object pack(list saved)
cdef list callers()
cdef str recorded_at(object trace)
cdef object before_hooks(list hooks, object g, int outputs, object op)
cdef object accumulation, handle            # for users: leaf -> what adds to its `.grad`, (dict, function) -> what takes that out again
cdef object name_of(object node, object label)
cdef object shown(object node, type plain)
cdef int retain_after(TensorBase t, object before) except -1
