# Shifts of integers, in the forms of scalar.pxd. Below 0 and beyond the type, a count shifts everything out.
from libc.stdint cimport int32_t, int64_t, uint8_t
from volta._kernels.cpu cimport bits

cdef extern from * nogil:
    """
    /* U is the unsigned type, SHIFT the largest shift to the right. Vectors of AVX2 have shifts of int64 without a sign only, and none of
       bytes by different counts: these go by the bits of the count. */
    #define VOLTA_SHIFTS_BOTH_WAYS(T, U, s, BITS, SHIFT)                                                               \
        VOLTA_INLINE T shift_left_##s(T a, T b) { return b < 0 || b >= BITS ? 0 : (T)((U)a << b); }                    \
        VOLTA_INLINE T shift_right_##s(T a, T b) {                                                                     \
            U sign = (U)(0 - (U)(a < 0)), n = b < 0 || b >= SHIFT ? SHIFT : (U)b;                                      \
            return (T)(((U)a ^ sign) >> n ^ sign);                                                                     \
        }
    VOLTA_SHIFTS_BOTH_WAYS(int32_t, uint32_t, i32, 32, 31)
    VOLTA_SHIFTS_BOTH_WAYS(int64_t, uint64_t, i64, 64, 63)
    VOLTA_INLINE uint8_t shift_left_u8(uint8_t a, uint8_t b) {
        a = b & 1 ? (uint8_t)(a << 1) : a;
        a = b & 2 ? (uint8_t)(a << 2) : a;
        a = b & 4 ? (uint8_t)(a << 4) : a;
        return b < 8 ? a : 0;
    }
    VOLTA_INLINE uint8_t shift_right_u8(uint8_t a, uint8_t b) {
        a = b & 1 ? (uint8_t)(a >> 1) : a;
        a = b & 2 ? (uint8_t)(a >> 2) : a;
        a = b & 4 ? (uint8_t)(a >> 4) : a;
        return b < 8 ? a : 0;
    }
    """
    int32_t shift_left_i32(int32_t a, int32_t b), shift_right_i32(int32_t a, int32_t b)
    int64_t shift_left_i64(int64_t a, int64_t b), shift_right_i64(int64_t a, int64_t b)
    uint8_t shift_left_u8(uint8_t a, uint8_t b), shift_right_u8(uint8_t a, uint8_t b)
