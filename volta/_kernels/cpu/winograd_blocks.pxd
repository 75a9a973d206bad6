# Winograd's transforms of 5 x 5 tiles, by which 4 x 4 products of 2 x 2 outputs become 25: larger kernels are made of blocks of 4 x 4.
#
# Along one axis, 2 outputs of 4 taps: y = At [(G w) (Bt d)], with the points 0, 1, -1, 2 and infinity, and 4 taps' gradients of
#   2 outputs: w = Gt [(A g) (Bt d)]. The next block sees the tiles two further on, which are tiles of this grid, too: each is transformed
#   once, and the sums over blocks are taken before the outputs are made. The mean error is two to four times that of direct sums, up to
#   seven times in the gradient of the weight; the worst element seen was off by 3e-5 of the outputs' root mean square.
# Layout: as in winograd.pxd, which has to be cimported before. Sizes: the caller's.

from libc.string cimport memset

from volta._kernels.cpu.conv_plan cimport Axis, Plan, ceil_div
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it
from volta._kernels.cpu.winograd cimport load_plane, padded

cdef extern from *:
    """
    #define VOLTA_INPUT5(x, y) (y[0] = x[3] - x[1] - (x[2] - x[0]) * two, y[1] = x[1] * two + x[2] - x[3],                \\
                                y[2] = (x[2] - x[1]) * two + x[2] - x[3], y[3] = x[3] - x[1],                             \\
                                y[4] = x[4] - x[2] - (x[3] - x[1]) * two)
    #define VOLTA_PAIR5(x, y) (y[0] = x[0], y[1] = x[0] + x[1], y[2] = x[0] - x[1], y[3] = x[0] + x[1] * two, y[4] = x[1])
    #define VOLTA_QUAD5(x, y) (y[0] = x[0] * half, y[1] = x[0] + x[2], y[2] = x[1] + x[3], y[4] = x[3],                   \\
                               y[3] = (y[1] + x[2] * three + (y[2] + x[3] * three) * two) * sixth,                        \\
                               x[0] = y[1], x[1] = y[2], y[1] = (x[0] + x[1]) * half, y[2] = (x[0] - x[1]) * sixth)
    #define VOLTA_TO_PAIR5(x, y) (y[0] = x[0] + x[1] + x[2] + x[3], y[1] = x[1] - x[2] + x[3] * two + x[4])
    #define VOLTA_TO_QUAD5(x, y) (x[1] = x[1] * half, x[2] = x[2] * sixth, x[3] = x[3] * sixth,                           \\
                                  y[0] = x[1] + x[2], y[1] = x[1] - x[2] , y[2] = y[0] + x[3] * two * two,                \\
                                  y[0] = x[0] * half + y[0] + x[3], y[3] = y[1] + x[3] * two * two * two + x[4],          \\
                                  y[1] = y[1] + x[3] * two)
    /* The OUT x OUT lines y of n numbers = the map along both axes of the IN x IN lines x. */
    #define VOLTA_WINOGRAD5(NAME, S, T, IN, OUT, MAP)                                                               \\
    static void volta_blocks_##NAME##S(Py_ssize_t n, const T** x, T** y) {                                          \\
        const volta_v##S zero = (volta_v##S){0}, half = zero + (T)0.5, two = zero + (T)2;                      \\
        const volta_v##S three = zero + (T)3, sixth = zero + (T)(1.0 / 6);                                          \\
        volta_v##S t[OUT][5], u[5], v[5];                                                                           \\
        Py_ssize_t k; int i, j;                                                                                     \\
        (void)half, (void)two, (void)three, (void)sixth;                                                            \\
        for (k = 0; k < n; k += VOLTA_LANES##S) {                                                                   \\
            VOLTA_UNROLL for (j = 0; j < IN; j++) {                                                                 \\
                VOLTA_UNROLL for (i = 0; i < IN; i++) u[i] = *(const volta_v##S*)(x[i * IN + j] + k);               \\
                MAP(u, v);                                                                                          \\
                VOLTA_UNROLL for (i = 0; i < OUT; i++) t[i][j] = v[i];                                              \\
            }                                                                                                       \\
            VOLTA_UNROLL for (i = 0; i < OUT; i++) {                                                                \\
                MAP(t[i], v);                                                                                       \\
                VOLTA_UNROLL for (j = 0; j < OUT; j++) *(volta_v##S*)(y[i * OUT + j] + k) = v[j];                   \\
            }                                                                                                       \\
        }                                                                                                           \\
    }
    #define VOLTA_WINOGRADS5(S, T)                                                                                  \\
    VOLTA_WINOGRAD5(input, S, T, 5, 5, VOLTA_INPUT5)                                                                \\
    VOLTA_WINOGRAD5(pair, S, T, 2, 5, VOLTA_PAIR5)                                                                  \\
    VOLTA_WINOGRAD5(quad, S, T, 4, 5, VOLTA_QUAD5)                                                                  \\
    VOLTA_WINOGRAD5(to_pair, S, T, 5, 2, VOLTA_TO_PAIR5)                                                            \\
    VOLTA_WINOGRAD5(to_quad, S, T, 5, 4, VOLTA_TO_QUAD5)
    VOLTA_WINOGRADS5(32, float)
    VOLTA_WINOGRADS5(64, double)
    """
    void input32 "volta_blocks_input32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void input64 "volta_blocks_input64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void pair32 "volta_blocks_pair32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void pair64 "volta_blocks_pair64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void quad32 "volta_blocks_quad32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void quad64 "volta_blocks_quad64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void to_pair32 "volta_blocks_to_pair32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void to_pair64 "volta_blocks_to_pair64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void to_quad32 "volta_blocks_to_quad32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void to_quad64 "volta_blocks_to_quad64"(Py_ssize_t n, const double** x, double** y) noexcept nogil

