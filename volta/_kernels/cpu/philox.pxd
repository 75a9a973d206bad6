# The rounds of Philox 4x32-10 (see volta/random.py), for those who draw, and many counters' words at a time.
from libc.stdint cimport uint32_t, uint64_t

cdef extern from *:
    """
    #ifndef VOLTA_PHILOX
    #define VOLTA_PHILOX
    #if defined(__AVX512F__) || defined(__AVX2__)
    #include <immintrin.h>
    #endif
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
    /* words = Philox of the 128-bit counters (high, counter + i), four words a counter, for `count` counters and up to 15 more. The vectors
       have a word in each 64 bits, as the products take them: what is above is not looked at. */
    static inline void volta_philox(uint64_t seed, uint64_t counter, uint64_t high, uint32_t *words, ptrdiff_t count) {
        ptrdiff_t i;
    #if defined(__AVX512F__)
        const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        const __m512i m = _mm512_set1_epi64(0xD2511F53u), o = _mm512_set1_epi64(0xCD9E8D57u);
        for (i = 0; i < count; i += 8) {
            __m512i a = _mm512_add_epi64(_mm512_set1_epi64((int64_t)(counter + (uint64_t)i)), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
            __m512i b = _mm512_srli_epi64(a, 32), c = _mm512_set1_epi64((int64_t)high), d = _mm512_srli_epi64(c, 32);
            uint32_t k = (uint32_t)seed, l = (uint32_t)(seed >> 32);
            int round;
            for (round = 0; round < 10; round++, k += 0x9E3779B9u, l += 0xBB67AE85u) {
                const __m512i p = _mm512_mul_epu32(a, m), q = _mm512_mul_epu32(c, o);
                a = _mm512_ternarylogic_epi64(_mm512_srli_epi64(q, 32), b, _mm512_set1_epi32((int)k), 0x96);
                c = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), d, _mm512_set1_epi32((int)l), 0x96);
                b = q;
                d = p;
            }
            a = _mm512_mask_shuffle_epi32(a, 0xAAAA, b, _MM_PERM_CCAA);
            c = _mm512_mask_shuffle_epi32(c, 0xAAAA, d, _MM_PERM_CCAA);
            _mm512_storeu_si512(words + 4 * i, _mm512_permutex2var_epi64(a, first, c));
            _mm512_storeu_si512(words + 4 * i + 16, _mm512_permutex2var_epi64(a, second, c));
        }
    #elif defined(__AVX2__)
        const __m256i m = _mm256_set1_epi64x(0xD2511F53u), o = _mm256_set1_epi64x(0xCD9E8D57u);
        for (i = 0; i < count; i += 4) {
            __m256i a = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)(counter + (uint64_t)i)), _mm256_setr_epi64x(0, 1, 2, 3));
            __m256i b = _mm256_srli_epi64(a, 32), c = _mm256_set1_epi64x((int64_t)high), d = _mm256_srli_epi64(c, 32);
            uint32_t k = (uint32_t)seed, l = (uint32_t)(seed >> 32);
            int round;
            for (round = 0; round < 10; round++, k += 0x9E3779B9u, l += 0xBB67AE85u) {
                const __m256i p = _mm256_mul_epu32(a, m), q = _mm256_mul_epu32(c, o);
                a = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), b), _mm256_set1_epi32((int)k));
                c = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), d), _mm256_set1_epi32((int)l));
                b = q;
                d = p;
            }
            a = _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xAA);
            c = _mm256_blend_epi32(c, _mm256_slli_epi64(d, 32), 0xAA);
            b = _mm256_unpacklo_epi64(a, c);
            d = _mm256_unpackhi_epi64(a, c);
            _mm256_storeu_si256((__m256i*)(words + 4 * i), _mm256_permute2x128_si256(b, d, 0x20));
            _mm256_storeu_si256((__m256i*)(words + 4 * i + 8), _mm256_permute2x128_si256(b, d, 0x31));
        }
    #else
        uint32_t lanes[4][16];
        ptrdiff_t at, j;
        for (at = 0; at < count; at += 16) {        /* one vector lane a counter */
            for (i = 0; i < 16; i++) {
                uint64_t n = counter + (uint64_t)(at + i);
                uint32_t four[4] = {(uint32_t)n, (uint32_t)(n >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
                volta_philox_rounds(four, (uint32_t)seed, (uint32_t)(seed >> 32));
                for (j = 0; j < 4; j++)
                    lanes[j][i] = four[j];
            }
            for (i = 0; i < 16; i++)
                for (j = 0; j < 4; j++)
                    words[4 * (at + i) + j] = lanes[j][i];
        }
    #endif
    }
    #endif
    """
    void philox "volta_philox"(uint64_t seed, uint64_t counter, uint64_t high, uint32_t* words, Py_ssize_t count) noexcept nogil
