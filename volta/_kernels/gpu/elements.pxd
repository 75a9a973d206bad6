# How elements lie on the host and on the device, and the loops that convert them while they are copied. Callers check sizes.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum Form:
    # How elements lie on the host: on the device, all but RAW are 32-bit words.
    RAW = 0                 # as on the device
    BOOL = 1                # bytes, 0 or not
    BYTE = 2                # bytes
    INT32 = 3               # as on the device; an upload finds their extremes
    INT64 = 4               # 64-bit integers; an upload finds their extremes and refuses those beyond 32 bits
    CHAR = 5                # 8-bit integers with a sign
    SHORT = 6               # 16-bit ones

cdef struct Sink:
    Form form
    char* target            # where the next element goes
    uint64_t room           # elements that still fit there
    int32_t low, high       # extremes of the integers so far
    uint64_t beyond         # not below 2^32 where an integer did not fit into 32 bits


cdef inline uint64_t host_size(Form form) noexcept nogil:
    # Bytes of an element on the host; raw data counts as bytes.
    return 8 if form == INT64 else 4 if form == INT32 else 2 if form == SHORT else 1


cdef inline uint64_t device_size(Form form) noexcept nogil:
    return 1 if form == RAW else 4


cdef inline void convert_int64(Sink* sink, const int64_t* source, uint64_t n) noexcept nogil:
    cdef int32_t* target = <int32_t*>sink.target
    cdef int32_t low = sink.low, high = sink.high, value
    cdef uint64_t i, beyond = 0
    for i in range(n):
        value = <int32_t>source[i]
        beyond |= <uint64_t>source[i] + <uint64_t>0x80000000
        target[i] = value
        low = value if value < low else low
        high = value if value > high else high
    sink.low, sink.high = low, high
    sink.beyond |= beyond


cdef inline void copy_int32(Sink* sink, const int32_t* source, uint64_t n) noexcept nogil:
    cdef int32_t* target = <int32_t*>sink.target
    cdef int32_t low = sink.low, high = sink.high, value
    cdef uint64_t i
    for i in range(n):
        value = source[i]
        target[i] = value
        low = value if value < low else low
        high = value if value > high else high
    sink.low, sink.high = low, high


cdef inline void fill(Sink* sink, const char* source, uint64_t n) noexcept nogil:
    # The next `n` elements from the host, of which the caller knows that they fit.
    cdef uint32_t* words = <uint32_t*>sink.target
    cdef const uint8_t* octets = <const uint8_t*>source
    cdef uint64_t i
    if sink.form == INT64:
        convert_int64(sink, <const int64_t*>source, n)
    elif sink.form == INT32:
        copy_int32(sink, <const int32_t*>source, n)
    elif sink.form == BOOL:
        for i in range(n):
            words[i] = octets[i] != 0
    elif sink.form == BYTE:
        for i in range(n):
            words[i] = octets[i]
    elif sink.form == CHAR:
        for i in range(n):
            words[i] = <uint32_t>(<const int8_t*>source)[i]
    elif sink.form == SHORT:
        for i in range(n):
            words[i] = <uint32_t>(<const int16_t*>source)[i]
    else:
        memcpy(sink.target, source, n)
    sink.target += n * device_size(sink.form)
    sink.room -= n


cdef inline void read_back(char* target, const char* source, Form form, uint64_t nbytes) noexcept nogil:
    # `nbytes` of the device's elements to the host's.
    cdef const int32_t* words = <const int32_t*>source
    cdef uint8_t* octets = <uint8_t*>target
    cdef uint64_t i, n = nbytes // 4
    if form == INT64:
        for i in range(n):
            (<int64_t*>target)[i] = words[i]
    elif form == BOOL:
        for i in range(n):
            octets[i] = words[i] != 0
    elif form == BYTE:
        for i in range(n):
            octets[i] = <uint8_t>words[i]
    elif form == CHAR:
        for i in range(n):
            (<int8_t*>target)[i] = <int8_t>words[i]
    elif form == SHORT:
        for i in range(n):
            (<int16_t*>target)[i] = <int16_t>words[i]
    else:
        memcpy(target, source, nbytes)
