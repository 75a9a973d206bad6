# The rounds of Philox 4x32-10 (see volta/random.py), for those who draw.

cdef extern from *:
    """
    #ifndef VOLTA_PHILOX
    #define VOLTA_PHILOX
    /* The four words of a counter become random ones under a key of two. */
    static inline void volta_philox_rounds(uint32_t *words, uint32_t k, uint32_t l) {
        uint32_t a = words[0], b = words[1], c = words[2], d = words[3];
        int round;
        for (round = 0; round < 10; round++) {
            uint64_t p = (uint64_t)a * 0xD2511F53u, q = (uint64_t)c * 0xCD9E8D57u;
            a = (uint32_t)(q >> 32) ^ b ^ k;
            b = (uint32_t)q;
            c = (uint32_t)(p >> 32) ^ d ^ l;
            d = (uint32_t)p;
            k += 0x9E3779B9u;
            l += 0xBB67AE85u;
        }
        words[0] = a;
        words[1] = b;
        words[2] = c;
        words[3] = d;
    }
    #endif
    """
