# Many short lines of float32 numbers, worked as columns: sixteen lines at a time are transposed in registers, so that every lane of a
# vector owns a line and nothing is folded across lanes.
#
# Layout: lines of n <= SHORT contiguous elements, `step` elements apart (where there is no step: n). A line's result does not depend on
#   its neighbours. Each function returns how many lines it has done: all, or none in builds without AVX-512, where the caller's loops do
#   them. Threads: none. Sizes: the caller's.
from libc.stdint cimport int64_t
from volta._kernels.cpu cimport scalar, vectors

cdef enum:
    SHORT = 64

cdef extern from * nogil:
    """
    #if defined(VOLTA_IN_VECTORS)
      enum { VOLTA_SHORT = 64, VOLTA_SHORT_LINES = 1 };
      /* Of eight registers, each with two rows of eight numbers, the 4 x 4 squares: its own inverse. */
      VOLTA_INLINE void volta_turn_squares(volta_v *r) {
          int i;
          for (i = 0; i < 8; i += 4) {
              __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[i], r[i + 1])), b = _mm512_castps_pd(_mm512_unpackhi_ps(r[i], r[i + 1]));
              __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r[i + 2], r[i + 3]));
              __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r[i + 2], r[i + 3]));
              r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
              r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
              r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
              r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
          }
      }
      VOLTA_INLINE __m256 volta_part_row(const float *x, Py_ssize_t step, Py_ssize_t row, Py_ssize_t rows, __mmask8 k) {
          return row < rows ? _mm256_maskz_loadu_ps(k, x + row * step) : _mm256_setzero_ps();
      }
      /* to[j] = column j of up to 16 rows, 0 beyond them; to a multiple of 8 columns. */
      VOLTA_INLINE void volta_to_columns(volta_v *to, const float *x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {
          Py_ssize_t j;
          int i;
          if (n == 1 && step == 1) {
              to[0] = _mm512_maskz_loadu_ps(rows < 16 ? (__mmask16)((1u << rows) - 1) : (__mmask16)0xffff, x);
              return;
          }
          for (j = 0; j < n; j += 8) {
              __mmask8 k = n - j < 8 ? (__mmask8)((1u << (n - j)) - 1) : (__mmask8)0xff;
              volta_v r[8];
              _Pragma("GCC unroll 8") for (i = 0; i < 8; i++) {         /* row i beside row i + 4, of the first eight and of the others */
                  Py_ssize_t row = i < 4 ? i : i + 4;
                  r[i] = _mm512_insertf32x8(_mm512_castps256_ps512(volta_part_row(x + j, step, row, rows, k)),
                                            volta_part_row(x + j, step, row + 4, rows, k), 1);
              }
              volta_turn_squares(r);
              _Pragma("GCC unroll 4") for (i = 0; i < 4; i++) {
                  to[j + i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
                  to[j + i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
              }
          }
      }
      /* The columns back into rows of n. */
      VOLTA_INLINE void volta_from_columns(float *out, const volta_v *x, Py_ssize_t rows, Py_ssize_t n) {
          const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
          const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
          Py_ssize_t j;
          int i;
          if (n == 1) {
              _mm512_mask_storeu_ps(out, rows < 16 ? (__mmask16)((1u << rows) - 1) : (__mmask16)0xffff, x[0]);
              return;
          }
          for (j = 0; j < n; j += 8) {
              __mmask8 k = n - j < 8 ? (__mmask8)((1u << (n - j)) - 1) : (__mmask8)0xff;
              volta_v r[8];
              _Pragma("GCC unroll 4") for (i = 0; i < 4; i++) {
                  r[i] = _mm512_permutex2var_ps(x[j + i], low, x[j + i + 4]);
                  r[i + 4] = _mm512_permutex2var_ps(x[j + i], high, x[j + i + 4]);
              }
              volta_turn_squares(r);
              _Pragma("GCC unroll 8") for (i = 0; i < 8; i++) {
                  Py_ssize_t row = i < 4 ? i : i + 4;
                  if (row < rows) _mm256_mask_storeu_ps(out + row * n + j, k, _mm512_castps512_ps256(r[i]));
                  if (row + 4 < rows) _mm256_mask_storeu_ps(out + (row + 4) * n + j, k, _mm512_extractf32x8_ps(r[i], 1));
              }
          }
      }
      /* The sum of what TERM says of each column j, in four parts. */
      #define VOLTA_COLUMN_SUM(total, TERM)                                                                           \\
        {                                                                                                             \\
            volta_v part[4] = {V_SET(0), V_SET(0), V_SET(0), V_SET(0)};                                               \\
            for (j = 0; j + 4 <= n; j += 4) {                                                                         \\
                part[0] = V_ADD(part[0], TERM(j));                                                                    \\
                part[1] = V_ADD(part[1], TERM(j + 1));                                                                \\
                part[2] = V_ADD(part[2], TERM(j + 2));                                                                \\
                part[3] = V_ADD(part[3], TERM(j + 3));                                                                \\
            }                                                                                                         \\
            for (; j < n; j++) part[0] = V_ADD(part[0], TERM(j));                                                     \\
            total = V_ADD(V_ADD(part[0], part[1]), V_ADD(part[2], part[3]));                                          \\
        }
      #define VOLTA_SQUARE_AT(j) V_MUL(c[j], c[j])
      #define VOLTA_EXP_AT(j) (e[j] = v_exp(V_SUB(c[j], top)))
      #define VOLTA_GRAD_AT(j) c[j]
      #define VOLTA_PRODUCT_AT(j) V_MUL(c[j], y[j])
      #define VOLTA_TILES(rows) for (r = 0; r < rows; r += 16)
      #define VOLTA_TILE (rows - r < 16 ? rows - r : 16)
      #define VOLTA_TILE_MASK (rows - r < 16 ? (__mmask16)((1u << (rows - r)) - 1) : (__mmask16)0xffff)
      VOLTA_INLINE volta_v volta_column_max(const volta_v *c, Py_ssize_t n) {     /* of a line with NaN any number */
          volta_v top = *c;
          Py_ssize_t j;
          for (j = 1; j < n; j++) top = V_MAX(top, c[j]);
          return top;
      }
      /* kind: 0 softmax, 1 log_softmax, 2 logsumexp */
      static Py_ssize_t volta_short_softmax(float *out, const float *x, Py_ssize_t rows, Py_ssize_t n, int kind) {
          volta_v c[VOLTA_SHORT], e[VOLTA_SHORT], top, total;
          Py_ssize_t r, j;
          VOLTA_TILES(rows) {
              volta_to_columns(c, x + r * n, n, VOLTA_TILE, n);
              top = volta_column_max(c, n);
              if (kind == 2) top = V_MAX(V_SET(-3.4028234663852886e38f), V_MIN(V_SET(3.4028234663852886e38f), top));
              VOLTA_COLUMN_SUM(total, VOLTA_EXP_AT)
              if (kind == 2) {
                  _mm512_mask_storeu_ps(out + r, VOLTA_TILE_MASK, V_ADD(v_log(total), top));
                  continue;
              }
              total = kind == 0 ? _mm512_div_ps(V_SET(1), total) : v_log(total);
              if (kind == 0) for (j = 0; j < n; j++) e[j] = V_MUL(e[j], total);
              else for (j = 0; j < n; j++) e[j] = V_SUB(V_SUB(c[j], top), total);
              volta_from_columns(out + r * n, e, VOLTA_TILE, n);
          }
          return rows;
      }
      static Py_ssize_t volta_short_softmax_grad(float *out, const float *g, const float *x, Py_ssize_t rows, Py_ssize_t n,
                                                 int logarithm) {
          volta_v c[VOLTA_SHORT], y[VOLTA_SHORT], total;
          Py_ssize_t r, j;
          VOLTA_TILES(rows) {
              volta_to_columns(c, g + r * n, n, VOLTA_TILE, n);
              volta_to_columns(y, x + r * n, n, VOLTA_TILE, n);
              if (logarithm) {
                  VOLTA_COLUMN_SUM(total, VOLTA_GRAD_AT)
                  for (j = 0; j < n; j++) c[j] = V_SUB(c[j], V_MUL(v_exp(y[j]), total));
              } else {
                  VOLTA_COLUMN_SUM(total, VOLTA_PRODUCT_AT)
                  for (j = 0; j < n; j++) c[j] = V_MUL(y[j], V_SUB(c[j], total));
              }
              volta_from_columns(out + r * n, c, VOLTA_TILE, n);
          }
          return rows;
      }
      static Py_ssize_t volta_short_losses(float *loss, float *softmax, const float *x, const int64_t *target, int64_t ignored,
                                           Py_ssize_t rows, Py_ssize_t n) {
          volta_v c[VOLTA_SHORT], e[VOLTA_SHORT], top, total;
          float most[16], logarithm[16];
          Py_ssize_t r, j;
          VOLTA_TILES(rows) {
              volta_to_columns(c, x + r * n, n, VOLTA_TILE, n);
              top = volta_column_max(c, n);
              VOLTA_COLUMN_SUM(total, VOLTA_EXP_AT)
              _mm512_storeu_ps(most, top);
              _mm512_storeu_ps(logarithm, v_log(total));
              for (j = 0; j < VOLTA_TILE; j++)
                  loss[r + j] = target[r + j] == ignored ? 0 : logarithm[j] + (most[j] - x[(r + j) * n + target[r + j]]);
              if (!softmax) continue;
              total = _mm512_div_ps(V_SET(1), total);
              for (j = 0; j < n; j++) e[j] = V_MUL(e[j], total);
              volta_from_columns(softmax + r * n, e, VOLTA_TILE, n);
          }
          return rows;
      }
      static Py_ssize_t volta_short_norms(float *out, const float *x, Py_ssize_t rows, Py_ssize_t n) {
          volta_v c[VOLTA_SHORT], total;
          Py_ssize_t r, j;
          VOLTA_TILES(rows) {
              volta_to_columns(c, x + r * n, n, VOLTA_TILE, n);
              VOLTA_COLUMN_SUM(total, VOLTA_SQUARE_AT)
              _mm512_mask_storeu_ps(out + r, VOLTA_TILE_MASK, _mm512_sqrt_ps(total));
          }
          return rows;
      }
      /* acc[r] = the best of acc[r] and row r; a NaN wins. */
      #define VOLTA_SHORT_EXTREMES(NAME, BEST)                                                                        \\
        static Py_ssize_t NAME(float *acc, const float *x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {          \\
            volta_v c[VOLTA_SHORT];                                                                                   \\
            Py_ssize_t r, j;                                                                                          \\
            VOLTA_TILES(rows) {                                                                                       \\
                volta_v best = _mm512_maskz_loadu_ps(VOLTA_TILE_MASK, acc + r);                                       \\
                volta_to_columns(c, x + r * step, step, VOLTA_TILE, n);                                               \\
                for (j = 0; j < n; j++)                                                                               \\
                    best = BEST(c[j], _mm512_cmp_ps_mask(c[j], c[j], _CMP_ORD_Q), c[j], best);                        \\
                _mm512_mask_storeu_ps(acc + r, VOLTA_TILE_MASK, best);                                                \\
            }                                                                                                         \\
            return rows;                                                                                              \\
        }
      VOLTA_SHORT_EXTREMES(volta_short_amax, _mm512_mask_max_ps)
      VOLTA_SHORT_EXTREMES(volta_short_amin, _mm512_mask_min_ps)
      /* Where the first of the best elements of each line is, or the first NaN. */
      static Py_ssize_t volta_short_places(int64_t *out, const float *x, Py_ssize_t rows, Py_ssize_t n, int least) {
          volta_v c[VOLTA_SHORT];
          Py_ssize_t r, j;
          VOLTA_TILES(rows) {
              volta_v best;
              __m512i at = _mm512_setzero_si512();
              volta_to_columns(c, x + r * n, n, VOLTA_TILE, n);
              best = c[0];
              for (j = 1; j < n; j++) {                                 /* "not at most" is also said of a NaN */
                  __mmask16 k = least ? _mm512_cmp_ps_mask(c[j], best, _CMP_NGE_UQ) : _mm512_cmp_ps_mask(c[j], best, _CMP_NLE_UQ);
                  k = _mm512_mask_cmp_ps_mask(k, best, best, _CMP_ORD_Q);
                  best = V_PICK(k, c[j], best);
                  at = _mm512_mask_mov_epi32(at, k, _mm512_set1_epi32((int)j));
              }
              _mm512_mask_storeu_epi64(out + r, (__mmask8)VOLTA_TILE_MASK, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(at)));
              if (rows - r > 8) _mm512_mask_storeu_epi64(out + r + 8, (__mmask8)(VOLTA_TILE_MASK >> 8),
                                                         _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(at, 1)));
          }
          return rows;
      }
    #else
      enum { VOLTA_SHORT_LINES = 0 };
      #define volta_short_softmax(out, x, rows, n, kind) 0
      #define volta_short_softmax_grad(out, g, x, rows, n, logarithm) 0
      #define volta_short_losses(loss, softmax, x, target, ignored, rows, n) 0
      #define volta_short_norms(out, x, rows, n) 0
      #define volta_short_amax(acc, x, step, rows, n) 0
      #define volta_short_amin(acc, x, step, rows, n) 0
      #define volta_short_places(out, x, rows, n, least) 0
    #endif
    """
    const int SHORT_LINES "VOLTA_SHORT_LINES"       # whether this build does any
    # kind: 0 softmax, 1 log_softmax, 2 logsumexp (one number for each line)
    Py_ssize_t short_softmax "volta_short_softmax"(float* out, const float* x, Py_ssize_t rows, Py_ssize_t n, int kind)
    Py_ssize_t short_softmax_grad "volta_short_softmax_grad"(float* out, const float* g, const float* x, Py_ssize_t rows, Py_ssize_t n,
                                                             int logarithm)
    # Cross entropy of each line, and unless NULL its softmax
    Py_ssize_t short_losses "volta_short_losses"(float* loss, float* softmax, const float* x, const int64_t* target, int64_t ignored,
                                                 Py_ssize_t rows, Py_ssize_t n)
    # The root of the sum of squares
    Py_ssize_t short_norms "volta_short_norms"(float* out, const float* x, Py_ssize_t rows, Py_ssize_t n)
    # acc[r] = the better of acc[r] and line r
    Py_ssize_t short_amax "volta_short_amax"(float* acc, const float* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n)
    Py_ssize_t short_amin "volta_short_amin"(float* acc, const float* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n)
    # Where the first of the best is
    Py_ssize_t short_places "volta_short_places"(int64_t* out, const float* x, Py_ssize_t rows, Py_ssize_t n, int least)
