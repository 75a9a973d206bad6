// attention: softmax(scale * q @ k.T + mask) @ v per head, and its gradients, in tiles that never leave the workgroup.
//
// PASS 0 makes out and logsumexp, 1 the gradient of q, 2 those of k and v. A workgroup owns TILE_R rows (queries; in pass 2 keys)
// and walks the columns (keys; in pass 2 queries, of all heads that share the keys) TILE_C at a time:
//   cells  = first rows @ first columns.T     q k.T, in pass 2 k q.T; then the probabilities
//   slopes = second rows @ second columns.T   g v.T, in pass 2 v g.T; then the gradients of the scores
//   first  += cells @ second columns          out, dv
//   second += slopes @ first columns          dq, dk
//
// Bindings: 0 q[B, L, H, 4 W1], 1 k[B, S, G, 4 W1], 2 v[B, S, G, 4 W2], 3 mask[B, H, L, S], 4 g[B, L, H, 4 W2] (any strides, in V's;
//           of mask in elements), 5 stats[B, H, L] = (log2 of the sum, delta), all read; 6 first, 7 second (read_write; pass 0: out and
//           logsumexp, 1: spare and dq, 2: dv and dk). What a pass does not use may be any buffer.
// Launch:   x = pairs * tiles workgroups of LANES_X * LANES_Y, the longest rows of a causal mask first.
// Sums:     in f32, in a fixed order; exponentials are of base 2. A row without any key gives zeros, and logsumexp +inf.
//
// Neighbouring lanes share x and lanes two apart y, so that most reads of a warp are broadcasts. Thread (x, y) owns rows y, y + LANES_Y, ... and columns x, x + LANES_X, ...: its products read whole V's of both operands, whose
// lines in workgroup memory are one V longer than needed so that neighbours fall into different banks. Probabilities go
// through workgroup memory in the order of the threads that made them, and second columns are read in that order, too.

const PASS: u32 = 0u;
const CAUSAL: bool = false;
const HAS_MASK: bool = false;
const W1: u32 = 16u;            // V's of a line of q and k
const W2: u32 = 16u;            // and of v
const TILE_R: u32 = 64u;
const TILE_C: u32 = 64u;
const LANES_X: u32 = 8u;
const LANES_Y: u32 = 8u;
const STEP: u32 = 8u;           // V's of a line that are multiplied between two barriers
const DEPTH: u32 = 32u;         // and columns, when cells are multiplied

alias V = vec4<f32>;
alias O = vec4<f32>;            // of `second`
fn put(i: u32, v: V) { second[i] = v; }

const TURNED: bool = PASS == 2u;
const THREADS: u32 = LANES_X * LANES_Y;
const ROWS: u32 = TILE_R / LANES_Y;
const COLS: u32 = TILE_C / LANES_X;
const WIDE: u32 = (max(W1, W2) + LANES_X - 1u) / LANES_X;           // V's of a line of a result that a thread owns
const LINE: u32 = WIDE * LANES_X;
const ROW_UNITS: u32 = TILE_R * STEP / THREADS;                     // V's that a thread fetches: whole numbers
const COLUMN_UNITS: u32 = TILE_C * STEP / THREADS;
const DEPTH_UNITS: u32 = (DEPTH * max(W1, W2) + THREADS - 1u) / THREADS;
const FACTORS: u32 = TILE_C / 4u + 1u;
const LEFT: u32 = TILE_R * max(STEP + 1u, FACTORS);
const RIGHT: u32 = max(TILE_C * (STEP + 1u), DEPTH * LINE);

