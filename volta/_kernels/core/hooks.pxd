# What changes the recording: anomaly mode, and hooks on what nodes keep. While neither is used, each costs one comparison.

cdef bint anomalies
cdef int hooked                             # hooks in force, of all threads

cdef class Packed:
    cdef object value                       # what the hook gave

cdef object pack(list saved)
cdef list callers()
cdef str recorded_at(object trace)
