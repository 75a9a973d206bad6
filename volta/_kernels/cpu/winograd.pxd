# Winograd's transforms of 4 x 4 tiles, by which 3 x 3 products of 2 x 2 outputs become 16 (Lavin and Gray 2015).
#
# Along one axis, 2 outputs of 3 taps: y = At [(G w) (Bt d)], and 3 taps' gradients of 2 outputs: w = At [(G g) (Bt d)], both with the
#   points 0, 1, -1 and infinity, hence the same Bt. They are sums with weights 1 and 1/2: the error stays that of the direct sums within
#   a factor of two.
# Layout: pixel by pixel, so that lanes are channels and a transform is the same for each of them. Sizes: the caller's.

from libc.string cimport memset

from volta._kernels.cpu.conv_plan cimport Chunk, Plan, ceil_div
from volta._kernels.cpu.gemm cimport pack, turn
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it

cdef extern from *:
    """
    #define VOLTA_INPUT(x, y) (y[0] = x[0] - x[2], y[1] = x[1] + x[2], y[2] = x[2] - x[1], y[3] = x[1] - x[3])
    #define VOLTA_PAIR(x, y) (y[0] = x[0], y[1] = (x[0] + x[1]) * half, y[2] = (x[0] - x[1]) * half, y[3] = x[1])
    #define VOLTA_TRIPLE(x, y) (y[3] = x[0] + x[2], y[1] = (y[3] + x[1]) * half, y[2] = (y[3] - x[1]) * half, y[0] = x[0], y[3] = x[2])
    #define VOLTA_TO_PAIR(x, y) (y[0] = x[0] + x[1] + x[2], y[1] = x[1] - x[2] - x[3])
    #define VOLTA_TO_TRIPLE(x, y) (y[2] = x[1] + x[2], y[0] = x[0] + y[2], y[1] = x[1] - x[2], y[2] = y[2] - x[3])
    /* The OUT x OUT lines y of n numbers = the map along both axes of the IN x IN lines x. */
    #define VOLTA_WINOGRAD(NAME, S, T, IN, OUT, MAP)                                                                \\
    static void volta_winograd_##NAME##S(Py_ssize_t n, const T** x, T** y) {                            \\
        const volta_v##S half = (volta_v##S){0} + (T)0.5;                                                           \\
        volta_v##S t[OUT][4], u[4], v[4];                                                                           \\
        Py_ssize_t k; int i, j;                                                                                     \\
        (void)half;                                                                                                 \\
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
    #define VOLTA_WINOGRADS(S, T)                                                                                   \\
    VOLTA_WINOGRAD(input, S, T, 4, 4, VOLTA_INPUT)                                                                  \\
    VOLTA_WINOGRAD(pair, S, T, 2, 4, VOLTA_PAIR)                                                                    \\
    VOLTA_WINOGRAD(triple, S, T, 3, 4, VOLTA_TRIPLE)                                                                \\
    VOLTA_WINOGRAD(to_pair, S, T, 4, 2, VOLTA_TO_PAIR)                                                              \\
    VOLTA_WINOGRAD(to_triple, S, T, 4, 3, VOLTA_TO_TRIPLE)                                                          \\
    /* Whether n numbers, whole vectors of them, are finite. */                                                     \\
    static int volta_all_finite##S(Py_ssize_t n, const T* x) {                                                      \\
        volta_v##S sum = (volta_v##S){0};                                                                           \\
        Py_ssize_t i; int finite = 1;                                                                               \\
        for (i = 0; i < n; i += VOLTA_LANES##S) sum += *(const volta_v##S*)(x + i) - *(const volta_v##S*)(x + i);   \\
        for (i = 0; i < VOLTA_LANES##S; i++) finite &= ((const T*)&sum)[i] == 0;                                    \\
        return finite;                                                                                              \\
    }
    VOLTA_WINOGRADS(32, float)
    VOLTA_WINOGRADS(64, double)
    """
    void input32 "volta_winograd_input32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void input64 "volta_winograd_input64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void pair32 "volta_winograd_pair32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void pair64 "volta_winograd_pair64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void triple32 "volta_winograd_triple32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void triple64 "volta_winograd_triple64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void to_pair32 "volta_winograd_to_pair32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void to_pair64 "volta_winograd_to_pair64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    void to_triple32 "volta_winograd_to_triple32"(Py_ssize_t n, const float** x, float** y) noexcept nogil
    void to_triple64 "volta_winograd_to_triple64"(Py_ssize_t n, const double** x, double** y) noexcept nogil
    bint all_finite32 "volta_all_finite32"(Py_ssize_t n, const float* x) noexcept nogil
    bint all_finite64 "volta_all_finite64"(Py_ssize_t n, const double* x) noexcept nogil

