# Elements of an image at many places: sums of them, each times its weight, in vectors where they have gathers.
#
# Layout: at[count][VOLTA_BLOCK] and w likewise, of up to VOLTA_BLOCK places. Threads: none. Indices: the caller's, -1 outside.
cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    #define VOLTA_BLOCK 256
    #if defined(__AVX512F__) && defined(__GNUC__)
      #include <immintrin.h>
      #define VOLTA_PICK_32(x, at, n, out, j)                                                                       \\
          for (; j + 16 <= n; j += 16) {                                                                            \\
              __m512i i = _mm512_loadu_si512(at + j);                                                               \\
              __mmask16 inside = _mm512_cmpge_epi32_mask(i, _mm512_setzero_si512());                                \\
              _mm512_storeu_ps(out + j, _mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, i, x, 4));            \\
          }
      #define VOLTA_GATHER_32(x, at, w, count, n, out, add, j)                                                      \\
          for (; j < n; j += 16) {                                                                                  \\
              __mmask16 some = n - j < 16 ? (__mmask16)((1u << (n - j)) - 1) : (__mmask16)-1;                       \\
              __m512 total = _mm512_maskz_loadu_ps(add ? some : 0, out + j);                                        \\
              for (int c = 0; c < count; c++) {                                                                     \\
                  __m512i i = _mm512_maskz_loadu_epi32(some, at + c * VOLTA_BLOCK + j);                             \\
                  __mmask16 inside = _mm512_mask_cmpge_epi32_mask(some, i, _mm512_setzero_si512());                 \\
                  __m512 v = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, i, x, 4);                        \\
                  total = _mm512_add_ps(total, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(some, w + c * VOLTA_BLOCK + j))); \\
              }                                                                                                     \\
              _mm512_mask_storeu_ps(out + j, some, total);                                                          \\
          }
      /* A place's two elements of a row are a pair of neighbours, read at once: half the loads. Of what lies outside the next pair inside is
         read. at[4], [5]: the pairs of the two rows; [6], [7]: which of 16 pairs' elements each is; behind them, whether it is inside. */
      #define VOLTA_PAIRED 1
      #define VOLTA_MASKS(at) ((__mmask16*)(at + 8 * VOLTA_BLOCK))
      static void volta_pair_elements(const int* index, int* at, Py_ssize_t n, int width) {
          const __m512i none = _mm512_setzero_si512(), last = _mm512_set1_epi32(width - 2), wide = _mm512_set1_epi32(width);
          const __m512i step = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
          for (Py_ssize_t j = 0; j < n; j += 16) {
              const __mmask16 some = n - j < 16 ? (__mmask16)((1u << (n - j)) - 1) : (__mmask16)-1;
              const __m512i x0 = _mm512_maskz_loadu_epi32(some, index + j), x1 = _mm512_maskz_loadu_epi32(some, index + VOLTA_BLOCK + j);
              const __m512i first = _mm512_min_epi32(_mm512_mask_max_epi32(x0, _mm512_cmplt_epi32_mask(x0, none), x1, none), last);
              for (int k = 0; k < 2; k++) {
                  const __m512i y = _mm512_maskz_loadu_epi32(some, index + (4 + k) * VOLTA_BLOCK + j);
                  _mm512_storeu_si512(at + (4 + k) * VOLTA_BLOCK + j,
                                      _mm512_add_epi32(_mm512_mullo_epi32(_mm512_max_epi32(y, none), wide), first));
              }
              _mm512_storeu_si512(at + 6 * VOLTA_BLOCK + j, _mm512_add_epi32(step, _mm512_sub_epi32(x0, first)));
              _mm512_storeu_si512(at + 7 * VOLTA_BLOCK + j, _mm512_add_epi32(step, _mm512_sub_epi32(x1, first)));
              for (int c = 0; c < 4; c++)
                  VOLTA_MASKS(at)[j / 4 + c] = _mm512_mask_cmpge_epi32_mask(some, _mm512_maskz_loadu_epi32(some, at + c * VOLTA_BLOCK + j), none);
          }
      }
      static inline void volta_pairs(const float* x, const int* at, Py_ssize_t j, __m512* v) {
          for (int k = 0; k < 2; k++) {
              const __m512i i = _mm512_loadu_si512(at + (4 + k) * VOLTA_BLOCK + j);
              const __m512 low = _mm512_castpd_ps(_mm512_i32gather_pd(_mm512_castsi512_si256(i), x, 4));
              const __m512 high = _mm512_castpd_ps(_mm512_i32gather_pd(_mm512_extracti64x4_epi64(i, 1), x, 4));
              for (int c = 0; c < 2; c++)
                  v[2 * k + c] = _mm512_maskz_permutex2var_ps(VOLTA_MASKS(at)[j / 4 + 2 * k + c], low,
                                                              _mm512_loadu_si512(at + (6 + c) * VOLTA_BLOCK + j), high);
          }
      }
      static void volta_gather_pairs(const float* x, const int* at, const float* w, Py_ssize_t n, float* out) {
          for (Py_ssize_t j = 0; j < n; j += 16) {
              const __mmask16 some = n - j < 16 ? (__mmask16)((1u << (n - j)) - 1) : (__mmask16)-1;
              __m512 total = _mm512_setzero_ps(), v[4];
              volta_pairs(x, at, j, v);
              for (int c = 0; c < 4; c++)
                  total = _mm512_add_ps(total, _mm512_mul_ps(v[c], _mm512_maskz_loadu_ps(some, w + c * VOLTA_BLOCK + j)));
              _mm512_mask_storeu_ps(out + j, some, total);
          }
      }
      static void volta_weigh_pairs(const float* x, const int* at, const float* g, Py_ssize_t n, float* out) {
          for (Py_ssize_t j = 0; j < n; j += 16) {
              const __mmask16 some = n - j < 16 ? (__mmask16)((1u << (n - j)) - 1) : (__mmask16)-1;
              const __m512 by = _mm512_maskz_loadu_ps(some, g + j);
              __m512 v[4];
              volta_pairs(x, at, j, v);
              for (int c = 0; c < 4; c++) {
                  float* to = out + c * VOLTA_BLOCK + j;
                  _mm512_mask_storeu_ps(to, some, _mm512_add_ps(_mm512_maskz_loadu_ps(some, to), _mm512_mul_ps(v[c], by)));
              }
          }
      }
    #else
      #define VOLTA_PICK_32(x, at, n, out, j)
      #define VOLTA_GATHER_32(x, at, w, count, n, out, add, j)
      #define VOLTA_PAIRED 0
      #define volta_pair_elements(index, at, n, width) ((void)0)
      #define volta_gather_pairs(x, at, w, n, out) ((void)0)
      #define volta_weigh_pairs(x, at, g, n, out) ((void)0)
    #endif
    #define VOLTA_PICK_64(x, at, n, out, j)
    #define VOLTA_GATHER_64(x, at, w, count, n, out, add, j)
    /* out[j] = the sum of x[at[c][j]] * w[c][j], 0 for the element -1; `add`: to what is there. Compilers make no gathers themselves. */
    #define VOLTA_SAMPLE(S, T)                                                                                      \\
    static void volta_pick_##S(const T* VOLTA_RESTRICT x, const int* VOLTA_RESTRICT at, Py_ssize_t n, T* VOLTA_RESTRICT out) { \\
        Py_ssize_t j = 0;                                                                                           \\
        VOLTA_PICK_##S(x, at, n, out, j)                                                                            \\
        for (; j < n; j++) out[j] = at[j] < 0 ? 0 : x[at[j]];                                                       \\
    }                                                                                                               \\
    static void volta_gather_##S(const T* VOLTA_RESTRICT x, const int* VOLTA_RESTRICT at, const T* VOLTA_RESTRICT w, int count, Py_ssize_t n, \\
                                 T* VOLTA_RESTRICT out, int add) {                                                     \\
        Py_ssize_t j = 0;                                                                                           \\
        VOLTA_GATHER_##S(x, at, w, count, n, out, add, j)                                                           \\
        for (; j < n; j++) {                                                                                        \\
            T total = add ? out[j] : 0;                                                                             \\
            for (int c = 0; c < count; c++) {                                                                       \\
                int i = at[c * VOLTA_BLOCK + j];                                                                    \\
                total += (i < 0 ? 0 : x[i]) * w[c * VOLTA_BLOCK + j];                                               \\
            }                                                                                                       \\
            out[j] = total;                                                                                         \\
        }                                                                                                           \\
    }
    VOLTA_SAMPLE(32, float)
    VOLTA_SAMPLE(64, double)
    """
    void pick_32 "volta_pick_32"(const float* x, const int* at, Py_ssize_t n, float* out) noexcept nogil      # the same of weights of 1
    void pick_64 "volta_pick_64"(const double* x, const int* at, Py_ssize_t n, double* out) noexcept nogil
    void gather_32 "volta_gather_32"(const float* x, const int* at, const float* w, int count, Py_ssize_t n, float* out, bint add) noexcept nogil
    void gather_64 "volta_gather_64"(const double* x, const int* at, const double* w, int count, Py_ssize_t n, double* out, bint add) noexcept nogil

    const bint PAIRED "VOLTA_PAIRED"            # whether there are these, for bilinear places in rows of 2 elements or more:
    void pair_elements "volta_pair_elements"(const int* index, int* at, Py_ssize_t n, int width) noexcept nogil
    void gather_pairs "volta_gather_pairs"(const float* x, const int* at, const float* w, Py_ssize_t n, float* out) noexcept nogil
    # out[c][j] += the c-th element of place j, times g[j]
    void weigh_pairs "volta_weigh_pairs"(const float* x, const int* at, const float* g, Py_ssize_t n, float* out) noexcept nogil
