# Products of what some places see, pixel by pixel: register tiles of TILE_ROWS places by vectors of outputs, or, where outputs are few, by
#   up to 3 outputs and vectors of channels.
#
# Layout: elements of a pixel behind one another; anything else by offsets. Threads: none. Sizes: the caller's.

from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it

cdef extern from *:
    """
    /* N vectors out[targets[i] * step] = sums of a[places[i] + runs[r]][k] x b[lines[r]][k][N * LANES] over r < count, + bias (NULL: none),
       + out if `add`. */
    #define VOLTA_PLACES(NAME, T, V, LANES, N, S)                                                                   \\
    static void NAME(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const T* a,   \\
                     const Py_ssize_t* places, const T* b,                                                          \\
                     const Py_ssize_t* targets, Py_ssize_t step, const T* bias, int add, T* out) {                                   \\
        V sum[VOLTA_TILE_ROWS][N];                                                                                  \\
        Py_ssize_t r, p; int i, j;                                                                                  \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = bias ? ((const V*)bias)[j] : (V){0};                   \\
        for (r = 0; r < count; r++) {                                                                               \\
            const T* row[VOLTA_TILE_ROWS];                                                                          \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) row[i] = a + places[i] + runs[r];                    \\
            const T* line = b + lines[r];                                                                           \\
            VOLTA_FOUR_STEPS for (p = 0; p < k; p++, line += N * LANES) {                                           \\
                V y[N];                                                                                             \\
                VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = ((const V*)line)[j];                                    \\
                VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                \\
                    V x = VOLTA_SAME##S(row[i][p]);                                                                 \\
                    if (N > 1) VOLTA_KEEP(x);                                                                       \\
                    VOLTA_UNROLL for (j = 0; j < N; j++) { VOLTA_PLUS##S(sum[i][j], x, y[j]); VOLTA_KEEP(sum[i][j]); }   \\
                }                                                                                                   \\
            }                                                                                                       \\
        }                                                                                                           \\
        if (add)                                                                                                    \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                      \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] += ((const V*)(out + targets[i] * step))[j];    \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) ((V*)(out + targets[i] * step))[j] = sum[i][j];               \\
    }
    #define VOLTA_PLACES_OF(S, T)                                                                                   \\
    VOLTA_PLACES(volta_places##S##_1, T, volta_v##S, VOLTA_LANES##S, 1, S)                                          \\
    VOLTA_PLACES(volta_places##S##_2, T, volta_v##S, VOLTA_LANES##S, 2, S)                                          \\
    VOLTA_PLACES(volta_places##S##_3, T, volta_v##S, VOLTA_LANES##S, 3, S)                                          \\
    static void volta_places##S(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const T* a,\\
                                const Py_ssize_t* places,                                                           \\
                                const T* b, const Py_ssize_t* targets, Py_ssize_t step, const T* bias, int add, int vectors, \\
                                T* out) {                                                                           \\
        (vectors == 3 ? volta_places##S##_3 : vectors == 2 ? volta_places##S##_2 : volta_places##S##_1)             \\
            (count, runs, lines, k, a, places, b, targets, step, bias, add, out);                                         \\
    }
    VOLTA_PLACES_OF(32, float)
    VOLTA_PLACES_OF(64, double)

    /* out[targets[i]][j] = the sum of a[places[i] + runs[r]][p] x b[j * step + lines[r] + p] over r < count and p < k, a multiple of
       LANES, + bias[j] (NULL: none), + out if `add`, for j < N. */
    #define VOLTA_FEW(NAME, T, V, LANES, N, S)                                                                      \\
    static void NAME(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const T* a,   \\
                     const Py_ssize_t* places, const T* b,                                                          \\
                     Py_ssize_t step, const Py_ssize_t* targets, const T* bias, int add, T* out) {                  \\
        V sum[VOLTA_TILE_ROWS][N];                                                                                  \\
        T total[VOLTA_TILE_ROWS][N];                                                                                \\
        Py_ssize_t r, p; int i, j;                                                                                  \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = (V){0};                                                \\
        for (r = 0; r < count; r++) {                                                                               \\
            const T* line = b + lines[r];                                                                           \\
            const T* row[VOLTA_TILE_ROWS];                                                                          \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) row[i] = a + places[i] + runs[r];                    \\
            for (p = 0; p < k; p += LANES) {                                                                        \\
                V y[N];                                                                                             \\
                VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = *(const V*)(line + j * step + p);                       \\
                VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                \\
                    V x = *(const V*)(row[i] + p);                                                                  \\
                    VOLTA_KEEP(x);                                                                                  \\
                    VOLTA_UNROLL for (j = 0; j < N; j++) { sum[i][j] = VOLTA_MADD##S(x, y[j], sum[i][j]); VOLTA_KEEP(sum[i][j]); }\\
                }                                                                                                   \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++)      /* before any is written: a place may be repeated */          \\
                total[i][j] = volta_total##S(sum[i][j]) + (add ? out[targets[i] * N + j] : bias ? bias[j] : 0);     \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) out[targets[i] * N + j] = total[i][j];                             \\
    }
    #define VOLTA_FEW_OF(S, T)                                                                                      \\
    VOLTA_FEW(volta_few##S##_1, T, volta_v##S, VOLTA_LANES##S, 1, S)                                                \\
    VOLTA_FEW(volta_few##S##_2, T, volta_v##S, VOLTA_LANES##S, 2, S)                                                \\
    VOLTA_FEW(volta_few##S##_3, T, volta_v##S, VOLTA_LANES##S, 3, S)                                                \\
    static void volta_few##S(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const T* a,\\
                             const Py_ssize_t* places,                                                              \\
                             const T* b, Py_ssize_t step, const Py_ssize_t* targets, const T* bias, int add, int outputs, T* out) {\\
        (outputs == 3 ? volta_few##S##_3 : outputs == 2 ? volta_few##S##_2 : volta_few##S##_1)                      \\
            (count, runs, lines, k, a, places, b, step, targets, bias, add, out);                                   \\
    }
    VOLTA_FEW_OF(32, float)
    VOLTA_FEW_OF(64, double)
    """
    void places32 "volta_places32"(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const float* a,
                                   const Py_ssize_t* places, const float* b, const Py_ssize_t* targets, Py_ssize_t step, const float* bias,
                                   bint add, int vectors, float* out) noexcept nogil
    void places64 "volta_places64"(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const double* a,
                                   const Py_ssize_t* places, const double* b, const Py_ssize_t* targets, Py_ssize_t step,
                                   const double* bias, bint add, int vectors, double* out) noexcept nogil
    void few32 "volta_few32"(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const float* a,
                             const Py_ssize_t* places, const float* b, Py_ssize_t step, const Py_ssize_t* targets, const float* bias,
                             bint add, int outputs, float* out) noexcept nogil
    void few64 "volta_few64"(Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k, const double* a,
                             const Py_ssize_t* places, const double* b, Py_ssize_t step, const Py_ssize_t* targets, const double* bias,
                             bint add, int outputs, double* out) noexcept nogil
