# Which integers have 64 bits.
cdef long long word_of(str name, object n) except? -1
