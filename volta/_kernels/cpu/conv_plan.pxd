# Geometry of a 2-D convolution for the CPU, and how its columns are formed.
#
# The output pixels are worked through in chunks: some whole images, or a band of rows of one image, so that a chunk's
# input stays in the L2 cache. That input is first copied with its zero padding ("the band": [image][channel][row]
# [width]), so that column p of im2col is a fixed offset into it and no tap has to test for the border. A panel is as
# many columns as a register tile is wide; im2col of one panel exists at a time. Sizes are checked by the front end.

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.tile cimport copy_run, real, zero_run

cdef extern from *:
    """
    /* out[i] = x[2 * i] for a whole vector. */
    static inline void volta_even32(float* __restrict out, const float* __restrict x) {
        int i;
        for (i = 0; i < VOLTA_LANES32; i++) out[i] = x[2 * i];
    }
    static inline void volta_even64(double* __restrict out, const double* __restrict x) {
        int i;
        for (i = 0; i < VOLTA_LANES64; i++) out[i] = x[2 * i];
    }
    """
    void even32 "volta_even32"(float* out, const float* x) noexcept nogil
    void even64 "volta_even64"(double* out, const double* x) noexcept nogil


cdef inline void copy_even(real* out, const real* x) noexcept nogil:
    """Every second element of x, a vector of them."""
    if real is float:
        even32(out, x)
    else:
        even64(out, x)


cdef struct Run:
    int source                  # offset into the band
    int column                  # first column, counted in the panel

cdef struct Plan:
    Py_ssize_t n, groups, c, o, h, w, oh, ow            # c and o count the channels of one group
    Py_ssize_t kh, kw, sh, sw, ph, pw, dh, dw
    Py_ssize_t images, rows                             # a chunk: so many images with so many output rows each
    Py_ssize_t bands, chunks                            # chunks per image, chunks in all
    Py_ssize_t columns, panel, panels                   # of a whole chunk
    Py_ssize_t band_rows, band_width                    # the padded input of a chunk
    Py_ssize_t* taps                                    # [c * kh * kw] offset of each tap into the band
    int* offsets                                        # [columns] offset of each column into the band
    Run* runs                                           # the same for strides 1 and 2: copies of one vector each
    int* panel_runs                                     # [panels + 1] first run of each panel

cdef enum:
    PANELS_PER_CHUNK = 16
    MOST_RUNS = 4               # of a panel of stride 1, for which there are loops that the compiler unrolls
    BAND_LIMIT = 262144         # elements of a band, about the L2 cache
    FLOPS_PER_ELEMENT = 16      # multiply-adds that take as long as one element of a cheap loop


