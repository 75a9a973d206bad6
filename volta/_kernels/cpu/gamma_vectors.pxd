# log-gamma and digamma of float32 lines in vectors of AVX-512, through float64, as vectors.pxd: each returns how many of the n elements it
# has done, all or none. Source: Stirling's series from 8 on, where arguments below are taken by the recurrence; reflection below 0.
from volta._kernels.cpu cimport gamma, vectors

cdef extern from * nogil:
    """
    #ifndef VOLTA_GAMMA_VECTORS
    #define VOLTA_GAMMA_VECTORS
    #if defined(VOLTA_IN_VECTORS)
      typedef __m512d volta_w;
      #define W_SET(c) _mm512_set1_pd(c)
      #define W_ADD(a, b) _mm512_add_pd(a, b)
      #define W_SUB(a, b) _mm512_sub_pd(a, b)
      #define W_MUL(a, b) _mm512_mul_pd(a, b)
      #define W_DIV(a, b) _mm512_div_pd(a, b)
      #define W_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
      #define W_PICK(k, a, b) _mm512_mask_mov_pd(b, k, a)               /* k ? a : b */
      #define W_BELOW(a, b) _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ)

      /* The polynomial c[0] + c[1] z + ... of n coefficients. */
      VOLTA_INLINE volta_w w_poly(const double *c, int n, volta_w z) {
          volta_w p = W_SET(c[n - 1]);
          int k;
          #pragma GCC unroll 32
          for (k = n - 2; k >= 0; k--) p = W_FMA(p, z, W_SET(c[k]));
          return p;
      }
      /* log(x) of normal numbers is e ln 2 + log(m), of 0 and infinity infinite; with s = (m - 1) / (m + 1), log(m) is
         2 (s + s**3 / 3 + s**5 / 5 + ...). The division is left to the caller, who may have several. */
      VOLTA_INLINE volta_w w_split(volta_w x, volta_w *e) {
          volta_w m = _mm512_getmant_pd(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero), k = _mm512_getexp_pd(x);
          *e = _mm512_mask_add_pd(k, W_BELOW(m, W_SET(1)), k, W_SET(1));
          return m;
      }
      VOLTA_INLINE volta_w w_log_of(volta_w s, volta_w e) {
          static const double c[11] = {2, 2 / 3., 2 / 5., 2 / 7., 2 / 9., 2 / 11., 2 / 13., 2 / 15., 2 / 17., 2 / 19., 2 / 21.};
          return W_FMA(e, W_SET(0.69314718055994531), W_MUL(s, w_poly(c, 11, W_MUL(s, s))));
      }
      VOLTA_INLINE volta_w w_log(volta_w x) {
          volta_w e, m = w_split(x, &e);
          return w_log_of(W_DIV(W_SUB(m, W_SET(1)), W_ADD(m, W_SET(1))), e);
      }
      /* sin(pi r) / r and cos(pi r) for |r| <= 1/2, by Taylor's series. */
      VOLTA_INLINE volta_w w_sin_pi(volta_w r) {
          static const double c[11] = {3.1415926535897932, -5.1677127800499700, 2.5501640398773454, -0.59926452932079208,
                                       0.082145886611128229, -0.0073704309457143508, 0.00046630280576761256, -0.000021915353447830216,
                                       7.9520540014755128e-7, -2.2948428997269873e-8, 5.3926646626081285e-10};
          return w_poly(c, 11, W_MUL(r, r));
      }
      VOLTA_INLINE volta_w w_cos_pi(volta_w r) {
          static const double c[11] = {1, -4.9348022005446793, 4.0587121264167682, -1.3352627688545895, 0.23533063035889320,
                                       -0.025806891390014060, 0.0019295743094039230, -0.00010463810492484571, 4.3030695870329470e-6,
                                       -1.3878952462213772e-7, 3.6047307974625009e-9};
          return w_poly(c, 11, W_MUL(r, r));
      }
      VOLTA_INLINE volta_w w_lgamma(volta_w x) {
          static const double c[8] = {1 / 12., -1 / 360., 1 / 1260., -1 / 1680., 1 / 1188., -691 / 360360., 1 / 156., -3617 / 122400.};
          const __mmask8 negative = W_BELOW(x, W_SET(0));
          volta_w a = W_PICK(negative, W_SUB(W_SET(1), x), x), product = a, y, z, out, e, f, m, u, p, q, r, s;
          const __mmask8 small = W_BELOW(a, W_SET(8));
          int k;
          #pragma GCC unroll 8
          for (k = 1; k < 8; k++) product = W_MUL(product, W_ADD(a, W_SET(k)));
          product = W_PICK(small, product, W_SET(1));
          y = _mm512_mask_add_pd(a, small, a, W_SET(8));
          m = w_split(y, &e), u = w_split(product, &f);
          p = W_ADD(m, W_SET(1)), q = W_ADD(u, W_SET(1)), r = W_MUL(p, q);
          z = W_DIV(W_SET(1), W_MUL(r, y));                              /* one division for three */
          s = W_MUL(z, y), z = W_MUL(z, r);
          m = w_log_of(W_MUL(W_SUB(m, W_SET(1)), W_MUL(s, q)), e), u = w_log_of(W_MUL(W_SUB(u, W_SET(1)), W_MUL(s, p)), f);
          out = W_FMA(z, w_poly(c, 8, W_MUL(z, z)), W_SET(0.91893853320467274));
          out = W_SUB(W_ADD(W_SUB(W_MUL(W_SUB(y, W_SET(0.5)), m), y), out), u);
          if (__builtin_expect(negative != 0, 0)) {                      /* pi / |sin(pi x)| / gamma(1 - x) */
              r = W_SUB(x, _mm512_roundscale_pd(x, 0)), s = _mm512_abs_pd(W_MUL(r, w_sin_pi(r)));
              out = W_PICK(negative, W_SUB(W_SUB(W_SET(1.1447298858494002), w_log(s)), out), out);
          }
          return out;
      }
      VOLTA_INLINE volta_w w_digamma(volta_w x) {
          static const double c[8] = {1 / 12., -1 / 120., 1 / 252., -1 / 240., 1 / 132., -691 / 32760., 1 / 12., -3617 / 8160.};
          const __mmask8 negative = W_BELOW(x, W_SET(0));
          volta_w a = W_PICK(negative, W_SUB(W_SET(1), x), x), above = W_SET(1), below = a, y, z, out;
          const __mmask8 small = W_BELOW(a, W_SET(8));
          int k;
          #pragma GCC unroll 8
          for (k = 1; k < 8; k++) {                                     /* 1 / a + 1 / (a + 1) + ... as one fraction */
              volta_w b = W_ADD(a, W_SET(k));
              above = W_FMA(above, b, below);
              below = W_MUL(below, b);
          }
          y = _mm512_mask_add_pd(a, small, a, W_SET(8));
          z = W_DIV(W_SET(1), y);
          out = W_SUB(w_log(y), W_FMA(W_MUL(z, z), w_poly(c, 8, W_MUL(z, z)), W_MUL(W_SET(0.5), z)));
          out = _mm512_mask_sub_pd(out, small, out, W_DIV(above, below));
          if (__builtin_expect(negative != 0, 0)) {                      /* less pi / tan(pi x); NaN at whole numbers */
              volta_w r = W_SUB(x, _mm512_roundscale_pd(x, 0));
              volta_w t = W_DIV(W_MUL(W_SET(3.141592653589793116), w_cos_pi(r)), W_MUL(r, w_sin_pi(r)));
              t = W_PICK(_mm512_cmp_pd_mask(r, W_SET(0), _CMP_EQ_OQ), W_SET(NAN), t);
              out = _mm512_mask_sub_pd(out, negative, out, t);
          }
          return out;
      }
      #define VOLTA_BY_HALVES(F, v) _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(F(_mm512_cvtps_pd(                    \\
          _mm512_castps512_ps256(v))))), _mm512_cvtpd_ps(F(_mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)))), 1)
      /* Near its roots 1 and 2, where what is left of large terms is small, and at infinity, as the C library. */
      static volta_v v_lgamma(volta_v x) {
          __mmask16 apart = _mm512_cmp_ps_mask(V_ABS(V_SUB(V_ABS(V_SUB(x, V_SET(1.5f))), V_SET(0.5f))), V_SET(1.52587890625e-5f),
                                               _CMP_LT_OQ)
              | _mm512_cmp_ps_mask(V_ABS(x), V_SET(INFINITY), _CMP_EQ_OQ);
          volta_v y = VOLTA_BY_HALVES(w_lgamma, x);
          return __builtin_expect(apart != 0, 0) ? volta_again(y, x, apart, lgamma) : y;
      }
      static volta_v v_digamma(volta_v x) { return VOLTA_BY_HALVES(w_digamma, x); }
    #endif
    VOLTA_LINE(volta_lgamma_line, , v_lgamma(v))
    VOLTA_LINE(volta_digamma_line, , v_digamma(v))
    #endif
    """
    Py_ssize_t lgamma_line "volta_lgamma_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t digamma_line "volta_digamma_line"(float* out, const float* x, Py_ssize_t n)
