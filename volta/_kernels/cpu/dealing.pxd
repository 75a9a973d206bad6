# Items of work that threads take as they come, each from a range of its own first: what it wrote the time before is in its caches then.
# (Dealt out in turns, a convolution wrote lines that the other processor had: two threads were 1.75 times as fast as one, and are 1.95.)
# A thread whose range is done takes what others have left, so that slower processors, or those that do something else, hold up nobody.
#
# Threads: any. Results may not depend on who computes an item.
cdef extern from *:
    """
    #if defined(_MSC_VER)
      #include <intrin.h>
      #define VOLTA_NEXT(p) _InterlockedExchangeAdd64((volatile __int64 *)(p), 1)
    #else
      #define VOLTA_NEXT(p) __atomic_fetch_add(p, 1, __ATOMIC_RELAXED)
    #endif
    enum { VOLTA_RANGES = 64 };
    typedef struct { volatile long long next; long long end; char apart[48]; } volta_range;     /* a cache line */
    typedef struct { volta_range of[VOLTA_RANGES]; int count; } volta_ranges;

    static void volta_deal(volta_ranges *all, Py_ssize_t items, int threads) {
        int t;
        all->count = threads < VOLTA_RANGES ? threads : VOLTA_RANGES;
        for (t = 0; t < all->count; t++) {
            all->of[t].next = items * t / all->count;
            all->of[t].end = items * (t + 1) / all->count;
        }
    }
    static Py_ssize_t volta_take(volta_ranges *all, int thread) {
        int k;
        for (k = 0; k < all->count; k++) {
            volta_range *range = &all->of[(thread + k) % all->count];
            if (range->next < range->end) {
                const long long item = VOLTA_NEXT(&range->next);
                if (item < range->end) return (Py_ssize_t)item;
            }
        }
        return -1;
    }
    """
    ctypedef struct Ranges "volta_ranges":
        pass
    # Deal `items` out to `threads` threads.
    void deal "volta_deal"(Ranges* ranges, Py_ssize_t items, int threads) noexcept nogil
    # An item for a thread, -1 where there is none left.
    Py_ssize_t take "volta_take"(Ranges* ranges, int thread) noexcept nogil