cdef inline Py_ssize_t ceil_div(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    return (a + b - 1) // b


cdef inline Py_ssize_t band_size(Plan* p, Py_ssize_t channels) noexcept nogil:
    return p.images * channels * p.band_rows * p.band_width


cdef inline void set_chunk(Plan* p, Py_ssize_t images, Py_ssize_t rows) noexcept nogil:
    p.images, p.rows = images, rows
    p.bands = ceil_div(p.oh, rows)
    p.chunks = ceil_div(p.n, images) * p.bands
    p.columns = images * rows * p.ow
    p.panels = ceil_div(p.columns, p.panel)
    p.band_rows = (rows - 1) * p.sh + (p.kh - 1) * p.dh + 1
    p.band_width = (p.ow - 1) * p.sw + (p.kw - 1) * p.dw + 1


cdef inline void choose_chunk(Plan* p, int lanes, Py_ssize_t channels, Py_ssize_t fewest) noexcept nogil:
    """Chunk for bands of `channels` channels, at least `fewest` of them where the sizes allow.

    Depends on sizes only, so that results do not depend on threads.
    """
    cdef Py_ssize_t target, pixels = p.oh * p.ow
    p.panel = 3 * lanes
    target = PANELS_PER_CHUNK * p.panel
    while True:
        if pixels * 2 <= target:
            set_chunk(p, max(1, min(p.n, target // pixels)), p.oh)
        else:
            set_chunk(p, 1, ceil_div(p.oh, max(1, (pixels + target // 2) // target)))
        if target <= 2 * p.panel:
            break
        if p.chunks * p.groups >= fewest and band_size(p, channels) <= BAND_LIMIT:
            break
        target //= 2


cdef inline void fill_tables(Plan* p, Py_ssize_t channels, int lanes) noexcept nogil:
    """Offsets of taps and columns into bands of `channels` channels. OUT: taps, offsets, runs, panel_runs."""
    cdef Py_ssize_t c, ky, kx, i, y, x, k = 0, column = 0, run = 0, source, room
    for c in range(channels):
        for ky in range(p.kh):
            for kx in range(p.kw):
                p.taps[k] = (c * p.band_rows + ky * p.dh) * p.band_width + kx * p.dw
                k += 1
    p.panel_runs[0] = 0
    for i in range(p.images):
        for y in range(p.rows):
            source = (i * channels * p.band_rows + y * p.sh) * p.band_width
            x = 0
            while x < p.ow:
                room = min(lanes, min(p.ow - x, p.panel - column % p.panel))
                p.runs[run].source = <int>(source + x * p.sw)
                p.runs[run].column = <int>(column % p.panel)
                for k in range(room):
                    p.offsets[column + k] = <int>(source + (x + k) * p.sw)
                x += room
                column += room
                run += 1
                p.panel_runs[(column + p.panel - 1) // p.panel] = <int>run


cdef inline void load_band(Plan* p, const real* x, Py_ssize_t image_stride, const real* end, Py_ssize_t y0,
                           Py_ssize_t images, Py_ssize_t channels, Py_ssize_t room, real* band,
                           int lanes) noexcept nogil:
    """Copy `images` padded inputs of `channels` channels into a band that has room for `room` channels of each image.

    IN: x[images][channels][h][w], `end` the end of its memory.
    """
    cdef Py_ssize_t i, c, r, y, k, n
    cdef Py_ssize_t left = min(max(0, p.pw), p.band_width), first = max(0, -p.pw)
    cdef const real* line
    cdef real* out
    n = min(p.w - first, p.band_width - left)
    for i in range(images):
        out = band + i * room * p.band_rows * p.band_width
        for c in range(channels):
            for r in range(p.band_rows):
                y = y0 * p.sh - p.ph + r
                if y < 0 or y >= p.h or n <= 0:
                    zero_run(out, p.band_width)
                else:
                    line = x + i * image_stride + (c * p.h + y) * p.w + first
                    zero_run(out, left)
                    if line + n + lanes <= end:
                        copy_run(out + left, line, n)
                    else:
                        for k in range(n):
                            out[left + k] = line[k]
                    zero_run(out + left + n, p.band_width - left - n)
                out += p.band_width


cdef inline void form_runs(const Py_ssize_t* taps, Py_ssize_t count, const Run* runs, int n, const real* band, real* out,
                           Py_ssize_t stride) noexcept nogil:
    cdef int[MOST_RUNS] sources
    cdef int[MOST_RUNS] columns
    cdef Py_ssize_t k
    cdef int j
    for j in range(n):                  # out of memory that may be that of `out`
        sources[j], columns[j] = runs[j].source, runs[j].column
    for k in range(count):
        for j in range(n):
            copy_run(out + k * stride + columns[j], band + taps[k] + sources[j], 1)


cdef inline void form_panel(Plan* p, const Py_ssize_t* taps, Py_ssize_t count, Py_ssize_t panel, const real* band, real* out,
                            Py_ssize_t stride) noexcept nogil:
    """`count` taps of im2col for a panel. OUT: out[count][stride], each overrun by up to a vector."""
    cdef Py_ssize_t j, k, first = p.panel_runs[panel], n = p.panel_runs[panel + 1] - first
    cdef int* offsets = p.offsets + panel * p.panel
    if p.sw == 1 and n == 3:
        form_runs(taps, count, p.runs + first, 3, band, out, stride)
    elif p.sw == 1 and n == 4:
        form_runs(taps, count, p.runs + first, 4, band, out, stride)
    elif p.sw <= 2:
        for k in range(count):
            for j in range(first, first + n):
                if p.sw == 1:
                    copy_run(out + k * stride + p.runs[j].column, band + taps[k] + p.runs[j].source, 1)
                else:
                    copy_even(out + k * stride + p.runs[j].column, band + taps[k] + p.runs[j].source)
    else:
        n = min(p.panel, p.columns - panel * p.panel)
        for k in range(count):
            for j in range(n):
                out[k * stride + j] = band[taps[k] + offsets[j]]


cdef inline void set_geometry(Plan* p, tuple shape, Py_ssize_t channels, Py_ssize_t out_channels, tuple kernel,
                              tuple stride,
                       tuple padding, tuple dilation, Py_ssize_t groups):
    """Sizes of a convolution of x with `shape`. IN: channels and out_channels of one group."""
    p.n, p.groups, p.c, p.o = shape[0], groups, channels, out_channels
    p.h, p.w = shape[2], shape[3]
    p.kh, p.kw = kernel
    p.sh, p.sw = stride
    p.ph, p.pw = padding
    p.dh, p.dw = dilation
    p.oh = (p.h + 2 * p.ph - p.dh * (p.kh - 1) - 1) // p.sh + 1
    p.ow = (p.w + 2 * p.pw - p.dw * (p.kw - 1) - 1) // p.sw + 1


cdef inline Storage make_tables(Plan* p, Py_ssize_t channels, int lane_count):
    """Allocate and fill the tables of a plan; they live as long as the storage."""
    cdef Py_ssize_t taps = channels * p.kh * p.kw, lines = p.images * p.rows
    cdef Py_ssize_t most_runs = p.columns // lane_count + lines + p.panels + 1
    cdef Py_ssize_t tables = taps * sizeof(Py_ssize_t) + most_runs * sizeof(Run)
    cdef Storage storage = host_storage(tables + (p.columns + p.panels + 2) * sizeof(int))
    p.taps = <Py_ssize_t*>storage.data
    p.runs = <Run*>(p.taps + taps)
    p.offsets = <int*>(p.runs + most_runs)
    p.panel_runs = p.offsets + p.columns
    fill_tables(p, channels, lane_count)
    return storage


cdef inline int threads_of(Plan* p) noexcept nogil:
    cdef Py_ssize_t work = p.n * p.groups * p.o * p.oh * p.ow * p.c * p.kh * p.kw
    return threads_for(work // FLOPS_PER_ELEMENT)