struct Params {
    q_offset: u32, q_batch: u32, q_row: u32, q_head: u32,
    k_offset: u32, k_batch: u32, k_row: u32, k_head: u32,
    v_offset: u32, v_batch: u32, v_row: u32, v_head: u32,
    g_offset: u32, g_batch: u32, g_row: u32, g_head: u32,
    mask_offset: u32, mask_batch: u32, mask_head: u32, mask_row: u32,
    mask_column: u32, heads: u32, groups: u32, queries: u32,
    keys: u32, pairs: u32, tiles: u32, scale: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> q: array<V>;
@group(0) @binding(1) var<storage, read> k: array<V>;
@group(0) @binding(2) var<storage, read> v: array<V>;
@group(0) @binding(3) var<storage, read> mask: array<f32>;
@group(0) @binding(4) var<storage, read> g: array<V>;
@group(0) @binding(5) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> first: array<V>;
@group(0) @binding(7) var<storage, read_write> second: array<O>;

var<workgroup> left: array<V, LEFT>;
var<workgroup> right: array<V, RIGHT>;
var<workgroup> exchange: array<V, TILE_R * LANES_X / 4u>;

var<private> cells: array<f32, ROWS * COLS>;
var<private> slopes: array<f32, ROWS * COLS>;
var<private> sums_1: array<V, ROWS * WIDE>;
var<private> sums_2: array<V, ROWS * WIDE>;
var<private> top: array<f32, ROWS>;
var<private> total: array<f32, ROWS>;
var<private> lane: u32;
var<private> x: u32;
var<private> y: u32;

// Rows or columns of one head in a buffer: the first is number `begin`, those from `end` on are not there.
struct Lines { base: u32, stride: u32, begin: u32, end: u32, width: u32, }

fn row_of(another: bool, i: u32) -> V {
    if (TURNED) {
        if (another) { return v[i]; }
        return k[i];
    }
    if (another) { return g[i]; }
    return q[i];
}

fn column_of(another: bool, i: u32) -> V {
    if (TURNED) {
        if (another) { return g[i]; }
        return q[i];
    }
    if (another) { return v[i]; }
    return k[i];
}

// out = rows @ columns.T; lines beyond the end repeat the last one.
fn multiply(out: ptr<private, array<f32, ROWS * COLS>>, another: bool, rows: Lines, columns: Lines) {
    for (var i = 0u; i < ROWS * COLS; i += 1u) { (*out)[i] = 0.0; }
    for (var start = 0u; start < rows.width; start += STEP) {
        var row_held: array<V, ROW_UNITS>;
        var column_held: array<V, COLUMN_UNITS>;
        for (var n = 0u; n < ROW_UNITS; n += 1u) {
            let u = lane + n * THREADS;
            let at = start + u % STEP;
            let line = min(rows.begin + u / STEP, rows.end - 1u);
            row_held[n] = V();
            if (rows.width % STEP == 0u || at < rows.width) { row_held[n] = row_of(another, rows.base + line * rows.stride + at); }
        }
        for (var n = 0u; n < COLUMN_UNITS; n += 1u) {
            let u = lane + n * THREADS;
            let at = start + u % STEP;
            let line = min(columns.begin + u / STEP, columns.end - 1u);
            column_held[n] = V();
            if (rows.width % STEP == 0u || at < rows.width) { column_held[n] = column_of(another, columns.base + line * columns.stride + at); }
        }
        workgroupBarrier();
        for (var n = 0u; n < ROW_UNITS; n += 1u) {
            let u = lane + n * THREADS;
            left[u / STEP * (STEP + 1u) + u % STEP] = row_held[n];
        }
        for (var n = 0u; n < COLUMN_UNITS; n += 1u) {
            let u = lane + n * THREADS;
            right[u / STEP * (STEP + 1u) + u % STEP] = column_held[n];
        }
        workgroupBarrier();
        for (var e = 0u; e < STEP; e += 1u) {
            var a: array<V, ROWS>;
            for (var i = 0u; i < ROWS; i += 1u) { a[i] = left[(y + i * LANES_Y) * (STEP + 1u) + e]; }
            for (var j = 0u; j < COLS; j += 1u) {
                let b = right[(x + j * LANES_X) * (STEP + 1u) + e];
                for (var i = 0u; i < ROWS; i += 1u) {
                    let sum = fma(a[i].x, b.x, (*out)[i * COLS + j]);
                    (*out)[i * COLS + j] = fma(a[i].w, b.w, fma(a[i].z, b.z, fma(a[i].y, b.y, sum)));
                }
            }
        }
    }
}

// sums += factors @ columns; columns beyond the end count as 0.
fn accumulate(sums: ptr<private, array<V, ROWS * WIDE>>, factors: ptr<private, array<f32, ROWS * COLS>>, another: bool, columns: Lines) {
    for (var start = 0u; start < TILE_C; start += DEPTH) {
        var held: array<V, DEPTH_UNITS>;
        for (var n = 0u; n < DEPTH_UNITS; n += 1u) {
            let u = lane + n * THREADS;
            let place = start + u / columns.width;
            let column = columns.begin + place / 4u % LANES_X + (place / (4u * LANES_X) * 4u + place % 4u) * LANES_X;
            held[n] = V();
            if (u < DEPTH * columns.width && column < columns.end) {
                held[n] = column_of(another, columns.base + column * columns.stride + u % columns.width);
            }
        }
        if (PASS != 0u || start > 0u) { workgroupBarrier(); }       // exponentials() ends behind one
        if (start == 0u) {
            for (var i = 0u; i < ROWS; i += 1u) {
                for (var j = 0u; j < COLS / 4u; j += 1u) {
                    let at = i * COLS + j * 4u;
                    left[(y + i * LANES_Y) * FACTORS + j * LANES_X + x] = V((*factors)[at], (*factors)[at + 1u], (*factors)[at + 2u],
                                                                            (*factors)[at + 3u]);
                }
            }
        }
        for (var n = 0u; n < DEPTH_UNITS; n += 1u) {
            let u = lane + n * THREADS;
            if (u < DEPTH * columns.width) { right[u / columns.width * LINE + u % columns.width] = held[n]; }
        }
        workgroupBarrier();
        for (var u = 0u; u < DEPTH / 4u; u += 1u) {
            var a: array<V, ROWS>;
            for (var i = 0u; i < ROWS; i += 1u) { a[i] = left[(y + i * LANES_Y) * FACTORS + start / 4u + u]; }
            for (var c = 0u; c < 4u; c += 1u) {
                for (var n = 0u; n < WIDE; n += 1u) {
                    let b = right[(u * 4u + c) * LINE + x + n * LANES_X];
                    for (var i = 0u; i < ROWS; i += 1u) { (*sums)[i * WIDE + n] = fma(V(a[i][c]), b, (*sums)[i * WIDE + n]); }
                }
            }
        }
    }
}

// Scores in base 2 from the products in cells. IN: mask_base, of the head.
fn score(rows: Lines, columns: Lines, mask_base: u32) {
    let row_step = select(p.mask_row, p.mask_column, TURNED);
    let column_step = select(p.mask_column, p.mask_row, TURNED);
    for (var i = 0u; i < ROWS; i += 1u) {
        let row = min(rows.begin + y + i * LANES_Y, rows.end - 1u);
        for (var j = 0u; j < COLS; j += 1u) {
            var value = cells[i * COLS + j] * (p.scale * LOG2_E);
            if (HAS_MASK) {
                let column = min(columns.begin + x + j * LANES_X, columns.end - 1u);
                value = fma(mask[mask_base + row * row_step + column * column_step], LOG2_E, value);
            }
            cells[i * COLS + j] = value;
        }
    }
}

fn is_hidden(row: u32, column: u32, end: u32) -> bool {
    return column >= end || (CAUSAL && select(column > row, row > column, TURNED));
}

// Whether a tile has a cell that is hidden.
fn is_edge(rows: Lines, columns: Lines) -> bool {
    let last_row = rows.begin + TILE_R - 1u;
    let last_column = columns.begin + TILE_C - 1u;
    return last_column >= columns.end || (CAUSAL && select(last_column > rows.begin, last_row > columns.begin, TURNED));
}

// Exponentials in the place of the scores, against the largest of each row so far; what was summed before is scaled to it.
fn exponentials(rows: Lines, columns: Lines) {
    if (is_edge(rows, columns)) {
        let lowest = -inf();
        for (var i = 0u; i < ROWS; i += 1u) {
            for (var j = 0u; j < COLS; j += 1u) {
                if (is_hidden(rows.begin + y + i * LANES_Y, columns.begin + x + j * LANES_X, columns.end)) { cells[i * COLS + j] = lowest; }
            }
        }
    }
    for (var i = 0u; i < ROWS; i += 1u) {
        var best = cells[i * COLS];
        for (var j = 1u; j < COLS; j += 1u) { best = max(best, cells[i * COLS + j]); }
        exchange[(y + i * LANES_Y) * (LANES_X / 4u) + x / 4u][x % 4u] = best;
    }
    workgroupBarrier();
    for (var i = 0u; i < ROWS; i += 1u) {
        var best = top[i];
        for (var t = 0u; t < LANES_X / 4u; t += 1u) {
            let four = exchange[(y + i * LANES_Y) * (LANES_X / 4u) + t];
            best = max(best, max(max(four.x, four.y), max(four.z, four.w)));
        }
        let factor = exp2(top[i] - best);
        top[i] = best;
        var sum = 0.0;
        for (var j = 0u; j < COLS; j += 1u) {
            let value = exp2(cells[i * COLS + j] - best);
            cells[i * COLS + j] = value;
            sum += value;
        }
        total[i] = fma(total[i], factor, sum);
        for (var n = 0u; n < WIDE; n += 1u) { sums_1[i * WIDE + n] *= factor; }
    }
}

// Probabilities in the place of the scores, and the gradients of the scores in that of the products of g and v. In pass 1 top and total
// are the rows' stats. IN: stats_base, of the head.
fn differentiate(rows: Lines, columns: Lines, stats_base: u32) {
    let edge = is_edge(rows, columns);
    for (var j = 0u; j < COLS; j += 1u) {
        let column = columns.begin + x + j * LANES_X;
        var own = vec2<f32>();
        if (TURNED) { own = stats[stats_base + min(column, columns.end - 1u)]; }
        for (var i = 0u; i < ROWS; i += 1u) {
            if (!TURNED) { own = vec2<f32>(top[i], total[i]); }
            var value = exp2(cells[i * COLS + j] - own.x);
            var slope = value * (slopes[i * COLS + j] - own.y) * p.scale;
            if (edge && is_hidden(rows.begin + y + i * LANES_Y, column, columns.end)) {
                value = 0.0;
                slope = 0.0;
            }
            cells[i * COLS + j] = value;
            slopes[i * COLS + j] = slope;
        }
    }
}

// Row sums of total over the threads that share the row.
fn share_totals() {
    for (var i = 0u; i < ROWS; i += 1u) { exchange[(y + i * LANES_Y) * (LANES_X / 4u) + x / 4u][x % 4u] = total[i]; }
    workgroupBarrier();
    for (var i = 0u; i < ROWS; i += 1u) {
        var sum = 0.0;
        for (var t = 0u; t < LANES_X / 4u; t += 1u) {
            let four = exchange[(y + i * LANES_Y) * (LANES_X / 4u) + t];
            sum += (four.x + four.y) + (four.z + four.w);
        }
        total[i] = sum;
    }
}

// IN: head, the number of the (batch, head) pair that owns the rows, of `heads` a batch.
fn write(rows: Lines, head: u32, heads: u32) {
    let batch = head / heads;
    for (var i = 0u; i < ROWS; i += 1u) {
        let row = rows.begin + y + i * LANES_Y;
        if (row >= rows.end) { continue; }
        let line = (batch * rows.end + row) * heads + head % heads;
        var factor = 1.0;
        if (PASS == 0u) {
            let empty = total[i] == 0.0;
            factor = select(1.0 / total[i], 0.0, empty);
            if (x == 0u) { put(head * rows.end + row, V(select(fma(top[i], LN2, log_accurate(total[i])), inf(), empty))); }
        }
        for (var n = 0u; n < WIDE; n += 1u) {
            let at = x + n * LANES_X;
            if (PASS != 1u && at < W2) { first[line * W2 + at] = sums_1[i * WIDE + n] * factor; }
            if (PASS != 0u && at < W1) { put(line * W1 + at, sums_2[i * WIDE + n]); }
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.pairs * p.tiles) { return; }
    lane = local;
    x = local / 2u % LANES_X;
    y = local / (2u * LANES_X) * 2u + local % 2u;
    let heads = select(p.heads, p.groups, TURNED);
    let ratio = p.heads / p.groups;
    let head = group % p.pairs;
    let batch = head / heads;
    let tile = select(p.tiles - 1u - group / p.pairs, group / p.pairs, TURNED);
    let begin = tile * TILE_R;
    for (var i = 0u; i < ROWS; i += 1u) {
        top[i] = -3.0e38;
        total[i] = 0.0;
        for (var n = 0u; n < WIDE; n += 1u) {
            sums_1[i * WIDE + n] = V();
            sums_2[i * WIDE + n] = V();
        }
    }
    for (var turn = 0u; turn < select(1u, ratio, TURNED); turn += 1u) {
        let reader = select(head % heads, head % heads * ratio + turn, TURNED);
        let shared_head = reader / ratio;
        let q_lines = Lines(p.q_offset + batch * p.q_batch + reader * p.q_head, p.q_row, 0u, p.queries, W1);
        let g_lines = Lines(p.g_offset + batch * p.g_batch + reader * p.g_head, p.g_row, 0u, p.queries, W2);
        let k_lines = Lines(p.k_offset + batch * p.k_batch + shared_head * p.k_head, p.k_row, 0u, p.keys, W1);
        let v_lines = Lines(p.v_offset + batch * p.v_batch + shared_head * p.v_head, p.v_row, 0u, p.keys, W2);
        let mask_base = p.mask_offset + batch * p.mask_batch + reader * p.mask_head;
        let stats_base = (batch * p.heads + reader) * p.queries;
        var rows_1 = q_lines;
        var rows_2 = g_lines;
        var columns_1 = k_lines;
        var columns_2 = v_lines;
        var low = 0u;
        var high = p.keys;
        if (TURNED) {
            rows_1 = k_lines;
            rows_2 = v_lines;
            columns_1 = q_lines;
            columns_2 = g_lines;
            low = select(0u, begin / TILE_C * TILE_C, CAUSAL);
            high = p.queries;
        } else if (CAUSAL) {
            high = min(high, begin + TILE_R);
        }
        rows_1.begin = begin;
        rows_2.begin = begin;
        if (PASS == 1u) {
            for (var i = 0u; i < ROWS; i += 1u) {
                let own = stats[stats_base + min(begin + y + i * LANES_Y, p.queries - 1u)];
                top[i] = own.x;
                total[i] = own.y;
            }
        }
        for (var c = low; c < high; c += TILE_C) {
            columns_1.begin = c;
            columns_2.begin = c;
            multiply(&cells, false, rows_1, columns_1);
            score(rows_1, columns_1, mask_base);
            if (PASS == 0u) {
                exponentials(rows_1, columns_1);
                accumulate(&sums_1, &cells, true, columns_2);
            } else {
                multiply(&slopes, true, rows_2, columns_2);
                differentiate(rows_1, columns_1, stats_base);
                if (TURNED) { accumulate(&sums_1, &cells, true, columns_2); }
                accumulate(&sums_2, &slopes, false, columns_1);
            }
        }
    }
    if (PASS == 0u) { share_totals(); }
    let length = select(p.queries, p.keys, TURNED);
    write(Lines(0u, 0u, begin, length, 0u), head, heads);
}
