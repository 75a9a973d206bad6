# Orders of lines by random words, for `random`, whose generator these use.
#
# An item is a word with its place below it, in 64 bits. Words are spread evenly: items whose highest bits name about as many bins as there
# are items are nearly in order. Threads: none. Sizes: the caller's.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from volta._kernels.cpu.bits cimport WIDE_BYTES         # in the C below
from volta._kernels.cpu.philox cimport philox

cdef extern from *:
    """
    #include <string.h>
    #define VOLTA_WORDS 256
    /* Words start + first .. start + last of a stream as items of the places first .. last, dealt by their highest `above` bits into parts
       of `room` items. OUT: counts, of the parts; where one is above `room`, items are missing. */
    static void volta_deal(uint64_t *parts, uint32_t *counts, Py_ssize_t room, int above, uint64_t seed, uint64_t offset, Py_ssize_t start,
                           Py_ssize_t first, Py_ssize_t last) {
        uint32_t words[VOLTA_WORDS];
        Py_ssize_t block, at, count, i;
        memset(counts, 0, sizeof(uint32_t) << above);
        for (block = (start + first) / VOLTA_WORDS; (at = block * VOLTA_WORDS - start) < last; block++) {
            count = last - at < VOLTA_WORDS ? last - at : VOLTA_WORDS;
            volta_philox(seed, offset + (uint64_t)block * (VOLTA_WORDS / 4), 0, words, (count + 3) / 4);
            if (at >= first && count == VOLTA_WORDS) {
                if (above) {
                    for (i = 0; i < VOLTA_WORDS; i++) {
                        uint32_t w = words[i], d = w >> (32 - above), c = counts[d];
                        if ((Py_ssize_t)c < room)
                            parts[(Py_ssize_t)d * room + c] = (uint64_t)w << 32 | (uint64_t)(at + i);
                        counts[d] = c + 1;
                    }
                } else {
                    for (i = 0; i < VOLTA_WORDS; i++)
                        parts[*counts + i] = (uint64_t)words[i] << 32 | (uint64_t)(at + i);
                    *counts += VOLTA_WORDS;
                }
                continue;
            }
            for (i = at < first ? first - at : 0; i < count; i++) {
                uint32_t w = words[i], d = (uint32_t)((uint64_t)w << above >> 32), c = counts[d];
                if ((Py_ssize_t)c < room)
                    parts[(Py_ssize_t)d * room + c] = (uint64_t)w << 32 | (uint64_t)(at + i);
                counts[d] = c + 1;
            }
        }
    }
    #if defined(__clang__) || defined(__GNUC__) && __GNUC__ >= 12
      #if VOLTA_WIDE == 64
        #define VOLTA_EXCHANGED(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
      #elif VOLTA_WIDE == 32
        #define VOLTA_EXCHANGED(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
      #else
        #define VOLTA_EXCHANGED(v) __builtin_shufflevector(v, v, 1, 0)
      #endif
    #endif
    /* Items by twos, each two in order: from the first one, or from the second. */
    static inline void volta_by_twos(uint64_t *a, Py_ssize_t n) {
        Py_ssize_t i = 0;
    #if defined(VOLTA_EXCHANGED)
        typedef uint64_t V __attribute__((vector_size(VOLTA_WIDE), aligned(8), may_alias));
        enum { LANES = VOLTA_WIDE / 8 };
        V odd;
        for (i = 0; i < LANES; i++) odd[i] = -(uint64_t)(i & 1);
        for (i = 0; i + LANES <= n; i += LANES) {
            V v = *(V*)(a + i), w = VOLTA_EXCHANGED(v), other = (V)(v > w) ^ odd;
            *(V*)(a + i) = (w & other) | (v & ~other);
        }
    #endif
        for (; i + 2 <= n; i += 2) {
            uint64_t v = a[i], w = a[i + 1];
            a[i] = v < w ? v : w;
            a[i + 1] = v < w ? w : v;
        }
    }
    /* Parts of `threads` dealers, each behind the last by `stride` items and `apart` counts, as the numbers low + place in the order of the
       items, which share `above` bits: by the next `bits` to bins of about one, then by twos, and by insertion what is not yet in order. */
    static void volta_order(const uint64_t *parts, const uint32_t *counts, Py_ssize_t stride, Py_ssize_t apart, int threads, uint64_t *out,
                            Py_ssize_t n, int above, int bits, uint32_t *starts, int64_t low) {
        Py_ssize_t i, j, count;
        int t, shift = 64 - above - bits;
        uint32_t total = 0, c, mask = ((uint32_t)1 << bits) - 1;
        memset(starts, 0, sizeof(uint32_t) << bits);
        for (t = 0; t < threads; t++)
            for (i = 0, count = counts[t * apart]; i < count; i++)
                starts[(uint32_t)(parts[t * stride + i] >> shift) & mask]++;
        for (i = 0; i <= mask; i++) {
            c = starts[i];
            starts[i] = total;
            total += c;
        }
        for (t = 0; t < threads; t++)
            for (i = 0, count = counts[t * apart]; i < count; i++) {
                uint64_t v = parts[t * stride + i];
                out[starts[(uint32_t)(v >> shift) & mask]++] = v;
            }
        for (t = 0; t < 3; t++)
            volta_by_twos(out + (t & 1), n - (t & 1));
        for (i = 1; i < n; i++)
            if (out[i - 1] > out[i]) {
                uint64_t v = out[i];
                for (j = i; j > 0 && out[j - 1] > v; j--)
                    out[j] = out[j - 1];
                out[j] = v;
            }
        for (i = 0; i < n; i++)
            out[i] = (out[i] & 0xFFFFFFFFu) + (uint64_t)low;
    }
    """
    void deal "volta_deal"(uint64_t* parts, uint32_t* counts, Py_ssize_t room, int above, uint64_t seed, uint64_t offset, Py_ssize_t start,
                           Py_ssize_t first, Py_ssize_t last) noexcept nogil
    void order "volta_order"(const uint64_t* parts, const uint32_t* counts, Py_ssize_t stride, Py_ssize_t apart, int threads, uint64_t* out,
                             Py_ssize_t n, int above, int bits, uint32_t* starts, int64_t low) noexcept nogil
