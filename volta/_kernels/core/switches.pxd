# Switches of each thread: what declares a variable that every thread has one of, and what sets one.

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define VOLTA_PER_THREAD static __declspec(thread)
    #else
    #define VOLTA_PER_THREAD static __thread
    #endif
    """


cdef inline int switched(int* switch, int value) noexcept:
    """Set a switch; gives the previous setting."""
    cdef int previous = switch[0]
    switch[0] = value
    return previous
