# Memory that is asked for before its turn. It may lie outside of what is ours: asking reads nothing.
cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_FETCH(p) __builtin_prefetch(p)
      #define VOLTA_FETCH_WRITTEN(p) __builtin_prefetch(p, 1)
    #else
      #define VOLTA_FETCH(p) ((void)(p))
      #define VOLTA_FETCH_WRITTEN(p) ((void)(p))
    #endif
    enum { VOLTA_LINE = 64,                     /* bytes that come at once */
           VOLTA_FETCHED = 256,                 /* elements of a long line that are asked for at a time */
           VOLTA_EARLY = 512 };                 /* elements before their turn */
    /* n elements from p on; none where n is not positive. */
    #define VOLTA_FETCH_ALL(p, n) do {                                                                   \\
        const char *volta_at = (const char *)(p), *volta_end = volta_at + (n) * (Py_ssize_t)sizeof *(p); \\
        for (; volta_at < volta_end; volta_at += VOLTA_LINE) VOLTA_FETCH(volta_at);                      \\
    } while (0)
    """
    void fetch "VOLTA_FETCH_ALL"(const void* p, Py_ssize_t n) noexcept nogil
    void fetch_written "VOLTA_FETCH_WRITTEN"(void* p) noexcept nogil          # the one line, to write to it
    const Py_ssize_t FETCHED "VOLTA_FETCHED", AHEAD "VOLTA_EARLY"