cdef enum:
    POINTS = 16                 # products of a tile
    DEPTH = 96                  # terms of one sum, which keeps the error small


cdef inline bint all_finite(Py_ssize_t n, const real* x) noexcept nogil:
    """Whether n numbers, a multiple of lanes, are finite."""
    if real is float:
        return all_finite32(n, x)
    else:
        return all_finite64(n, x)


cdef inline bint by_three(Plan* p) noexcept nogil:
    """Whether a convolution, or the gradient of its input, is one of images with kernels of 3 x 3 and stride 1."""
    return (p.d.full == p.d.source == p.d.kernel == 1 and p.d.padding == 0 and p.h.kernel == p.w.kernel == 3
            and p.h.dilation == p.h.stride == p.h.step == p.h.skip == 1 and p.w.dilation == p.w.stride == p.w.step == p.w.skip == 1)


cdef inline void use_tiles(Plan* p) noexcept nogil:
    """The places of the plan become tiles of 2 x 2 outputs."""
    p.h.places, p.w.places = ceil_div(p.h.full, 2), ceil_div(p.w.full, 2)
    p.h.stride, p.w.stride, p.h.reach, p.w.reach = 2, 2, 4, 4


cdef inline Py_ssize_t padded(Py_ssize_t channels, Py_ssize_t lanes) noexcept nogil:
    return ceil_div(channels, lanes) * lanes


cdef inline void load_plane(Plan* p, Py_ssize_t channels, Py_ssize_t room, Py_ssize_t size, const real* x, Py_ssize_t first,
                            Py_ssize_t plane, Py_ssize_t image, real* out) noexcept nogil:
    """Some channels of `size` pixels from the first on. IN: x, the first channel; elements of a plane and an image. OUT: [size][room]."""
    if p.pixelwise:
        pack(channels, room, size, x + first * (image // plane), 1, image // plane, out)
    else:
        turn(channels, size, x + first, plane, out, room)


cdef inline void transform_tiles(Plan* p, Chunk* chunk, int size, Py_ssize_t first_row, Py_ssize_t first_column, Py_ssize_t height,
                                 Py_ssize_t width, Py_ssize_t channels, const real* x, Py_ssize_t image, real* v, Py_ssize_t plane,
                                 real* space) noexcept nogil:
    """v[16 planes][tile][room] of a chunk's tiles; they see `size` x `size` pixels, 4 of the input or 2 of a gradient.

    IN: where the first tile begins, the sizes of a plane, x the first channel of image 0, `image` elements apart; room for one image's
    rows of a chunk and a pixel.
    """
    cdef const real* at[16]
    cdef real* to[16]
    cdef Py_ssize_t room = padded(channels, p.lanes), low = max(0, 2 * chunk.y + first_row), i, ty, tx, y, x0, tile = 0
    cdef Py_ssize_t rows = min(height, 2 * (chunk.y + chunk.rows - 1) + first_row + size) - low
    cdef real* pixels = space + room
    cdef int k
    memset(space, 0, (1 + (rows * width if room > channels and rows > 0 else 0)) * room * sizeof(real))
    for i in range(chunk.images):
        if rows > 0:
            load_plane(p, channels, room, rows * width, x + (chunk.image + i) * image, low * width, height * width, image, pixels)
        for ty in range(chunk.y, chunk.y + chunk.rows):
            for tx in range(p.w.places):
                for k in range(size * size):
                    y, x0 = 2 * ty + first_row + k // size, 2 * tx + first_column + k % size
                    at[k] = pixels + ((y - low) * width + x0) * room if 0 <= y < height and 0 <= x0 < width else space
                for k in range(POINTS):
                    to[k] = v + k * plane + tile * room
                if real is float:
                    if size == 4:
                        input32(room, at, to)
                    else:
                        pair32(room, at, to)
                elif size == 4:
                    input64(room, at, to)
                else:
                    pair64(room, at, to)
                tile += 1
