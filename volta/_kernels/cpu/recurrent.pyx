# Recurrences over whole sequences (LSTM, GRU, tanh and relu) and their gradients.
#
# Layout: rows of all steps behind one another, `batch_sizes` of them, which never grow; saved values as ops/records/recurrent.py says.
#   The state's weight is packed once for all steps, into the panels that the register tile of tile.pxd reads.
# Threads: each goes through all steps with rows of its own, so that none waits for another one. Sizes: the front end.

from cython.parallel cimport prange
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.views cimport float_code, pointer, same_type
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport gemm_threads, pack

from volta._kernels.cpu.multiply cimport multiply_ahead
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.scalar cimport tanh_f32       # its declarations come with it
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes
from volta._kernels.cpu cimport vectors                 # whose lines the C below calls

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_R __restrict
    #else
      #define VOLTA_R __restrict__
    #endif
    /* The columns of one row lie beside one another in one array, of which a compiler does not know that they do not overlap. */
    #if defined(_OPENMP) && !defined(_MSC_VER)
      #define VOLTA_COLUMNS _Pragma("omp simd")
    #else
      #define VOLTA_COLUMNS
    #endif
    /* Of a line in place: the vectors of vectors.pxd, where there are such, and loops. */
    #define VOLTA_SIGMOIDS_f32(n, x) volta_sigmoid_line(x, x, n)
    #define VOLTA_SIGMOIDS_f64(n, x) 0
    #define VOLTA_TANHS_f32(n, x) volta_tanh_line(x, x, n)
    #define VOLTA_TANHS_f64(n, x) 0
    #define VOLTA_GATES(T, S)                                                                                       \\
    static void volta_sigmoids_##S(Py_ssize_t n, T* x) {                                                            \\
        Py_ssize_t j, done = VOLTA_SIGMOIDS_##S(n, x);                                                              \\
        VOLTA_COLUMNS for (j = done; j < n; j++) x[j] = sigmoid_##S(x[j]);                                          \\
    }                                                                                                               \\
    static void volta_tanhs_##S(Py_ssize_t n, T* x) {                                                               \\
        Py_ssize_t j, done = VOLTA_TANHS_##S(n, x);                                                                 \\
        VOLTA_COLUMNS for (j = done; j < n; j++) x[j] = tanh_##S(x[j]);                                             \\
    }
    VOLTA_GATES(float, f32)
    VOLTA_GATES(double, f64)
    /* One row: x and y are what the input and the state give to the gates, h and c the state before, and then after. */
    #define VOLTA_RECURRENT(T, S)                                                                                   \\
    static void volta_lstm_##S(Py_ssize_t n, const T* VOLTA_R x, const T* VOLTA_R y, T* VOLTA_R h, T* VOLTA_R c,    \\
                               T* VOLTA_R out, T* VOLTA_R saved) {                                                  \\
        Py_ssize_t j;                                                                                               \\
        VOLTA_COLUMNS for (j = 0; j < 4 * n; j++) saved[j] = x[j] + y[j];                                           \\
        volta_sigmoids_##S(2 * n, saved);                                                                           \\
        volta_tanhs_##S(n, saved + 2 * n);                                                                          \\
        volta_sigmoids_##S(n, saved + 3 * n);                                                                       \\
        VOLTA_COLUMNS for (j = 0; j < n; j++) {                                                                     \\
            saved[5 * n + j] = c[j];                                                                                \\
            saved[6 * n + j] = h[j];                                                                                \\
            saved[4 * n + j] = c[j] = saved[n + j] * c[j] + saved[j] * saved[2 * n + j];                            \\
        }                                                                                                           \\
        volta_tanhs_##S(n, saved + 4 * n);                                                                          \\
        VOLTA_COLUMNS for (j = 0; j < n; j++) out[j] = h[j] = saved[3 * n + j] * saved[4 * n + j];                  \\
    }                                                                                                               \\
    static void volta_gru_##S(Py_ssize_t n, const T* VOLTA_R x, const T* VOLTA_R y, T* VOLTA_R h, T* VOLTA_R out,   \\
                              T* VOLTA_R saved) {                                                                   \\
        Py_ssize_t j;                                                                                               \\
        VOLTA_COLUMNS for (j = 0; j < 2 * n; j++) saved[j] = x[j] + y[j];                                           \\
        volta_sigmoids_##S(2 * n, saved);                                                                           \\
        VOLTA_COLUMNS for (j = 0; j < n; j++) {                                                                     \\
            T v = y[2 * n + j];                                                                                     \\
            saved[2 * n + j] = x[2 * n + j] + saved[j] * v;                                                         \\
            saved[3 * n + j] = v;                                                                                   \\
            saved[4 * n + j] = h[j];                                                                                \\
        }                                                                                                           \\
        volta_tanhs_##S(n, saved + 2 * n);                                                                          \\
        VOLTA_COLUMNS for (j = 0; j < n; j++) {                                                                     \\
            T m = saved[2 * n + j];                                                                                 \\
            out[j] = h[j] = m + saved[n + j] * (h[j] - m);                                                          \\
        }                                                                                                           \\
    }                                                                                                               \\
    static void volta_plain_##S(Py_ssize_t n, const T* VOLTA_R x, const T* VOLTA_R y, T* VOLTA_R h, T* VOLTA_R out, \\
                                T* VOLTA_R saved, int relu) {                                                       \\
        Py_ssize_t j, done;                                                                                         \\
        if (relu) {                                      /* a loop of its own, or GCC makes no vectors of it */       \\
            VOLTA_COLUMNS for (j = 0; j < n; j++) {                                                                 \\
                T v = x[j] + y[j];                                                                                  \\
                saved[n + j] = h[j];                                                                                \\
                out[j] = h[j] = saved[j] = v < 0 ? 0 : v;                                                           \\
            }                                                                                                       \\
        } else {                                                                                                    \\
            VOLTA_COLUMNS for (j = 0; j < n; j++) {                                                                 \\
                saved[n + j] = h[j];                                                                                \\
                h[j] = x[j] + y[j];                                                                                 \\
            }                                                                                                       \\
            done = VOLTA_TANHS_##S(n, h);                                                                           \\
            VOLTA_COLUMNS for (j = 0; j < done; j++) out[j] = saved[j] = h[j];                                      \\
            VOLTA_COLUMNS for (j = done; j < n; j++) out[j] = h[j] = saved[j] = tanh_##S(h[j]);                     \\
        }                                                                                                           \\
    }                                                                                                               \\
    /* One row: dh is the gradient of the state; dc that of the cell, or what goes to the state before directly. */ \\
    static void volta_lstm_grad_##S(Py_ssize_t n, const T* VOLTA_R saved, const T* VOLTA_R dh, T* VOLTA_R dc,       \\
                                    T* VOLTA_R dx) {                                                                \\
        Py_ssize_t j;                                                                                               \\
        VOLTA_COLUMNS for (j = 0; j < n; j++) {                                                                     \\
            T i = saved[j], f = saved[n + j], g = saved[2 * n + j], o = saved[3 * n + j], t = saved[4 * n + j];     \\
            T d = dc[j] + dh[j] * o * (1 - t * t);                                                                  \\
            dx[j] = d * g * i * (1 - i);                                                                            \\
            dx[n + j] = d * saved[5 * n + j] * f * (1 - f);                                                         \\
            dx[2 * n + j] = d * i * (1 - g * g);                                                                    \\
            dx[3 * n + j] = dh[j] * t * o * (1 - o);                                                                \\
            dc[j] = d * f;                                                                                          \\
        }                                                                                                           \\
    }                                                                                                               \\
    static void volta_gru_grad_##S(Py_ssize_t n, const T* VOLTA_R saved, const T* VOLTA_R dh, T* VOLTA_R dc,        \\
                                   T* VOLTA_R dx, T* VOLTA_R dy) {                                                  \\
        Py_ssize_t j;                                                                                               \\
        VOLTA_COLUMNS for (j = 0; j < n; j++) {                                                                     \\
            T r = saved[j], z = saved[n + j], m = saved[2 * n + j];                                                 \\
            T d = dh[j] * (1 - z) * (1 - m * m);                                                                    \\
            dy[j] = dx[j] = d * saved[3 * n + j] * r * (1 - r);                                                     \\
            dy[n + j] = dx[n + j] = dh[j] * (saved[4 * n + j] - m) * z * (1 - z);                                   \\
            dx[2 * n + j] = d;                                                                                      \\
            dy[2 * n + j] = d * r;                                                                                  \\
            dc[j] = dh[j] * z;                                                                                      \\
        }                                                                                                           \\
    }                                                                                                               \\
    static void volta_plain_grad_##S(Py_ssize_t n, const T* VOLTA_R saved, const T* VOLTA_R dh, T* VOLTA_R dx,      \\
                                     int relu) {                                                                    \\
        Py_ssize_t j;                                                                                               \\
        VOLTA_COLUMNS for (j = 0; j < n; j++)                                                                       \\
            dx[j] = relu ? (saved[j] <= 0 ? 0 : dh[j]) : dh[j] * (1 - saved[j] * saved[j]);                         \\
    }                                                                                                               \\
    static void volta_row_add_##S(Py_ssize_t n, const T* VOLTA_R x, T* VOLTA_R out) {                               \\
        Py_ssize_t j;                                                                                               \\
        VOLTA_COLUMNS for (j = 0; j < n; j++) out[j] += x[j];                                                       \\
    }
    VOLTA_RECURRENT(float, f32)
    VOLTA_RECURRENT(double, f64)
    """
    void lstm32 "volta_lstm_f32"(Py_ssize_t, const float*, const float*, float*, float*, float*, float*) noexcept nogil
    void lstm64 "volta_lstm_f64"(Py_ssize_t, const double*, const double*, double*, double*, double*, double*) noexcept nogil
    void gru32 "volta_gru_f32"(Py_ssize_t, const float*, const float*, float*, float*, float*) noexcept nogil
    void gru64 "volta_gru_f64"(Py_ssize_t, const double*, const double*, double*, double*, double*) noexcept nogil
    void plain32 "volta_plain_f32"(Py_ssize_t, const float*, const float*, float*, float*, float*, int) noexcept nogil
    void plain64 "volta_plain_f64"(Py_ssize_t, const double*, const double*, double*, double*, double*, int) noexcept nogil
    void lstm_grad32 "volta_lstm_grad_f32"(Py_ssize_t, const float*, const float*, float*, float*) noexcept nogil
    void lstm_grad64 "volta_lstm_grad_f64"(Py_ssize_t, const double*, const double*, double*, double*) noexcept nogil
    void gru_grad32 "volta_gru_grad_f32"(Py_ssize_t, const float*, const float*, float*, float*, float*) noexcept nogil
    void gru_grad64 "volta_gru_grad_f64"(Py_ssize_t, const double*, const double*, double*, double*, double*) noexcept nogil
    void plain_grad32 "volta_plain_grad_f32"(Py_ssize_t, const float*, const float*, float*, int) noexcept nogil
    void plain_grad64 "volta_plain_grad_f64"(Py_ssize_t, const double*, const double*, double*, int) noexcept nogil
    void row_add32 "volta_row_add_f32"(Py_ssize_t, const float*, float*) noexcept nogil
    void row_add64 "volta_row_add_f64"(Py_ssize_t, const double*, double*) noexcept nogil

cdef enum:
    FETCH = 192                             # bytes that the tiles of multiply.pyx fetch at a time

cdef enum Mode:
    LSTM
    GRU
    TANH
    RELU

cdef dict MODES = {"lstm": LSTM, "gru": GRU, "tanh": TANH, "relu": RELU}

cdef struct Shape:
    int mode
    Py_ssize_t total, batch, size, gates, saved     # rows of all steps; gates and saved: columns of a row
    Py_ssize_t count                        # steps, in the order of computation
    Py_ssize_t* first                       # of each, its first row,
    Py_ssize_t* rows                        # and the number of its rows


cdef Storage describe(Shape* p, TensorBase weight, str mode, tuple batch_sizes, bint reverse):
    """Fill in the geometry. OUT: what holds the steps."""
    cdef Py_ssize_t s, at, row = 0
    p.mode, p.size, p.gates, p.batch, p.count = MODES[mode], weight.shape[1], weight.shape[0], batch_sizes[0], len(batch_sizes)
    p.saved = p.size * (7 if p.mode == LSTM else 5 if p.mode == GRU else 2)
    cdef Storage held = host_storage(2 * p.count * sizeof(Py_ssize_t))
    p.first = <Py_ssize_t*>held.data
    p.rows = p.first + p.count
    for s in range(p.count):
        at = p.count - 1 - s if reverse else s
        p.first[at], p.rows[at] = row, batch_sizes[s]
        row += p.rows[at]
    p.total = row
    return held


cdef struct Product:
    Py_ssize_t n, k, vectors, panels


cdef Product product(Py_ssize_t n, Py_ssize_t k, real* kind) noexcept nogil:
    cdef Product q
    q.n, q.k, q.vectors = n, k, (n + lanes(kind) - 1) // lanes(kind)
    q.panels = (q.vectors + 2) // 3
    return q


cdef inline Py_ssize_t panel_start(const Product* q, Py_ssize_t panel, real* kind) noexcept nogil:
    """First column of a panel: each has two or three vectors, as a single one would take longer."""
    return q.vectors * panel // q.panels * lanes(kind)


cdef void pack_all(const Product* q, const real* b, Py_ssize_t b_row, Py_ssize_t b_column, real* out) noexcept nogil:
    """b[k, n] as panels."""
    cdef Py_ssize_t panel, first, last
    for panel in range(q.panels):
        first, last = panel_start(q, panel, out), panel_start(q, panel + 1, out)
        pack(min(last, q.n) - first, last - first, q.k, b + first * b_column, b_column, b_row, out + first * q.k)


cdef void product_of(const Product* q, Py_ssize_t rows, const real* a, const real* panels, const real* bias, real* out, const real* x,
                     Py_ssize_t x_size, const real* y, Py_ssize_t y_size) noexcept nogil:
    """out[rows, n] = a[rows, k] @ b + bias. Meanwhile the caches fetch x and y, which are used next: each tile its share of them."""
    cdef Py_ssize_t tiles = (rows + TILE_ROWS - 1) // TILE_ROWS, panel, tile, first, last, i, at = 0
    cdef Py_ssize_t step = FETCH // sizeof(real), fetches = (x_size + y_size) // (step * tiles * q.panels) + 1
    cdef Py_ssize_t stretch = max(q.k // fetches // 4 * 4, 4)
    cdef const real* next
    for panel in range(q.panels):
        first, last = panel_start(q, panel, out), panel_start(q, panel + 1, out)
        for tile in range(tiles):
            i = rows * tile // tiles
            next = x + at if at < x_size else y + (at - x_size)
            multiply_ahead(q.k, a + i * q.k, q.k, 1, <int>(rows * (tile + 1) // tiles - i), panels + first * q.k, last - first, next,
                           step, stretch, out + i * q.n + first, q.n, <int>(min(last, q.n) - first),
                           bias + first if bias != NULL else bias, False, <real*>NULL, True)
            at += fetches * step


# ---------------------------------------------------------------- forward

cdef void step(Shape* p, const real* x, const real* y, real* h, real* c, real* out, real* saved) noexcept nogil:
    if real is float:
        if p.mode == LSTM:
            lstm32(p.size, x, y, h, c, out, saved)
        elif p.mode == GRU:
            gru32(p.size, x, y, h, out, saved)
        else:
            plain32(p.size, x, y, h, out, saved, p.mode == RELU)
    else:
        if p.mode == LSTM:
            lstm64(p.size, x, y, h, c, out, saved)
        elif p.mode == GRU:
            gru64(p.size, x, y, h, out, saved)
        else:
            plain64(p.size, x, y, h, out, saved, p.mode == RELU)


cdef void forward_rows(Shape* p, const Product* q, Py_ssize_t start, Py_ssize_t stop, const real* x, const real* panels, const real* bias,
                       real* h, real* c, real* out, real* saved, real* y) noexcept nogil:
    """All steps of the sequences start .. stop. IN, OUT: their states h and c."""
    cdef Py_ssize_t s, b, last, at
    for s in range(p.count):
        last = min(stop, p.rows[s])
        if last <= start:
            continue
        at = p.first[s] + start
        product_of(q, last - start, <const real*>h + start * p.size, panels, bias, y + start * p.gates, <const real*>saved + at * p.saved,
                   (last - start) * p.saved, x + at * p.gates, (last - start) * p.gates)
        for b in range(start, last):
            at = p.first[s] + b
            step(p, x + at * p.gates, <const real*>y + b * p.gates, h + b * p.size, c + b * p.size, out + at * p.size,
                 saved + at * p.saved)


cdef void forward(Shape* p, const real* x, const real* weight, const real* bias, real* h, real* c, real* out, real* saved):
    cdef Product q = product(p.gates, p.size, out)
    cdef Py_ssize_t packed = q.vectors * lanes(out) * p.size
    cdef int threads = gemm_threads(p.total, p.gates, p.size), t
    cdef Storage held = host_storage((packed + p.batch * p.gates) * sizeof(real))
    cdef real* panels = <real*>held.data
    cdef real* y = panels + packed
    with nogil:
        pack_all(&q, weight, 1, p.size, panels)
        for t in prange(threads, num_threads=threads, schedule="static"):
            forward_rows(p, &q, p.batch * t // threads, p.batch * (t + 1) // threads, x, <const real*>panels, bias, h, c, out, saved, y)


cdef TensorBase state_of(TensorBase given, tuple shape, TensorBase like):
    """A new tensor with the values given, or zeros."""
    cdef TensorBase out = empty_host(shape, like.dtype)
    given = packed(given)
    if given is None:
        memset(address(out), 0, out.size * out.dtype.itemsize)
    else:
        memcpy(address(out), address(given), out.size * out.dtype.itemsize)
    return out


def recurrent(TensorBase x not None, TensorBase weight not None, TensorBase bias, TensorBase h0, TensorBase c0, *, mode, batch_sizes,
              reverse):
    """(out, hidden, cell, saved)"""
    cdef Shape p
    cdef int code = float_code("recurrent", x, weight, bias, h0, c0)
    cdef Storage held = describe(&p, weight, mode, batch_sizes, reverse)
    x, weight, bias = packed(x), packed(weight), packed(bias)
    cdef TensorBase h = state_of(h0, (p.batch, p.size), x), c = state_of(c0, (p.batch if p.mode == LSTM else 0, p.size), x)
    cdef TensorBase out = empty_host((x.shape[0], p.size), x.dtype), saved = empty_host((x.shape[0], p.saved), x.dtype)
    if out.size == 0:
        pass
    elif code == FLOAT32:
        forward(&p, <const float*>address(x), <const float*>address(weight), <const float*>pointer(bias), <float*>address(h),
                <float*>address(c), <float*>address(out), <float*>address(saved))
    else:
        forward(&p, <const double*>address(x), <const double*>address(weight), <const double*>pointer(bias), <double*>address(h),
                <double*>address(c), <double*>address(out), <double*>address(saved))
    return out, h, c, saved


# ---------------------------------------------------------------- gradient

cdef void add_row(Py_ssize_t n, const real* x, real* out) noexcept nogil:
    if real is float:
        row_add32(n, x, out)
    else:
        row_add64(n, x, out)


cdef void step_grad(Shape* p, const real* saved, const real* dh, real* dc, real* dx, real* dy) noexcept nogil:
    if real is float:
        if p.mode == LSTM:
            lstm_grad32(p.size, saved, dh, dc, dx)
        elif p.mode == GRU:
            gru_grad32(p.size, saved, dh, dc, dx, dy)
        else:
            plain_grad32(p.size, saved, dh, dx, p.mode == RELU)
    else:
        if p.mode == LSTM:
            lstm_grad64(p.size, saved, dh, dc, dx)
        elif p.mode == GRU:
            gru_grad64(p.size, saved, dh, dc, dx, dy)
        else:
            plain_grad64(p.size, saved, dh, dx, p.mode == RELU)


cdef void backward_rows(Shape* p, const Product* q, Py_ssize_t start, Py_ssize_t stop, const real* panels, const real* saved, const real* g,
                        real* dh, real* dc, real* dx, real* dy) noexcept nogil:
    """All steps of the sequences start .. stop, the last one first. IN, OUT: the gradients of their states. dy is dx but of a GRU."""
    cdef Py_ssize_t s, b, last, at
    for s in range(p.count - 1, -1, -1):
        last = min(stop, p.rows[s])
        if last <= start:
            continue
        for b in range(start, last):
            at = p.first[s] + b
            if g != NULL:
                add_row(p.size, g + at * p.size, dh + b * p.size)
            step_grad(p, saved + at * p.saved, <const real*>dh + b * p.size, dc + b * p.size, dx + at * p.gates, dy + at * p.gates)
        at = p.first[max(s - 1, 0)] + start
        product_of(q, last - start, <const real*>dy + (p.first[s] + start) * p.gates, panels, <const real*>NULL, dh + start * p.size,
                   saved + at * p.saved, (last - start) * p.saved, <const real*>dx + at * p.gates, (last - start) * p.gates)
        if p.mode == GRU:
            add_row((last - start) * p.size, <const real*>dc + start * p.size, dh + start * p.size)


cdef void backward(Shape* p, const real* weight, const real* saved, const real* g, real* dh, real* dc, real* dx, real* dy):
    cdef Product q = product(p.size, p.gates, dx)
    cdef int threads = gemm_threads(p.total, p.gates, p.size), t
    cdef Storage held = host_storage(q.vectors * lanes(dx) * p.gates * sizeof(real))
    cdef real* panels = <real*>held.data
    with nogil:
        pack_all(&q, weight, p.size, 1, panels)
        for t in prange(threads, num_threads=threads, schedule="static"):
            backward_rows(p, &q, p.batch * t // threads, p.batch * (t + 1) // threads, <const real*>panels, saved, g, dh, dc, dx, dy)


def recurrent_grad(TensorBase x not None, TensorBase weight not None, TensorBase saved not None, TensorBase g_out, TensorBase g_hidden,
                   TensorBase g_cell, *, mode, batch_sizes, reverse):
    """(dx, dgates, dh0, dc0): dgates that of the state's part, empty where it is dx."""
    cdef Shape p
    cdef int code = float_code("recurrent_grad", x, weight, saved, g_out, g_hidden)
    same_type("recurrent_grad", x, g_cell)
    cdef Storage held = describe(&p, weight, mode, batch_sizes, reverse)
    weight, saved, g_out = packed(weight), packed(saved), packed(g_out)
    cdef TensorBase dh = state_of(g_hidden, (p.batch, p.size), x)
    cdef TensorBase dc = state_of(g_cell, (p.batch if p.mode < TANH else 0, p.size), x)
    cdef TensorBase dx = empty_host(x.shape, x.dtype), dy = empty_host((x.shape[0] if p.mode == GRU else 0, p.gates), x.dtype)
    cdef TensorBase of_state = dy if p.mode == GRU else dx
    if dx.size == 0:
        pass
    elif code == FLOAT32:
        backward(&p, <const float*>address(weight), <const float*>address(saved), <const float*>pointer(g_out), <float*>address(dh),
                 <float*>address(dc), <float*>address(dx), <float*>address(of_state))
    else:
        backward(&p, <const double*>address(weight), <const double*>address(saved), <const double*>pointer(g_out), <double*>address(dh),
                 <double*>address(dc), <double*>address(dx), <double*>address(of_state))
    return dx, dy, dh, dc if p.mode == LSTM else empty_host((0, p.size), x.dtype)


KERNELS = {"recurrent": recurrent, "recurrent_grad": recurrent_grad}
