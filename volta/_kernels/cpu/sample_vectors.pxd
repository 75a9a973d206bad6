# Elements of an image at many places: sums of them, each times its weight, in vectors where they have gathers.
#
# Layout: at[count][VOLTA_BLOCK] and w likewise, of up to VOLTA_BLOCK places. Threads: none. Indices: the caller's, -1 outside.
from volta._kernels.cpu cimport vector_lanes                    # for what the C below takes of it

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    #define VOLTA_BLOCK 256
    #if defined(__AVX2__) && defined(__GNUC__)
      #include <immintrin.h>
      /* Eight elements, 0 for -1. Single loads take half the time of an instruction that gathers. */
      static inline __m256 volta_eight(const float* x, const int* at) {
          const __m256i i = _mm256_loadu_si256((const __m256i*)at);
          const int outside = _mm256_movemask_ps(_mm256_castsi256_ps(i));
          if (outside == 0) return _mm256_setr_ps(x[at[0]], x[at[1]], x[at[2]], x[at[3]], x[at[4]], x[at[5]], x[at[6]], x[at[7]]);
          if (outside == 255) return _mm256_setzero_ps();
          const __m256i inside = _mm256_cmpgt_epi32(i, _mm256_set1_epi32(-1));
          return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, i, _mm256_castsi256_ps(inside), 4);
      }
    #endif
    #if defined(__AVX512F__) && defined(__GNUC__)
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
      /* A place's two elements of a row are a pair of neighbours, read at once: half the loads. Of what lies outside the next pair inside
         is read. at[4], [5]: the pairs of the two rows; [6], [7]: which of 16 pairs' elements each is; then, whether it is inside. */
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
                  VOLTA_MASKS(at)[j / 4 + c] = _mm512_mask_cmpge_epi32_mask(
                      some, _mm512_maskz_loadu_epi32(some, at + c * VOLTA_BLOCK + j), none);
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
    #elif defined(__AVX2__) && defined(__GNUC__)
      #define VOLTA_PICK_32(x, at, n, out, j) for (; j + 8 <= n; j += 8) _mm256_storeu_ps(out + j, volta_eight(x, at + j));
      #define VOLTA_GATHER_32(x, at, w, count, n, out, add, j)                                                      \\
          for (; j + 8 <= n; j += 8) {                                                                              \\
              __m256 total = add ? _mm256_loadu_ps(out + j) : _mm256_setzero_ps();                                  \\
              for (int c = 0; c < count; c++) {                                                                     \\
                  const __m256 v = volta_eight(x, at + c * VOLTA_BLOCK + j);                                        \\
                  total = _mm256_add_ps(total, _mm256_mul_ps(v, _mm256_loadu_ps(w + c * VOLTA_BLOCK + j)));         \\
              }                                                                                                     \\
              _mm256_storeu_ps(out + j, total);                                                                     \\
          }
      static inline __m256 volta_load(const float* x, Py_ssize_t n) {
          return n < 8 ? _mm256_maskload_ps(x, VOLTA_FIRST(n, float)) : _mm256_loadu_ps(x);
      }
      static inline void volta_store(float* out, __m256 v, Py_ssize_t n) {
          if (n < 8) _mm256_maskstore_ps(out, VOLTA_FIRST(n, float), v);
          else _mm256_storeu_ps(out, v);
      }
      /* A place's two elements of a row are a pair of neighbours, read at once. Of what lies outside the next pair inside is read. at[4]
         and [5]: the pairs of the two rows; [6], [7]: below 0 where an element is a pair's second one; behind them, whether eight places'
         elements are just their pairs. */
      #define VOLTA_PAIRED 1
      static void volta_pair_elements(const int* index, int* at, Py_ssize_t n, int width) {
          const __m256i none = _mm256_setzero_si256(), one = _mm256_set1_epi32(1), last = _mm256_set1_epi32(width - 2);
          for (Py_ssize_t j = 0; j < n; j += 8) {
              const __m256i some = VOLTA_FIRST(n - j < 8 ? n - j : 8, float);
              const __m256i x0 = _mm256_and_si256(_mm256_loadu_si256((const __m256i*)(index + j)), some);
              const __m256i x1 = _mm256_and_si256(_mm256_loadu_si256((const __m256i*)(index + VOLTA_BLOCK + j)), some);
              const __m256i from = _mm256_blendv_epi8(x0, _mm256_max_epi32(x1, none), _mm256_cmpgt_epi32(none, x0));
              const __m256i first = _mm256_min_epi32(from, last);
              __m256i plain = _mm256_and_si256(_mm256_cmpeq_epi32(x0, first), _mm256_cmpeq_epi32(x1, _mm256_add_epi32(first, one)));
              for (int k = 0; k < 2; k++) {
                  const __m256i y = _mm256_and_si256(_mm256_loadu_si256((const __m256i*)(index + (4 + k) * VOLTA_BLOCK + j)), some);
                  const __m256i row = _mm256_mullo_epi32(_mm256_max_epi32(y, none), _mm256_set1_epi32(width));
                  _mm256_storeu_si256((__m256i*)(at + (4 + k) * VOLTA_BLOCK + j), _mm256_add_epi32(row, first));
                  plain = _mm256_andnot_si256(_mm256_cmpgt_epi32(none, y), plain);
              }
              _mm256_storeu_si256((__m256i*)(at + 6 * VOLTA_BLOCK + j), _mm256_cmpgt_epi32(x0, first));
              _mm256_storeu_si256((__m256i*)(at + 7 * VOLTA_BLOCK + j), _mm256_cmpgt_epi32(x1, first));
              at[8 * VOLTA_BLOCK + j / 8] = _mm256_movemask_ps(_mm256_castsi256_ps(plain)) == 255;
          }
      }
      static inline __m256 volta_four_pairs(const float* x, const int* at) {       /* 0, 1, 4 and 5 of 6 */
          const __m128d low = _mm_loadh_pd(_mm_load_sd((const double*)(x + at[0])), (const double*)(x + at[1]));
          const __m128d high = _mm_loadh_pd(_mm_load_sd((const double*)(x + at[4])), (const double*)(x + at[5]));
          return _mm256_castpd_ps(_mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1));
      }
      static inline void volta_pairs(const float* x, const int* at, Py_ssize_t j, __m256* v) {
          for (int k = 0; k < 2; k++) {
              const int* i = at + (4 + k) * VOLTA_BLOCK + j;
              const __m256 a = volta_four_pairs(x, i), b = volta_four_pairs(x, i + 2);
              v[2 * k] = _mm256_shuffle_ps(a, b, 0x88);
              v[2 * k + 1] = _mm256_shuffle_ps(a, b, 0xdd);
          }
          if (at[8 * VOLTA_BLOCK + j / 8]) return;
          for (int k = 0; k < 2; k++) {
              const __m256 first = v[2 * k], second = v[2 * k + 1];
              for (int c = 0; c < 2; c++) {
                  const __m256 by = _mm256_loadu_ps((const float*)at + (6 + c) * VOLTA_BLOCK + j);
                  const __m256i outside = _mm256_srai_epi32(_mm256_loadu_si256((const __m256i*)(at + (2 * k + c) * VOLTA_BLOCK + j)), 31);
                  v[2 * k + c] = _mm256_andnot_ps(_mm256_castsi256_ps(outside), _mm256_blendv_ps(first, second, by));
              }
          }
      }
      static void volta_gather_pairs(const float* x, const int* at, const float* w, Py_ssize_t n, float* out) {
          for (Py_ssize_t j = 0; j < n; j += 8) {
              __m256 total = _mm256_setzero_ps(), v[4];
              volta_pairs(x, at, j, v);
              for (int c = 0; c < 4; c++) total = _mm256_add_ps(total, _mm256_mul_ps(v[c], volta_load(w + c * VOLTA_BLOCK + j, n - j)));
              volta_store(out + j, total, n - j);
          }
      }
      static void volta_weigh_pairs(const float* x, const int* at, const float* g, Py_ssize_t n, float* out) {
          for (Py_ssize_t j = 0; j < n; j += 8) {
              const __m256 by = _mm256_maskload_ps(g + j, VOLTA_FIRST(n - j < 8 ? n - j : 8, float));
              __m256 v[4];
              volta_pairs(x, at, j, v);
              for (int c = 0; c < 4; c++) {
                  float* to = out + c * VOLTA_BLOCK + j;
                  _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), _mm256_mul_ps(v[c], by)));
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
    /* A bicubic place's four elements of a row, where they are neighbours inside, are read at once, and those of eight places turned: a
       quarter of the loads. Behind at[count] whether eight places' are. */
    #if defined(__AVX2__) && defined(__GNUC__)
      #define VOLTA_IN_ROWS 1
      static void volta_row_elements(const int* index, int* at, Py_ssize_t n) {
          for (Py_ssize_t j = 0; j + 8 <= n; j += 8) {
              const __m256i first = _mm256_loadu_si256((const __m256i*)(index + j));
              __m256i inside = _mm256_cmpgt_epi32(first, _mm256_set1_epi32(-1));
              for (int k = 1; k < 4; k++) {
                  const __m256i x = _mm256_loadu_si256((const __m256i*)(index + k * VOLTA_BLOCK + j));
                  inside = _mm256_and_si256(inside, _mm256_cmpeq_epi32(x, _mm256_add_epi32(first, _mm256_set1_epi32(k))));
              }
              for (int k = 0; k < 4; k++) {
                  const __m256i y = _mm256_loadu_si256((const __m256i*)(index + (4 + k) * VOLTA_BLOCK + j));
                  inside = _mm256_and_si256(inside, _mm256_cmpgt_epi32(y, _mm256_set1_epi32(-1)));
              }
              at[16 * VOLTA_BLOCK + j / 8] = _mm256_movemask_ps(_mm256_castsi256_ps(inside)) == 255;
          }
      }
      static inline void volta_eight_rows(const float* x, const int* at, __m256* v) {
          __m256 r[4], pairs[4];
          for (int c = 0; c < 4; c++)
              r[c] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + at[c])), _mm_loadu_ps(x + at[c + 4]), 1);
          for (int c = 0; c < 2; c++) {
              pairs[c] = _mm256_unpacklo_ps(r[2 * c], r[2 * c + 1]);
              pairs[c + 2] = _mm256_unpackhi_ps(r[2 * c], r[2 * c + 1]);
          }
          for (int c = 0; c < 2; c++) {
              const __m256d a = _mm256_castps_pd(pairs[2 * c]), b = _mm256_castps_pd(pairs[2 * c + 1]);
              v[2 * c] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
              v[2 * c + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
          }
      }
      #define VOLTA_EIGHT_OF_16(x, at, j, r, v)                                                                     \\
          if (at[16 * VOLTA_BLOCK + j / 8]) volta_eight_rows(x, at + 4 * r * VOLTA_BLOCK + j, v);                   \\
          else for (int c = 0; c < 4; c++) v[c] = volta_eight(x, at + (4 * r + c) * VOLTA_BLOCK + j);
      static Py_ssize_t volta_gather_rows(const float* x, const int* at, const float* w, Py_ssize_t n, float* out) {
          Py_ssize_t j = 0;
          for (; j + 8 <= n; j += 8) {
              __m256 total = _mm256_setzero_ps(), v[4];
              for (int r = 0; r < 4; r++) {
                  VOLTA_EIGHT_OF_16(x, at, j, r, v)
                  for (int c = 0; c < 4; c++)
                      total = _mm256_add_ps(total, _mm256_mul_ps(v[c], _mm256_loadu_ps(w + (4 * r + c) * VOLTA_BLOCK + j)));
              }
              _mm256_storeu_ps(out + j, total);
          }
          return j;
      }
      static Py_ssize_t volta_weigh_rows(const float* x, const int* at, const float* g, Py_ssize_t n, float* out) {
          Py_ssize_t j = 0;
          for (; j + 8 <= n; j += 8) {
              const __m256 by = _mm256_loadu_ps(g + j);
              __m256 v[4];
              for (int r = 0; r < 4; r++) {
                  VOLTA_EIGHT_OF_16(x, at, j, r, v)
                  for (int c = 0; c < 4; c++) {
                      float* to = out + (4 * r + c) * VOLTA_BLOCK + j;
                      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), _mm256_mul_ps(v[c], by)));
                  }
              }
          }
          return j;
      }
    #else
      #define VOLTA_IN_ROWS 0
      #define volta_row_elements(index, at, n) ((void)0)
      #define volta_gather_rows(x, at, w, n, out) 0
      #define volta_weigh_rows(x, at, g, n, out) 0
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
    static void volta_gather_##S(const T* VOLTA_RESTRICT x, const int* VOLTA_RESTRICT at, const T* VOLTA_RESTRICT w, int count, \\
                                 Py_ssize_t n, T* VOLTA_RESTRICT out, int add) {                                    \\
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
    void gather_32 "volta_gather_32"(const float* x, const int* at, const float* w, int count, Py_ssize_t n, float* out,
                                     bint add) noexcept nogil
    void gather_64 "volta_gather_64"(const double* x, const int* at, const double* w, int count, Py_ssize_t n, double* out,
                                     bint add) noexcept nogil

    const bint PAIRED "VOLTA_PAIRED"            # whether there are these, for bilinear places in rows of 2 elements or more:
    void pair_elements "volta_pair_elements"(const int* index, int* at, Py_ssize_t n, int width) noexcept nogil
    void gather_pairs "volta_gather_pairs"(const float* x, const int* at, const float* w, Py_ssize_t n, float* out) noexcept nogil
    # out[c][j] += the c-th element of place j, times g[j]
    void weigh_pairs "volta_weigh_pairs"(const float* x, const int* at, const float* g, Py_ssize_t n, float* out) noexcept nogil

    const bint IN_ROWS "VOLTA_IN_ROWS"          # whether there are these, for bicubic places, of all but up to 7; they say of how many:
    void row_elements "volta_row_elements"(const int* index, int* at, Py_ssize_t n) noexcept nogil
    Py_ssize_t gather_rows "volta_gather_rows"(const float* x, const int* at, const float* w, Py_ssize_t n, float* out) noexcept nogil
    Py_ssize_t weigh_rows "volta_weigh_rows"(const float* x, const int* at, const float* g, Py_ssize_t n, float* out) noexcept nogil
