# Poisson and binomial numbers, in the forms of scalar.pxd: each element draws from its own Philox stream (see volta/random.py), whose key
# are 24 bits each of two uniform numbers. float32 goes through float64.
from volta._kernels.cpu cimport gamma, philox

cdef extern from * nogil:
    """
    #ifndef VOLTA_COUNTS
    #define VOLTA_COUNTS
    /* Uniform numbers of [0, 1) from words 0 and 1 of the counter. */
    static void volta_two_uniform(double u, double v, uint32_t counter, double *first, double *second) {
        uint32_t words[4] = {counter, 0, 0, 0};
        volta_philox_rounds(words, (uint32_t)(u * 16777216), (uint32_t)(v * 16777216));
        *first = (words[0] >> 8) / 16777216.0;
        *second = (words[1] >> 8) / 16777216.0;
    }
    /* -log of the chance that a Poisson number of this mean is k. */
    static double volta_surprise(double k, double mean) {
        return k == 0 ? mean : k * volta_log_gap(mean, k) + volta_stirling(k) + 0.5 * log(2 * VOLTA_PI * k);
    }
    /* A binomial number of n trials, of chance p each; with n = -1 a Poisson number of mean p. Below a mean of 10 by inversion, else by
       transformed rejection, of which 64 attempts fail less than once in 1e50. Source: Hormann, J. Stat. Comput. Simul. 46 (1993),
       algorithm BTRS; Poisson is its limit. */
    static double volta_count(double n, double p, double u, double v) {
        int poisson = n == -1, turned = !poisson && p > 0.5;
        double chance = poisson ? 0 : turned ? 1 - p : p, mean = poisson ? p : (n = floor(n)) * chance, k = 0, x, y, m, spread, a, b, alpha;
        uint32_t attempt;
        if (!(p >= 0) || n != n || mean == INFINITY) return p >= 0 && n == n ? mean : NAN;
        if (mean < 10) {
            double share = poisson ? exp(-mean) : exp(n * log1p(-chance)), odds = chance / (1 - chance);
            volta_two_uniform(u, v, 0, &x, &y);
            for (; k < 200 && x >= share; k++) {
                x -= share;
                share *= poisson ? mean / (k + 1) : (n - k) / (k + 1) * odds;
            }
            if (!poisson && k > n) k = n;
            return turned ? n - k : k;
        }
        spread = sqrt(mean * (1 - chance));
        b = 1.15 + 2.53 * spread;
        a = -0.0873 + 0.0248 * b + 0.01 * chance;
        alpha = (2.83 + 5.1 / b) * spread;
        m = poisson ? floor(mean) : floor((n + 1) * chance);
        for (attempt = 1; attempt <= 64; attempt++) {
            double s;
            volta_two_uniform(u, v, attempt, &x, &y);
            x -= 0.5;
            s = 0.5 - fabs(x);
            k = floor((2 * a / s + b) * x + mean + 0.5);
            if (s >= 0.07 && y <= 0.92 - 4.2 / b) break;
            if (!(k >= 0) || (!poisson && k > n)) continue;
            y = log(y * alpha / (a / (s * s) + b)) + volta_surprise(k, mean) - volta_surprise(m, mean);
            if (!poisson) y += volta_surprise(n - k, n - mean) - volta_surprise(n - m, n - mean);
            if (y <= 0) break;
        }
        k = attempt > 64 ? m : k;
        return turned ? n - k : k;
    }
    #define VOLTA_COUNTS_OF(T, s)                                                                                      \
        VOLTA_INLINE T poisson_##s(T mean, T u, T v) { return (T)volta_count(-1, mean, u, v); }                        \
        VOLTA_INLINE T binomial_##s(T n, T p, T u, T v) {                                                          \
            return n <= 0 || p <= 0 ? 0 : p >= 1 ? n : (T)volta_count(n, p, u, v); }
    VOLTA_COUNTS_OF(float, f32) VOLTA_COUNTS_OF(double, f64)
    #endif
    """
    float poisson_f32(float a, float b, float c), binomial_f32(float a, float b, float c, float d)
    double poisson_f64(double a, double b, double c), binomial_f64(double a, double b, double c, double d)
