# What the scalar functions are made of: bits of numbers, products that are rounded once, picks without branches.
cdef extern from * nogil:
    """
    #ifndef VOLTA_BITS
    #define VOLTA_BITS
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    /* A call left in a loop would keep it scalar. */
    #if defined(_MSC_VER)
      #define VOLTA_INLINE static __forceinline
    #else
      #define VOLTA_INLINE static inline __attribute__((always_inline))
    #endif
    /* A loop of known length inside of one over elements stops vectorisation, too. */
    #if defined(__GNUC__) && !defined(__clang__)
      #define VOLTA_UNROLL_WHOLE _Pragma("GCC unroll 32")
    #elif defined(__clang__)
      #define VOLTA_UNROLL_WHOLE _Pragma("unroll")
    #else
      #define VOLTA_UNROLL_WHOLE
    #endif
    /* Bytes of the widest vectors that there are: GCC takes wider ones apart badly, through memory. */
    #if defined(__AVX512F__)
      #define VOLTA_WIDE 64
    #elif defined(__AVX2__)
      #define VOLTA_WIDE 32
    #else
      #define VOLTA_WIDE 16
    #endif
    /* Several turns of a short loop in vectors of AVX2 as one: a jump takes as long as what it jumps over. */
    #if defined(__GNUC__) && !defined(__clang__) && VOLTA_WIDE == 32
      #define VOLTA_BY_FOUR _Pragma("GCC unroll 4")
    #else
      #define VOLTA_BY_FOUR
    #endif
    /* a * b + c, in one rounding where the hardware can. The build forbids the compiler to fuse by itself, since it would
       do so differently in the vector part and the rest of one loop. */
    #if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
      #define VOLTA_FMA(a, b, c) __builtin_fmaf(a, b, c)
      #define VOLTA_FMA64(a, b, c) __builtin_fma(a, b, c)
    #else
      #define VOLTA_FMA(a, b, c) ((a) * (b) + (c))
      #define VOLTA_FMA64(a, b, c) ((a) * (b) + (c))
    #endif

    VOLTA_INLINE int32_t volta_bits(float x) { int32_t i; memcpy(&i, &x, 4); return i; }
    VOLTA_INLINE float volta_float(int32_t i) { float x; memcpy(&x, &i, 4); return x; }
    VOLTA_INLINE int64_t volta_bits64(double x) { int64_t i; memcpy(&i, &x, 8); return i; }
    VOLTA_INLINE double volta_double(int64_t i) { double x; memcpy(&x, &i, 8); return x; }
    /* condition ? a : b by masks: where a or b is long, a select would become a branch, which stops vectorisation. */
    VOLTA_INLINE float volta_pick(int condition, float a, float b) {
        return volta_float((volta_bits(a) & -condition) | (volta_bits(b) & ~-condition));
    }
    VOLTA_INLINE float volta_with_sign(float magnitude, float sign) {
        return volta_float((volta_bits(magnitude) & 0x7fffffff) | (volta_bits(sign) & (int32_t)0x80000000));
    }
    VOLTA_INLINE double volta_pick64(int condition, double a, double b) {
        return volta_double((volta_bits64(a) & -(int64_t)condition) | (volta_bits64(b) & ~-(int64_t)condition));
    }

    /* Adding this rounds to an integer, which is then in the low bits. */
    #define VOLTA_ROUNDER 12582912.0f
    #define VOLTA_ROUNDER64 6755399441055744.0
    #endif
    """
    enum:
        WIDE_BYTES "VOLTA_WIDE"
