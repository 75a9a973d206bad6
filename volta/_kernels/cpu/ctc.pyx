# Connectionist temporal classification: the logarithms of the probabilities of all alignments' beginnings and ends, step by step.
#
# Layout: log-probabilities [T, N, C] made contiguous, states [N, T, 2 S + 1] of blank, label, blank, label, ..., blank; what no alignment
# meets is -inf. Threads: over the sequences. Sizes, lengths and labels: the front end; labels and lengths are clamped here all the same.

from cython.parallel cimport prange
from libc.math cimport INFINITY, NAN
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.doubles cimport exp_f64, log_f64
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.scalar cimport exp_f32, log_f32
from volta._kernels.cpu.sums cimport exp_of, line_exp

cdef enum:
    EDGE = 2                    # states that are never met, before a row and behind it,
    ROOM = 16                   # whose length is a multiple of this
    CELL_COST = 16              # of a state at a step, against an element of a cheap loop

cdef struct Sizes:
    Py_ssize_t steps, batch, classes, most, width, room     # room: for the states of a row
    int64_t blank


cdef inline int64_t within(int64_t x, int64_t last) noexcept nogil:
    return 0 if x < 0 else last if x > last else x


cdef void join_ways(const real* own, const real* near, const real* far, const real* shut, Py_ssize_t n, real* out) noexcept nogil:
    """The logarithm of the sum of exponentials of a state, its neighbour and, unless `shut`, the one behind that."""
    cdef Py_ssize_t i
    cdef real a, b, c, most
    for i in range(n):
        a, b, c = own[i], near[i], far[i]       # before any is chosen: vectors are made of that
        c = c if shut[i] == 0 else <real>-INFINITY
        most = b if b > a else a
        most = c if c > most else most
        most = most if most > <real>-INFINITY else 0            # NaN stays in its term
        if real is float:                       # a call that is not inlined would keep the loop scalar
            out[i] = most + log_f32(exp_f32(a - most) + exp_f32(b - most) + exp_f32(c - most))
        else:
            out[i] = most + log_f64(exp_f64(a - most) + exp_f64(b - most) + exp_f64(c - most))