cdef enum:
    POINTS = 25                 # products of a tile and a block
    BLOCK = 4                   # taps of a block along an axis
    LEAST_CHANNELS = 16         # read and written: the transforms are a small part then
    LEAST_TILES = 96            # of all images, for which the weights are transformed
    LEAST_TAPS = 36             # of a kernel
    MOST_TAPS = 81


cdef inline bint plain_axis(Axis* a) noexcept nogil:
    return a.dilation == a.stride == a.step == a.skip == 1 and a.kernel > 1


cdef inline bint by_blocks(Plan* p) noexcept nogil:
    """Whether a convolution of images, or a gradient of one, has kernels so large that this way takes 0.7 of the products at most."""
    cdef Py_ssize_t blocks = ceil_div(p.h.kernel, BLOCK) * ceil_div(p.w.kernel, BLOCK)
    cdef Py_ssize_t tiles = ceil_div(p.h.full, 2) * ceil_div(p.w.full, 2)
    return (p.d.full == p.d.source == p.d.kernel == 1 and p.d.padding == 0 and plain_axis(&p.h) and plain_axis(&p.w)
            and LEAST_TAPS <= p.taps <= MOST_TAPS and min(p.c, p.o) >= LEAST_CHANNELS and p.n * tiles >= LEAST_TILES
            and 10 * POINTS * blocks * tiles <= 7 * p.taps * p.h.full * p.w.full)


cdef inline void use_blocks(Plan* p) noexcept nogil:
    """The places of the plan become tiles of 2 x 2 outputs, which see all blocks of a kernel."""
    p.h.places, p.w.places = ceil_div(p.h.full, 2), ceil_div(p.w.full, 2)
    p.h.stride, p.w.stride = 2, 2
    p.h.reach, p.w.reach = BLOCK * ceil_div(p.h.kernel, BLOCK) + 1, BLOCK * ceil_div(p.w.kernel, BLOCK) + 1


cdef inline Py_ssize_t grid_of(Axis* a, Py_ssize_t tiles) noexcept nogil:
    """Tiles along an axis, with those that only the further blocks of a kernel see."""
    return tiles + 2 * (ceil_div(a.kernel, BLOCK) - 1)


cdef inline void transform_grid(Plan* p, int size, Py_ssize_t row, Py_ssize_t rows, Py_ssize_t column, Py_ssize_t columns,
                                Py_ssize_t height, Py_ssize_t width, Py_ssize_t images, Py_ssize_t channels, const real* x,
                                Py_ssize_t image, real* v, Py_ssize_t plane, real* space) noexcept nogil:
    """v[25 planes][rows][columns][images][room] of tiles that see `size` x `size` pixels, 5 of the input or 2 of a gradient.

    IN: the pixel with which the first tile begins, the sizes of a plane, x the first channel of the first image, `image` elements apart;
    room for one image's rows and a pixel.
    """
    cdef const real* at[POINTS]
    cdef real* to[POINTS]
    cdef Py_ssize_t room = padded(channels, p.lanes), low = max(0, row), i, ty, tx, y, x0
    cdef Py_ssize_t seen = min(height, row + 2 * (rows - 1) + size) - low
    cdef real* pixels = space + room
    cdef int k
    memset(space, 0, (1 + (seen * width if room > channels and seen > 0 else 0)) * room * sizeof(real))
    for i in range(images):
        if seen > 0:
            load_plane(p, channels, room, seen * width, x + i * image, low * width, height * width, image, pixels)
        for ty in range(rows):
            for tx in range(columns):
                for k in range(size * size):
                    y, x0 = row + 2 * ty + k // size, column + 2 * tx + k % size
                    at[k] = pixels + ((y - low) * width + x0) * room if 0 <= y < height and 0 <= x0 < width else space
                for k in range(POINTS):
                    to[k] = v + k * plane + ((ty * columns + tx) * images + i) * room
                if real is float:
                    if size == 2:
                        pair32(room, at, to)
                    else:
                        input32(room, at, to)
                elif size == 2:
                    pair64(room, at, to)
                else:
                    input64(room, at, to)
