"""The contract between the op records and the kernels of a device.

A backend is a module with a dict `KERNELS: name -> callable`. Every callable takes tensors of its device and returns
new tensors of it, with no graph (ARCHITECTURE.md, Kernels). The front end has normalised the arguments: `dim` values are
non-negative ints (tuples of them sorted and unique), shapes broadcast, dtypes agree, indices are int64, sizes fit.
Tensors may have any strides unless stated; outputs are contiguous. Kernels are called as their records are; one of which the record
says all is not told of here. Which of them take float16 stands in `HALF`, where they are bound; the others are given float32 (stored.py).
bfloat16 (on the CPU alone), int8 and int16 reach what copies and moves (`OWN`); the others are given float32 or int32.

chains       chain(a, b, c, d, e, f, chain, numbers)    elementwise records one after another (ops/records/chain.py); None for what it has not

elementwise  A tensor operand may be replaced by a Python number (at least one operand is a tensor). Tensor operands have one
             dtype (`where`: the condition is bool and may not be a number). Comparisons, is* and logical_* return bool.
    Their names, operands and formulas are those of the records of ops/records/math.py, special.py and activation.py; `x_grad` are derivatives of
    activations.
    Both devices take the same dtypes (float64 apart); `kernel.dtypes()` lists them. floor, ceil, round and trunc of integers copy.
    remainder, fmod, floor_divide, div_trunc of integers by 0: the number 0, and a whole int32 or int64 tensor from the host whose
    least or largest element is 0, raise ArgumentError; elsewhere the result is 0, since a look at what a GPU computed would be a transfer.
    The number operand takes the tensors' dtype. Every kernel object also has `into(out, *inputs)`, which writes its result
    into the existing tensor `out` (any strides; `out` may be one of the inputs exactly, and the kernel copes with any other
    overlap by copying first). `into` does not bump versions; the caller does.

movement     (views need no kernel)
    contiguous(x), clone(x)                       row-major copy, always a new tensor
    cast(x, dtype)                                C conversion as in PyTorch; bool is `!= 0`
    copy_into(out, x)                             out[...] = x: broadcast-free, same shape, dtypes may differ, any strides
    fill_into(out, value)                         any strides
    place(x, shape, starts, steps, value)         full(shape, value) with x written at starts + i * steps; steps >= 1
    cat(*tensors, dim)
    roll(x, shift, dim)                           moved by 0 <= shift <= size, what leaves at the end comes first
    triangle(x, diagonal, upper)                  zeros above a diagonal of the last two dimensions, with `upper` below it
    extend(x[planes, (depth, height,) width], outs, before, mode, value=0)     outs, before: of the last three dimensions; value: a GPU's alone, for `place`
    extend_grad(g[planes, *outs], size, before, mode)                size: x's

creation     full(shape, value, dtype, device)  arange(start, step, count, dtype, device, end)  empty(shape, dtype, device)
    uniform(shape, low, high, seed, offset, dtype, device)       Philox 4x32-10: see volta/random.py
    normal(shape, mean, std, seed, offset, dtype, device)        Box-Muller over the same bits
    randint(shape, low, high, seed, offset, dtype, device)
    shuffled(shape, low, high, seed, offset, dtype, device)      lines of low .. high - 1, each as a stable sort puts its words
transfer     upload(array: numpy array, dtype, device, out=None) -> tensor    download(x) -> numpy array (contiguous copy)

reduce       dim: tuple (never empty; all dims for a full reduction); keepdim: bool
    sum(x, dim, keepdim) mean(...) amax(...) amin(...) prod(...)   NaN wins in amax and amin; amax of 0 elements never comes
    argmax(x, dim: int, keepdim) argmin(...)                       int64; first of equal values; a NaN wins
    any(x, dim, keepdim) all(x, dim, keepdim)                      bool
    sum of bool and integers is int64

             norm2(x, dim, keepdim)                the square root of the sum of squares

moments      var(x, dim, keepdim, correction) -> (variance, mean)     dim: neighbouring dimensions; at least one element

linalg       matmul(a[..., M, K], b[..., K, N])    batch dims broadcast; both have rank >= 2
             linear(x[R, K], weight[N, K], bias[N] or None) -> [R, N]
             dot(a[K], b[K]) -> []

softmax      softmax(x, dim: int) log_softmax(x, dim) softmax_grad(g, out, dim) log_softmax_grad(g, out, dim)
             logsumexp(x, dim)                     without dim

index        gather(x, index, dim)                 as torch.gather; same rank
             scatter_add(g, index, dim, size)      zeros with `size` along dim, g added at index: gather's derivative; fixed order
             scatter_sum(x, src, index, dim)       x, and what scatter_add makes of src, added
             scatter_reduce(x, src, index, dim, reduce)    x combined with src at index: "prod", "amax", "amin"; "last": overwritten
             index_select(x, index[n], dim)        rows of x
             one_hot(index, classes)               [*index.shape, classes], int64: 1 at the place that each index names, else 0
             index_add(g, index[n], dim, size)     zeros with `size` along dim, slices of g added: index_select's derivative
             index_sum(x, src, index[n], dim)      x, and what index_add makes of src, added
             index_add_into(out, g, index[n], dim) in place: slices of g added to those of out
             scatter_add_into(out, g, index, dim)  in place: g added to what is at index
             scatter_reduce_into(out, src, index, dim, reduce)     in place: what scatter_reduce gives; but for "last" one index[n] may
                                                   serve all slices along dim
             index_put(out, index[n], values, rank, unique=False)    in place: out[i] = values[k], i = index[k] counting the places of the
                                                   first `rank` dims of out; the last k for an i wins; values: (n, *out.shape[rank:]) or
                                                   one element for all; `unique`: no i is named twice
             Indices are in range as far as the host knows (it sees its own data and the extremes of what it uploaded); a GPU kernel
             clamps them all the same, and cross_entropy and nll give NaN for a label outside the classes.

bag          bag_sum(weight[r, m], index[n], offsets int64 or None, scales[n] or None, bags, padding, mean)   [bags, m]: of each bag the
                                                   sum, or mean, of the rows that it names, times their scales, but for row `padding`
                                                   (-1: none); from its offset to the next or the end, else n / bags of them
             bag_max(weight, index, offsets, bags, padding) -> out, taken int64     likewise the largest in each column, and the row that
                                                   it is of, the first of equal ones; a first NaN stays; of none 0 and -1

scan         cumsum(x, dim) cumprod(x, dim) logcumsumexp(x, dim)    integers and bool give int64
             recurrence(a, b, dim)                                  y[i] = a[i] * y[i - 1] + b[i], from y[0] = b[0] on
             cummax(x, dim) cummin(x, dim) -> values, indices int64  and where the extreme is; the last of equal ones; NaN wins

sort         sort(x, dim, descending=False, count=None) -> (values, indices)     stable; NaN is beyond all numbers; the first `count`
             scatter_unique(g, index, dim, size)   zeros with `size` along dim, g at index, which names no place of a line twice
             median_all(x, skip=False)               of all elements
             middle(x, dim, skip=False, place=None) -> (values, indices)     of each line the median, with `skip` of what is no NaN, or
                                                   what a sort puts at a place
             longest_run(x, dim)                   int64: of each sorted line where its longest run of equal elements ends, the first of
                                                   several; a NaN equals none
             searchsorted(sorted, values, right=False)      int64; one sorted vector for all values, or a line for each of their lines

places       changes(x[n])                         bool[n]: whether each element, the first too, differs from the one before it
             true_starts(x[n], block, changes, running)   int64 (blocks): how many of each block are not 0, or with `changes` differ from
                                                   the one before; running: (blocks + 1), how many before each block, and of all
             counts(x[n], low[1], high[1], bins, between)   int64: how many lie in each of equal parts of [low, high], numbers where
                                                   `between` gives them; without either: are each integer
             true_places(x[n], starts, block, sizes, count, changes, running) int64 (rank, count): where they are along the dimensions
                                                   of `sizes`, in order
             true_values(x[n], mask[n], starts, block, count, changes, running)   [count]: the elements of x where these of `mask` are

conv         stride, padding, dilation: (height, width) tuples; groups: int; layouts N, C, H, W and O, C/groups, kh, kw
             conv2d(x, weight, bias or None, stride, padding, dilation, groups)
             conv3d(x, weight, bias or None, stride, padding, dilation, groups)      volumes: depth before height and width
             conv2d_grad_input(g, weight, height, width, stride, padding, dilation, groups)
             conv2d_grad_weight(g, x, kernel: (kh, kw), stride, padding, dilation, groups)
             conv3d_grad_input(g, weight, size, stride, padding, dilation, groups)        size: x's depth, height and width
             conv3d_grad_weight(g, x, kernel, stride, padding, dilation, groups)

fold         columns(x, kernel, stride, padding, dilation)   [N, C * kh * kw, windows]: the windows of images, one a column
             fold(x, size, kernel, stride, padding, dilation)   [N, C, *size]: such columns added where they were

resample     windowed(x, places[K, L], weights[K, L], dim)   along dim, L sums over k of weights[k, j] times the element at places[k, j]
             windowed_grad(g, places, weights, size, dim)   its transpose for an x of this size; windows go on from places[0] to
                                                   places[-1], which may be repeated, and both grow along L
             windowed_bytes(x, places, weights, dim, bits)   of uint8, by int32 weights times 2**bits; rounded up from the half, from 0
                                                   to 255

unit         unit(x, dim: int, eps) -> (out, size)       x divided by its length along dim, or by eps where that is more; the lengths
             unit_grad(g, x, size, dim, eps)             of x
             cosine(a, b, eps) -> (out, aa, bb)          of rows: a.b / sqrt(aa * bb), with aa = a.a + eps and bb likewise
             cosine_grad(g, a, b, cosine, aa, bb, eps)   of a

distance     distances(x1[b, n, m], x2[b, r, m] or None, p)   [b, n, r]: norms of what rows differ by; without x2 [b, n (n - 1) / 2],
                                                      of the rows (0, 1), (0, 2), ..., (1, 2), ... of x1
             distances_grad(g, x1, x2 or None, size, p)       of x1, by g, that of the distances `size`; 0 where these are

pool         size, kernel, stride, padding, dilation: a number for each of one to three dimensions; kernel None: adaptive windows
             max_pool(x[N, C, ...], size, kernel, stride, padding, dilation) -> (out, index)   size is the output's; index int64 into a
                                                                          plane; the first maximum wins, the last NaN wins over all;
                                                                          -1 of a window of padding alone
             max_pool_values(x, size, kernel, stride, padding, dilation)   without the index
             max_pool_grad(g, index, size, kernel, stride, padding, dilation)   size is the input's; fixed summing order
             fractional_max_pool(x[planes, ...], samples[planes, rank], size, kernel) -> (out, index)   windows at steps that the samples
                                                                          shift, of two the width's first
             avg_pool(x, size, kernel, stride, padding, count_padding, divisor)   divisor None: the elements of the window
             avg_pool_grad(g, size, kernel, stride, padding, count_padding, divisor)

norm         batch_norm(x[N, C, ...], weight[C] or None, bias[C] or None, eps) -> (out, mean[C], rstd[C])   biased variance
             batch_norm_given(x, mean[C] or None, var[C], weight[C] or None, bias[C] or None, eps)    by statistics that are there
             batch_norm_grad(g, x, weight or None, mean, rstd) -> (dx, dweight[C], dbias[C])
             batch_norm_given_grad(g, x, weight or None, mean, var, eps) -> likewise
             batch_norm_update(running_mean, running_var, mean, rstd, momentum, eps, count)    in place; unbiased variance
             row_norm(x, weight or None, bias or None, length, groups, inner, centred, eps) -> (out, mean[rows], rstd[rows])   rows of
                                                                          `length` elements, at least one; see ops/records/row_norm.py
             row_norm_grad(g, x, weight or None, mean, rstd, arrived or None, length, groups, inner, centred, sums) -> (dx, dweight, dbias)
                                                                          `arrived` is added to dx; the last two are vectors, empty without
                                                                          `sums`

attention    attention(q[B, H, L, E], k[B, G, S, E], v[B, G, S, V], mask or None, causal, scale) -> (out[B, H, L, V], stats[B, H, L, 2])
             G divides H; mask[B or 1, H or 1, L or 1, S or 1] is added; causal: query i sees keys 0 .. i; a row of no key is 0, its stats
             (+inf, 0); out lies as [B, L, H, V] in memory, on the CPU as q does
             attention_grad(g, q, k, v, mask, out, stats, causal, scale) -> (dq, dk, dv)
             attention_slopes(g, q, k, v, mask, out, stats, causal, scale) -> [B, H, L, S]     the gradient of the scores

recurrent    recurrent(x[R, gates * H], weight[gates * H, H], bias or None, h0[B, H] or None, c0[B, H] or None, mode, batch_sizes, reverse) ->
                 (out[R, H], hidden[B, H], cell[B, H], saved)      R rows of all steps; see ops/records/recurrent.py; no cell: (0, H)
             recurrent_grad(x, weight, saved, g_out or None, g_hidden or None, g_cell or None, mode, batch_sizes, reverse)
                 -> (dx, dgates, dh0, dc0)
                 dgates: of a GRU alone, where the state's part has its own

loss         cross_entropy(x[N, C], target[N], ignore_index, smoothing) -> loss[N]     0 where target == ignore_index
             cross_entropy_softmax(x, target, ignore_index, smoothing) -> (loss[N], softmax[N, C] of x)
             cross_entropy_grad(g[N], softmax, target, ignore_index, smoothing) -> [N, C]
             nll(x[N, C, ...], target[N, ...], weight[C] | None, ignore_index, reduction, picked) -> (loss, total)
                                                   -x of each label, times its weight; picked: x[N, ...] is that itself, without the sign;
                                                   total: of a mean, the sum of the weights that count, (1,), else (0,)
             nll_grad(g, target, weight, total, shape, ignore_index, reduction, picked) -> x's gradient, of this shape
             multi_margin(x[N, C], target[N], weight[C] | None, p, margin) -> loss[N]
             multi_margin_grad(g[N], x, target, weight, p, margin) -> [N, C]

ctc          ctc(x[T, N, C], labels[N, S], inputs[N], lengths[N], blank) -> (loss[N], alphas[N, T, 2 S + 1])      x, out: logarithms; S > 0
             ctc_grad(g[N], x, labels, inputs, lengths, loss, alphas, blank) -> x's gradient

random       draw_into(out, kind, a, b, seed, offset)   in place: by its kind what uniform or normal give, a and b being their numbers;
                                                   "bernoulli": 1 with probability a, else 0; "exponential": a ln(1 - u);
                                                   "geometric", "cauchy", "log_normal", "integers" and "chances": Draw in random.pyx
             dropout(x, p, seed, offset)           x * mask / (1 - p), the mask from Philox(seed, offset) bits of each element

update       in place, one pass over lists of parameters, gradients and states of any shapes, all of one dtype; as few dispatches as
             the device allows. Generated from `ops/records/update.py`, which says which lists (None for a state that is not in use),
             factors and flags each takes: sgd, adam, rmsprop, ...; clip_norm, clip_value, scale_grads of gradients
             total_norm(*tensors, order)           the norm of all elements, order not 0, as a tensor without dimensions
"""