cdef Py_ssize_t begin(const Sizes* p, const int64_t* labels, int64_t length, int64_t* states, real* second) noexcept nogil:
    """The class of each state, and 0 for those that may follow the second one before them. Gives how many states there are."""
    cdef Py_ssize_t s, count = 2 * within(length, p.most) + 1
    for s in range(count):
        states[s] = within(labels[s // 2], p.classes - 1) if s % 2 else p.blank
        second[s] = 0 if s >= 2 and states[s] != states[s - 2] else 1
    for s in range(count, p.room):
        second[s] = 1
    return count


cdef inline void clear_row(real* row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        row[i] = <real>-INFINITY


cdef void forward_one(const Sizes* p, const real* x, const int64_t* labels, int64_t used, int64_t length, real* loss, real* alphas,
                      real* space) noexcept nogil:
    """IN: x of the sequence; space for four rows, of which one takes the classes of states."""
    cdef real* second = space
    cdef real* row = second + p.room
    cdef real* found = row + p.room
    cdef int64_t* states = <int64_t*>(found + p.room)
    cdef Py_ssize_t count = begin(p, labels, length, states, second), t, s
    cdef real* out
    cdef real total = <real>-INFINITY
    clear_row(row, p.room)
    row += EDGE
    clear_row(alphas, p.steps * p.width)
    for t in range(used):
        out = alphas + t * p.width
        if t == 0:
            for s in range(min(count, <Py_ssize_t>2)):
                row[s] = out[s] = x[states[s]]
        else:
            join_ways(row, row - 1, row - 2, second, (count + ROOM - 1) // ROOM * ROOM, found)
            for s in range(count):
                row[s] = out[s] = found[s] + x[states[s]]
        x += p.batch * p.classes
    if used > 0:
        second[0] = 1                           # of the last two
        join_ways(row + count - 1, row + count - 2, row, second, 1, &total)
    elif count == 1:
        total = 0
    loss[0] = -total


cdef void backward_one(const Sizes* p, real g, const real* x, const int64_t* labels, int64_t used, int64_t length, real loss,
                       const real* alphas, real* out, real* space) noexcept nogil:
    """The slope of each step's probabilities, as log_softmax takes them out again, less how probable each class is in alignments."""
    cdef real* second = space
    cdef real* row = second + p.room
    cdef real* betas = row + p.room
    cdef int64_t* states = <int64_t*>(betas + p.room)
    cdef Py_ssize_t count = begin(p, labels, length, states, second), stride = p.batch * p.classes, t, s, c
    cdef bint lost = loss != loss, never = loss == <real>INFINITY
    cdef real v
    for t in range(used, p.steps):
        memset(out + t * stride, 0, p.classes * sizeof(real))
    clear_row(row, p.room)
    for t in range(used - 1, -1, -1):
        if lost:
            for c in range(p.classes):
                out[t * stride + c] = <real>NAN
            continue
        line_exp(out + t * stride, x + t * stride, <real>0, p.classes)
        for c in range(p.classes):
            v = out[t * stride + c]
            out[t * stride + c] = g * v if v == v else 0
        if never:
            continue
        if t == used - 1:
            for s in range(count):
                betas[s] = 0 if s >= count - 2 else <real>-INFINITY
        else:
            join_ways(row, row + 1, row + 2, second + 2, (count + ROOM - 1) // ROOM * ROOM, betas)
        for s in range(count):
            v = alphas[t * p.width + s] + betas[s]
            if betas[s] > <real>-INFINITY and alphas[t * p.width + s] > <real>-INFINITY:
                out[t * stride + states[s]] -= g * exp_of[real](v + loss)
            row[s] = betas[s] + x[t * stride + states[s]] if betas[s] != <real>-INFINITY else betas[s]       # NaN there is not seen


cdef void run_some(const Sizes* p, const real* g, const real* x, const int64_t* labels, const int64_t* inputs, const int64_t* lengths,
                   real* loss, real* alphas, real* out, Py_ssize_t first, Py_ssize_t last, real* space) noexcept nogil:
    cdef Py_ssize_t n
    cdef int64_t used
    for n in range(first, last):
        used = within(inputs[n], p.steps)
        if out == NULL:
            forward_one(p, x + n * p.classes, labels + n * p.most, used, lengths[n], loss + n, alphas + n * p.steps * p.width, space)
        else:
            backward_one(p, g[n], x + n * p.classes, labels + n * p.most, used, lengths[n], loss[n], alphas + n * p.steps * p.width,
                         out + n * p.classes, space)


cdef void run_all(const Sizes* p, const real* g, const real* x, const int64_t* labels, const int64_t* inputs, const int64_t* lengths,
                  real* loss, real* alphas, real* out, int threads, char* space, Py_ssize_t each) noexcept nogil:
    cdef int t
    if threads == 1:
        run_some(p, g, x, labels, inputs, lengths, loss, alphas, out, 0, p.batch, <real*>space)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        run_some(p, g, x, labels, inputs, lengths, loss, alphas, out, p.batch * t // threads, p.batch * (t + 1) // threads,
                 <real*>(space + t * each))


cdef int run(TensorBase g, TensorBase x, TensorBase labels, TensorBase inputs, TensorBase lengths, TensorBase loss, TensorBase alphas,
             TensorBase out, int64_t blank) except -1:
    cdef Sizes p
    cdef int code = float_code("ctc", x)
    p.steps, p.batch, p.classes, p.most, p.blank = x.shape[0], x.shape[1], x.shape[2], labels.shape[1], blank
    p.width = 2 * p.most + 1
    p.room = (p.width + 2 * ROOM - 1) // ROOM * ROOM + 2 * EDGE
    x, labels, inputs, lengths = packed(x), packed(labels), packed(inputs), packed(lengths)
    cdef Py_ssize_t each = 4 * p.room * 8 // 64 * 64 + 64
    cdef int threads = threads_for(p.steps * p.batch * (p.width * CELL_COST + p.classes))
    cdef Storage memory = host_storage(each * threads)
    cdef void* slope = NULL if g is None else address(g)
    cdef void* target = NULL if out is None else address(out)
    cdef const int64_t* l = <const int64_t*>address(labels)
    cdef const int64_t* i = <const int64_t*>address(inputs)
    cdef const int64_t* n = <const int64_t*>address(lengths)
    cdef void* source = address(x)
    cdef void* found = address(loss)
    cdef void* states = address(alphas)
    with nogil:
        if code == FLOAT32:
            run_all(&p, <const float*>slope, <const float*>source, l, i, n, <float*>found, <float*>states, <float*>target, threads,
                    memory.data, each)
        else:
            run_all(&p, <const double*>slope, <const double*>source, l, i, n, <double*>found, <double*>states, <double*>target, threads,
                    memory.data, each)
    return 0


def ctc(TensorBase x not None, TensorBase labels not None, TensorBase inputs not None, TensorBase lengths not None, int64_t blank):
    """(the losses, the logarithms of the probabilities of the beginnings that end in each state at each step)."""
    cdef TensorBase loss = empty_host((x.shape[1],), x.dtype)
    cdef TensorBase alphas = empty_host((x.shape[1], x.shape[0], 2 * labels.shape[1] + 1), x.dtype)
    run(None, x, labels, inputs, lengths, loss, alphas, None, blank)
    return loss, alphas


def ctc_grad(TensorBase g not None, TensorBase x not None, TensorBase labels not None, TensorBase inputs not None,
             TensorBase lengths not None, TensorBase loss not None, TensorBase alphas not None, int64_t blank):
    """The gradient of x."""
    cdef TensorBase out = empty_host(x.shape, x.dtype)
    if out.size:
        run(packed(g), x, labels, inputs, lengths, packed(loss), packed(alphas), out, blank)
    return out


KERNELS = {"ctc": ctc, "ctc_grad": ctc_grad}
