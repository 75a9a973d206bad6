# Many short rows at once: moved from one distance to another, and made of one element each. No loop of a few steps runs for each row.
#
# Layout: rows of bytes, or of contiguous elements of 1, 2, 4 or 8 bytes. Threads: none. Sizes: the caller's. Nothing beside the rows is
# read or written: a row may be written too wide only where the next ones are written after it.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from volta._kernels.cpu.bits cimport WIDE_BYTES         # in the C below

cdef extern from *:
    """
    #ifndef VOLTA_SHORT_ROWS
    #define VOLTA_SHORT_ROWS
    #include <string.h>
    #include <stdint.h>
    #define VOLTA_ROWS_OF(N) case N:                                                                                        \\
        for (p = 0; p < planes; p++, to += to_apart, x += x_apart)                                                          \\
            for (i = 0; i < rows; i++) memcpy(to + i * to_step, x + i * x_step, N);                                         \\
        return;
    #define VOLTA_FOUR_ROWS(N) VOLTA_ROWS_OF(N) VOLTA_ROWS_OF(N + 1) VOLTA_ROWS_OF(N + 2) VOLTA_ROWS_OF(N + 3)
    #define VOLTA_EVEN_ROWS(N) VOLTA_ROWS_OF(N) VOLTA_ROWS_OF(N + 4) VOLTA_ROWS_OF(N + 8) VOLTA_ROWS_OF(N + 12)
    /* Rows of n bytes; planes of such rows. */
    static void volta_copy_rows(char* to, Py_ssize_t to_step, Py_ssize_t to_apart, const char* x, Py_ssize_t x_step, Py_ssize_t x_apart,
                                Py_ssize_t planes, Py_ssize_t rows, Py_ssize_t n) {
        Py_ssize_t p, i;
        switch (n) {                                /* sizes that the compiler knows */
            VOLTA_FOUR_ROWS(1) VOLTA_FOUR_ROWS(5) VOLTA_FOUR_ROWS(9) VOLTA_FOUR_ROWS(13)
            VOLTA_EVEN_ROWS(20) VOLTA_EVEN_ROWS(36) VOLTA_EVEN_ROWS(52) VOLTA_ROWS_OF(72) VOLTA_ROWS_OF(80) VOLTA_ROWS_OF(96)
            VOLTA_ROWS_OF(128)
        }
        for (p = 0; p < planes; p++, to += to_apart, x += x_apart)
            for (i = 0; i < rows; i++) {
                char* a = to + i * to_step;
                const char* b = x + i * x_step;
                if (n > 1024) memcpy(a, b, n);
    #if defined(__GNUC__) || defined(__clang__)
                else {
                    typedef char piece __attribute__((vector_size(VOLTA_WIDE), aligned(1), may_alias));
                    typedef char part __attribute__((vector_size(16), aligned(1), may_alias));
                    Py_ssize_t k = 0;
                    if (n < 64) for (; k + 16 < n; k += 16) *(part*)(a + k) = *(const part*)(b + k);
                    else for (; k + VOLTA_WIDE < n; k += VOLTA_WIDE) *(piece*)(a + k) = *(const piece*)(b + k);
                    if (n < 64) *(part*)(a + n - 16) = *(const part*)(b + n - 16);
                    else *(piece*)(a + n - VOLTA_WIDE) = *(const piece*)(b + n - VOLTA_WIDE);
                }
    #else
                else memcpy(a, b, n);
    #endif
            }
    }

    #if defined(__GNUC__) || defined(__clang__)
    #define VOLTA_WIDE_REPEATS(T, BYTES) {                                                                                  \\
        typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));                                     \\
        const Py_ssize_t lanes = BYTES / sizeof(T), wide = (n + lanes - 1) / lanes * lanes;                                 \\
        for (; i * n + wide <= rows * n; i++) {                                                                             \\
            const V v = (V){0} + *(const T*)(x + i * step);                                                                 \\
            for (k = 0; k < n; k += lanes) *(V*)(to + i * n + k) = v;                                                       \\
        }                                                                                                                   \\
    }
    #else
    #define VOLTA_WIDE_REPEATS(T, BYTES)
    #endif
    /* Rows behind each other of n times the element that begins each row of x. */
    #define VOLTA_REPEAT_ROWS(NAME, T)                                                                                      \\
    static void NAME(T* to, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {                                \\
        Py_ssize_t i = 0, k;                                                                                                \\
        if (step == (Py_ssize_t)sizeof(T) && n == 2)        /* which the compiler makes shuffles of */                      \\
            for (; i < rows; i++) to[2 * i] = to[2 * i + 1] = ((const T*)x)[i];                                             \\
        else if (step == (Py_ssize_t)sizeof(T) && n == 3)                                                                   \\
            for (; i < rows; i++) to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = ((const T*)x)[i];                             \\
        else if (n * sizeof(T) <= 16) VOLTA_WIDE_REPEATS(T, 16)                                                             \\
        else if (n * sizeof(T) <= 32 && VOLTA_WIDE >= 32) VOLTA_WIDE_REPEATS(T, 32)                                         \\
        else VOLTA_WIDE_REPEATS(T, VOLTA_WIDE)                                                                              \\
        for (; i < rows; i++) for (k = 0; k < n; k++) to[i * n + k] = *(const T*)(x + i * step);                            \\
    }
    VOLTA_REPEAT_ROWS(volta_repeat_rows8, uint8_t)
    VOLTA_REPEAT_ROWS(volta_repeat_rows16, uint16_t)
    VOLTA_REPEAT_ROWS(volta_repeat_rows32, uint32_t)
    VOLTA_REPEAT_ROWS(volta_repeat_rows64, uint64_t)
    #endif
    """
    # Planes of rows of n bytes; from plane to plane `apart`.
    void copy_planes "volta_copy_rows"(char* to, Py_ssize_t to_step, Py_ssize_t to_apart, const char* x, Py_ssize_t x_step,
                                       Py_ssize_t x_apart, Py_ssize_t planes, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void repeat_rows8 "volta_repeat_rows8"(uint8_t* to, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void repeat_rows16 "volta_repeat_rows16"(uint16_t* to, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void repeat_rows32 "volta_repeat_rows32"(uint32_t* to, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void repeat_rows64 "volta_repeat_rows64"(uint64_t* to, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil


cdef inline void copy_rows(char* to, Py_ssize_t to_step, const char* x, Py_ssize_t x_step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil:
    """Rows of n bytes."""
    copy_planes(to, to_step, 0, x, x_step, 0, 1, rows, n)


cdef inline void repeat_rows(char* to, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n, Py_ssize_t itemsize) noexcept nogil:
    """Rows behind each other, each n times the element that begins a row of x."""
    if itemsize == 4:
        repeat_rows32(<uint32_t*>to, x, step, rows, n)
    elif itemsize == 8:
        repeat_rows64(<uint64_t*>to, x, step, rows, n)
    elif itemsize == 1:
        repeat_rows8(<uint8_t*>to, x, step, rows, n)
    else:
        repeat_rows16(<uint16_t*>to, x, step, rows, n)
