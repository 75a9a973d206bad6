// attention: softmax(scale * q @ k.T + mask) @ v per head, and its gradients, in tiles that never leave the workgroup.
//
// Forward, a workgroup owns TILE_R rows (queries) and walks the columns (keys) TILE_C at a time:
//   cells   = q @ k.T; then their exponentials
//   sums_1 += cells @ v                       out
// GRADIENT turns this round: rows are keys, and columns the queries of all heads that share them.
//   cells   = k @ q.T; then the probabilities
//   sums_1 += cells @ g                       dv
//   cells   = v @ g.T; then the gradients of the scores
//   sums_2 += cells @ q                       dk
//   second += cells.T @ k                     dq, in memory
// A workgroup takes some tiles of rows, one after another, and sums dq for all of their queries in a copy of its own, since no two may add
// to the same memory; collect.wgsl adds the copies. The first tile that a copy meets, it meets the most queries with: nothing is cleared.
//
// Bindings: 0 q[B, H, L, 4 W1], 1 k[B, G, S, 4 W1], 2 v[B, G, S, 4 W2], 3 mask[B, H, L, S], 4 g[B, H, L, 4 W2] (any strides, in V's;
//           of mask in elements), 5 stats[B, H, L] = (greatest score, one over the sum, delta), all read; 6 first: out as
//           [B, L, H, 4 W2], or dv and behind it dk, likewise, 7 second: (greatest score, one over the sum)[B, H, L], or
//           dq[copies, B, L, H, 4 W1] (read_write). What a variant does not use is absent.
// Launch:   x = pairs * tiles * splits workgroups of LANES_X * LANES_Y, tiles being the copies for gradients; forward, long causal rows
//           come first. With splits, workgroups meet the tiles of columns in turn and write a part each ([splits] is `first`'s first
//           dimension, forward also `second`'s), which merge.wgsl and collect.wgsl put together.
// Sums:     in f32, in a fixed order; exponentials are of base 2. A row without any key gives zeros, and stats (+inf, 0).
// Lanes:    neighbours share x and lanes two apart y, so that most reads of a warp are broadcasts. Thread (x, y) owns the fours of rows
//           z, z + 4, ... and the fours of columns x, x + LANES_X, ...; V's of cells lie along the rows. What is multiplied to cells is
// turned on its way into workgroup memory, in blocks of four lines and four elements, to [along the line][rows or columns]; gaps keep what
// neighbours write in different banks. What comes next is fetched early. Eight elements or lines are written out: longer loops stay loops.

const GRADIENT: bool = false;
const CAUSAL: bool = false;
const HAS_MASK: bool = false;
const W1: u32 = 16u;            // V's of a line of q and k
const W2: u32 = 16u;            // and of v
const TILE_R: u32 = 64u;
const TILE_C: u32 = 64u;
const LANES_X: u32 = 8u;
const LANES_Y: u32 = 8u;
const STEP: u32 = 8u;           // elements of a line that are multiplied between two barriers
const DEPTH: u32 = 8u;          // and lines, when cells are multiplied; both multiples of 8
const BUFFERS: u32 = 1u;        // for lines: with two, there is a barrier between two steps instead of two
alias V = vec4<f32>;
alias E = vec4<f32>;            // of q, k, v and g in memory,
alias M = f32;                  // of the mask,
alias F = vec4<f32>;            // of `first`
alias O = vec4<f32>;            // of `second`
fn put(i: u32, v: V) { second[i] = v; }
fn held_second(i: u32) -> V { return second[i]; }

const THREADS: u32 = LANES_X * LANES_Y; const FOURS: u32 = TILE_R / 4u;
const ROWS: u32 = FOURS / LANES_Y; const COLS: u32 = TILE_C / LANES_X;      // fours of rows, and columns, that a thread owns
const WIDE: u32 = (max(W1, W2) + LANES_X - 1u) / LANES_X;           // V's of a line of a result that a thread owns,
const LINE: u32 = WIDE * LANES_X;                                   // and that there are
const QUERIES: u32 = select(4u, TILE_C / LANES_Y, GRADIENT);        // lines of dq that a thread owns
const QUADS: u32 = STEP / 4u; const GAP: u32 = 8u / QUADS;          // V's, behind four elements of all rows or columns
const ROW_BLOCKS: u32 = FOURS * QUADS; const BLOCKS: u32 = ROW_BLOCKS + TILE_C / 4u * QUADS;       // of four lines and four elements
const BLOCK_UNITS: u32 = (BLOCKS + THREADS - 1u) / THREADS;         // that a thread fetches
const_assert 0u == FOURS % LANES_Y + COLS % 4u + QUERIES % 4u + STEP % 8u + DEPTH % 8u + select(DEPTH % LANES_X, 0u, GRADIENT);
const DEPTH_UNITS: u32 = (DEPTH * max(W1, W2) + THREADS - 1u) / THREADS;
const RIGHT: u32 = STEP * FOURS + 8u;                               // where the columns of a step begin
const SHARED: u32 = select(DEPTH, TILE_C, GRADIENT);                // columns whose cells are shared at a time
const STAGE: u32 = max(RIGHT + STEP * TILE_C / 4u + 8u, BUFFERS * DEPTH * LINE);
const EACH: u32 = max(1u, DEPTH / LANES_X);                         // columns that a thread shares at a time, forward
const AREA: u32 = SHARED * FOURS + select(SHARED * 4u, SHARED / 2u, GRADIENT);              // of cells that are shared at a time

struct Params {
    q_offset: u32, q_batch: u32, q_row: u32, q_head: u32,
    k_offset: u32, k_batch: u32, k_row: u32, k_head: u32,
    v_offset: u32, v_batch: u32, v_row: u32, v_head: u32,
    g_offset: u32, g_batch: u32, g_row: u32, g_head: u32,
    mask_offset: u32, mask_batch: u32, mask_head: u32, mask_row: u32,
    mask_column: u32, heads: u32, groups: u32, queries: u32,
    keys: u32, pairs: u32, tiles: u32, scale: f32,
    steps_1: u32, steps_2: u32, splits: u32,                // in STEPs of W1 and W2: loops of unknown length stay loops
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> q: array<E>;
@group(0) @binding(1) var<storage, read> k: array<E>;
@group(0) @binding(2) var<storage, read> v: array<E>;
@group(0) @binding(3) var<storage, read> mask: array<M>;
@group(0) @binding(4) var<storage, read> g: array<E>;
@group(0) @binding(5) var<storage, read> stats: array<V>;
@group(0) @binding(6) var<storage, read_write> first: array<F>;
@group(0) @binding(7) var<storage, read_write> second: array<O>;

var<workgroup> stage: array<V, STAGE>;
var<workgroup> shared_cells: array<V, max(select(BUFFERS, 1u, GRADIENT) * AREA, LANES_X * FOURS)>;

var<private> cells: array<V, COLS * ROWS>;
var<private> sums_1: array<V, 4u * ROWS * WIDE>; var<private> sums_2: array<V, 4u * ROWS * WIDE>;
var<private> sums_3: array<V, QUERIES * WIDE>;
var<private> held: array<V, max(4u * BLOCK_UNITS, DEPTH_UNITS)>; var<private> places: array<u32, 4u * BLOCK_UNITS>;
var<private> own: array<vec3<f32>, COLS>;                           // the stats of the thread's columns
var<private> top: array<V, ROWS>; var<private> total: array<V, ROWS>; var<private> lane: u32; var<private> x: u32; var<private> y: u32;
var<private> z: u32;                                                // the first four of rows: those of a warp lie side by side
var<private> busy: bool;                                            // whether some of them take part in a tile of gradients

// Lines of one head in a buffer: the first is number `begin`, those from `end` on are not there.
struct Lines { name: u32, width: u32, steps: u32, base: u32, stride: u32, begin: u32, end: u32, }

const NONE: u32 = 0u; const Q: u32 = 1u; const K: u32 = 2u; const VALUES: u32 = 3u; const G: u32 = 4u;

fn element(name: u32, i: u32) -> V {
    if (name == Q) { return V(q[i]); } if (name == K) { return V(k[i]); }
    if (name == VALUES) { return V(v[i]); } return V(g[i]);
}

// Blocks of four lines and four elements, from V `start` of the lines on, which `aim` finds; a line beyond the end is the last one again.
fn fetch_block(lines: Lines, n: u32, u: u32, start: u32, aim: bool) {
    let is_there = lines.width % QUADS == 0u || start + u % QUADS < lines.width;
    for (var c = 0u; c < 4u; c += 1u) {
        if (aim) { places[n * 4u + c] = lines.base + min(lines.begin + u / QUADS * 4u + c, lines.end - 1u) * lines.stride + u % QUADS; }
        held[n * 4u + c] = V();
        if (is_there) { held[n * 4u + c] = element(lines.name, places[n * 4u + c] + start); }
    }
}

fn fetch_blocks(rows: Lines, columns: Lines, start: u32, aim: bool) {
    for (var n = 0u; n < BLOCK_UNITS; n += 1u) {
        let u = lane + n * THREADS;
        let v = u - ROW_BLOCKS;
        if (u < ROW_BLOCKS) { fetch_block(rows, n, u, start, aim); } else if (u < BLOCKS) { fetch_block(columns, n, v, start, aim); }
    }
}

fn stash_blocks() {
    for (var n = 0u; n < BLOCK_UNITS; n += 1u) {
        let u = lane + n * THREADS;
        if (u < BLOCKS) {
            let is_row = u < ROW_BLOCKS;
            let v = select(u - ROW_BLOCKS, u, is_row);
            let at = select(RIGHT + v % QUADS * TILE_C, v % QUADS * 4u * FOURS, is_row) + v % QUADS * GAP + v / QUADS;
            let by = select(TILE_C / 4u, FOURS, is_row);
            for (var c = 0u; c < 4u; c += 1u) {
                stage[at + c * by] = V(held[n * 4u][c], held[n * 4u + 1u][c], held[n * 4u + 2u][c], held[n * 4u + 3u][c]);
            }
        }
    }
}

// cells += rows @ columns.T, for element e of a step
fn multiply_element(e: u32) {
    let at = e / 4u * GAP;
    var a: array<V, ROWS>;
    for (var i = 0u; i < ROWS; i += 1u) { a[i] = stage[z + (e * FOURS + at + i * 4u)]; }
    for (var j = 0u; j < COLS / 4u; j += 1u) {
        let b = stage[x + (RIGHT + e * (TILE_C / 4u) + at + j * LANES_X)];
        for (var c = 0u; c < 4u; c += 1u) {
            for (var n = 0u; n < ROWS; n += 1u) {
                let i = select(n, ROWS - 1u - n, c % 2u == 1u);
                cells[(j * 4u + c) * ROWS + i] = add_product(c, a[i], V(b[c]), cells[(j * 4u + c) * ROWS + i]);
            }
        }
    }
}

// cells = rows @ columns.T, of which the first are fetched.
fn multiply(rows: Lines, columns: Lines) {
    for (var i = 0u; i < COLS * ROWS; i += 1u) { cells[i] = V(); }
    for (var s = 0u; s < rows.steps; s += 1u) {
        stash_blocks();
        workgroupBarrier();
        fetch_blocks(rows, columns, min(s + 1u, rows.steps - 1u) * QUADS, false);       // the last step twice, without a branch
        if (!GRADIENT || busy) {
            for (var e = 0u; e < STEP; e += 8u) {
                multiply_element(e); multiply_element(e + 1u); multiply_element(e + 2u); multiply_element(e + 3u);
                multiply_element(e + 4u); multiply_element(e + 5u); multiply_element(e + 6u); multiply_element(e + 7u);
            }
        }
        workgroupBarrier();
    }
}

// Column j of those that a thread owns, in a tile.
fn column_of_lane(j: u32, x: u32) -> u32 { return (x + j / 4u * LANES_X) * 4u + j % 4u; }
fn column_of(j: u32) -> u32 { return column_of_lane(j, x); }

// Where a shared column's cells in a four of rows lie: what neighbours write or read is in different banks.
fn place(column: u32, four: u32) -> u32 { return column * FOURS + select(column * 4u, column / 4u * 2u, GRADIENT) + four; }

// The column of a tile that is number e of part s. Forward, every thread shares as many columns of each part.
fn column_in(s: u32, e: u32) -> u32 { return select(column_of_lane(s * EACH + e / LANES_X, e % LANES_X), s * DEPTH + e, GRADIENT); }

// IN: part, which SHARED columns; base, where their cells go.
fn share_cells(part: u32, base: u32) {
    for (var j = 0u; j < COLS; j += 1u) {
        let column = select(j % EACH * LANES_X + x, column_of(j), GRADIENT);
        if (GRADIENT || j / EACH == part) {
            for (var i = 0u; i < ROWS; i += 1u) { shared_cells[base + place(column, z + i * 4u)] = cells[j * ROWS + i]; }
        }
    }
}

// Lines of part s of a tile; one beyond the end is the last one again.
fn fetch_lines(lines: Lines, s: u32) {
    for (var n = 0u; n < DEPTH_UNITS; n += 1u) {
        let u = lane + n * THREADS;
        if (u < DEPTH * lines.width) {
            let line = min(lines.begin + column_in(s, u / lines.width), lines.end - 1u);
            held[n] = element(lines.name, lines.base + line * lines.stride + u % lines.width);
        }
    }
}

// IN: base, where they go; a line beyond the end goes there as zeros.
fn stash_lines(lines: Lines, s: u32, base: u32) {
    let is_whole = lines.begin + select(TILE_C, (s + 1u) * DEPTH, GRADIENT) <= lines.end;
    for (var n = 0u; n < DEPTH_UNITS; n += 1u) {
        let u = lane + n * THREADS;
        if (!is_whole && lines.begin + column_in(s, u / lines.width) >= lines.end) { held[n] = V(); }
        if (u < DEPTH * lines.width) { stage[base + u / lines.width * LINE + u % lines.width] = held[n]; }
    }
}

// Fetches what is used first of rows @ columns.T, or of lines where there are no columns.
fn fetch_first(rows: Lines, columns: Lines) {
    if (columns.name == NONE) { fetch_lines(rows, 0u); } else { fetch_blocks(rows, columns, 0u, true); }
}

fn accumulate_line(sums: ptr<private, array<V, 4u * ROWS * WIDE>>, cell: u32, base: u32, e: u32) {
    var a: array<V, ROWS>;
    for (var i = 0u; i < ROWS; i += 1u) { a[i] = shared_cells[cell + place(e, z + i * 4u)]; }
    for (var n = 0u; n < WIDE; n += 1u) {
        let b = stage[base + e * LINE + x + n * LANES_X];
        for (var r = 0u; r < 4u * ROWS; r += 1u) { (*sums)[r * WIDE + n] = add_product(r, V(a[r / 4u][r % 4u]), b, (*sums)[r * WIDE + n]); }
    }
}

fn accumulate_lines(sums: ptr<private, array<V, 4u * ROWS * WIDE>>, cell: u32, base: u32) {
    for (var e = 0u; e < DEPTH; e += 8u) {
        accumulate_line(sums, cell, base, e); accumulate_line(sums, cell, base, e + 1u);
        accumulate_line(sums, cell, base, e + 2u); accumulate_line(sums, cell, base, e + 3u);
        accumulate_line(sums, cell, base, e + 4u); accumulate_line(sums, cell, base, e + 5u);
        accumulate_line(sums, cell, base, e + 6u); accumulate_line(sums, cell, base, e + 7u);
    }
}

// Line i of dq of those that a thread owns, in a tile.
fn query_of(i: u32) -> u32 { return (y + i / 4u * LANES_Y) * 4u + i % 4u; }

// A four of lines, two at a time: drivers were seen to keep fewer registers so.
fn accumulate_turned(four: u32, base: u32, e: u32) {
    for (var half = 0u; half < 2u; half += 1u) {
        var a: array<vec2<f32>, QUERIES>;
        for (var i = 0u; i < QUERIES; i += 1u) {
            let value = shared_cells[place(query_of(i), four + e)];
            a[i] = select(value.zw, value.xy, half == 0u);
        }
        for (var c = 0u; c < 2u; c += 1u) {
            for (var n = 0u; n < WIDE; n += 1u) {
                let b = stage[base + (e * 4u + half * 2u + c) * LINE + x + n * LANES_X];
                for (var i = 0u; i < QUERIES; i += 1u) { sums_3[i * WIDE + n] = add_product(i, V(a[i][c]), b, sums_3[i * WIDE + n]); }
            }
        }
    }
}

fn accumulate_turned_lines(four: u32, base: u32) {
    for (var e = 0u; e < DEPTH / 4u; e += 2u) { accumulate_turned(four, base, e); accumulate_turned(four, base, e + 1u); }
}

// sums_1 or sums_2 += shared cells @ lines, or sums_3 += shared cells.T @ lines. The first lines are fetched, as are those of what
// follows; lines beyond the end count as 0. IN: most, lines that take part.
fn accumulate(number: u32, lines: Lines, most: u32, next_rows: Lines, next_columns: Lines) {
    let steps = (select(TILE_C, min(most, lines.end - lines.begin), GRADIENT) + DEPTH - 1u) / DEPTH;
    for (var s = 0u; s < steps; s += 1u) {
        let base = s % BUFFERS * (DEPTH * LINE);
        let cell = select(s % BUFFERS * AREA, s * (DEPTH * FOURS + DEPTH / 2u), GRADIENT);
        if (!GRADIENT) { share_cells(s, cell); }
        stash_lines(lines, s, base);
        workgroupBarrier();
        if (s + 1u < steps) { fetch_lines(lines, s + 1u); } else { fetch_first(next_rows, next_columns); }
        if (number == 1u && (!GRADIENT || busy)) { accumulate_lines(&sums_1, cell, base); }
        if (number == 2u && busy) { accumulate_lines(&sums_2, cell, base); }
        if (number == 3u) { accumulate_turned_lines(s * DEPTH / 4u, base); }
        if (BUFFERS == 1u) { workgroupBarrier(); }
    }
    if (BUFFERS > 1u) { workgroupBarrier(); }
}

// Whether a tile has a cell that is hidden.
fn is_edge(rows: Lines, columns: Lines) -> bool {
    let last = columns.begin + TILE_C - 1u;
    return last >= columns.end || (CAUSAL && select(last > rows.begin, rows.begin + TILE_R - 1u > columns.begin, GRADIENT));
}

// Which of four rows from `row` on may not see a column, or are not seen by it.
fn hidden(row: u32, column: u32, end: u32) -> vec4<bool> {
    let four = vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u);
    let late = select(vec4<u32>(column) > four, four > vec4<u32>(column), GRADIENT);
    return vec4<bool>(column >= end) | (vec4<bool>(CAUSAL) & late);
}

// Scores in base 2 in the place of the products, -inf where hidden; for gradients, the probabilities. IN: mask_base, of the head.
fn score(rows: Lines, columns: Lines, mask_base: u32) {
    let row_step = select(p.mask_row, p.mask_column, GRADIENT);
    let column_step = select(p.mask_column, p.mask_row, GRADIENT);
    let edge = is_edge(rows, columns);
    let factor = p.scale * LOG2_E;
    for (var j = 0u; j < COLS; j += 1u) {
        let column = columns.begin + column_of(j);
        for (var i = 0u; i < ROWS; i += 1u) {
            let row = rows.begin + (z + i * 4u) * 4u;
            var value = cells[j * ROWS + i] * factor;
            if (HAS_MASK) {
                let at = mask_base + min(column, columns.end - 1u) * column_step;
                let last = rows.end - 1u;
                for (var c = 0u; c < 4u; c += 1u) { value[c] = fma(f32(mask[at + min(row + c, last) * row_step]), LOG2_E, value[c]); }
            }
            if (edge) { value = select(value, V(-inf()), hidden(row, column, columns.end)); }
            if (GRADIENT) { value = exp2(value - own[j].x) * own[j].y; }
            cells[j * ROWS + i] = value;
        }
    }
}

// Exponentials in the place of the scores, against the largest of each row so far; what was summed before is scaled to it.
fn exponentials() {
    for (var i = 0u; i < ROWS; i += 1u) {
        var best = cells[i];
        for (var j = 1u; j < COLS; j += 1u) { best = max(best, cells[j * ROWS + i]); }
        shared_cells[x * FOURS + z + i * 4u] = best;
    }
    workgroupBarrier();
    for (var i = 0u; i < ROWS; i += 1u) {
        var best = top[i];
        for (var t = 0u; t < LANES_X; t += 1u) { best = max(best, shared_cells[t * FOURS + z + i * 4u]); }
        let factor = exp2(top[i] - best);
        top[i] = best;
        var sum = V();
        for (var j = 0u; j < COLS; j += 1u) {
            cells[j * ROWS + i] = exp2(cells[j * ROWS + i] - best);
            sum += cells[j * ROWS + i];
        }
        total[i] = fma(total[i], factor, sum);
        for (var c = 0u; c < 4u; c += 1u) {
            for (var n = 0u; n < WIDE; n += 1u) { sums_1[(i * 4u + c) * WIDE + n] *= factor[c]; }
        }
    }
    workgroupBarrier();
}

// Gradients of the scores in the place of the products of v and g, which are those of the shared probabilities.
fn differentiate(rows: Lines, columns: Lines) {
    let edge = is_edge(rows, columns);
    for (var j = 0u; j < COLS; j += 1u) {
        let column = columns.begin + column_of(j);
        for (var i = 0u; i < ROWS; i += 1u) {
            let value = shared_cells[place(column_of(j), z + i * 4u)];
            var slope = value * (cells[j * ROWS + i] - own[j].z) * p.scale;
            if (edge) { slope = select(slope, V(), hidden(rows.begin + (z + i * 4u) * 4u, column, columns.end)); }
            cells[j * ROWS + i] = slope;
        }
    }
}

// Row sums of total over the threads that share the row.
fn share_totals() {
    for (var i = 0u; i < ROWS; i += 1u) { shared_cells[x * FOURS + z + i * 4u] = total[i]; }
    workgroupBarrier();
    for (var i = 0u; i < ROWS; i += 1u) {
        var sum = V();
        for (var t = 0u; t < LANES_X; t += 1u) { sum += shared_cells[t * FOURS + z + i * 4u]; }
        total[i] = sum;
    }
}

fn line_of(head: u32, heads: u32, row: u32, end: u32) -> u32 { return (head / heads * end + row) * heads + head % heads; }

// IN: head, the number of the (batch, head) pair that owns the rows.
fn forward(head: u32, tile: u32, split: u32) {
    let batch = head / p.heads;
    let reader = head % p.heads;
    let group = reader / (p.heads / p.groups);
    let begin = tile * TILE_R;
    let rows = Lines(Q, W1, p.steps_1, p.q_offset + batch * p.q_batch + reader * p.q_head, p.q_row, begin, p.queries);
    var columns = Lines(K, W1, p.steps_1, p.k_offset + batch * p.k_batch + group * p.k_head, p.k_row, 0u, p.keys);
    var values = Lines(VALUES, W2, p.steps_2, p.v_offset + batch * p.v_batch + group * p.v_head, p.v_row, 0u, p.keys);
    for (var i = 0u; i < ROWS; i += 1u) { top[i] = V(-3.0e38); total[i] = V(); }
    for (var i = 0u; i < 4u * ROWS * WIDE; i += 1u) { sums_1[i] = V(); }
    let end = select(p.keys, min(p.keys, begin + TILE_R), CAUSAL);
    columns.begin = split * TILE_C;
    if (columns.begin < end) { fetch_first(rows, columns); }
    for (var c = split * TILE_C; c < end; c += p.splits * TILE_C) {
        values.begin = c;
        multiply(rows, columns);
        score(rows, columns, p.mask_offset + batch * p.mask_batch + reader * p.mask_head);
        fetch_lines(values, 0u);
        exponentials();
        columns.begin = c + p.splits * TILE_C;
        accumulate(1u, values, TILE_C, rows, columns);
    }
    share_totals();
    for (var i = 0u; i < ROWS; i += 1u) {
        for (var c = 0u; c < 4u; c += 1u) {
            let row = begin + (z + i * 4u) * 4u + c;
            let is_there = row < p.queries;
            let sum = total[i][c];
            let factor = select(1.0 / sum, 0.0, sum == 0.0);
            let best = select(top[i][c], inf(), sum == 0.0);
            if (is_there && x == 0u) { put((split * p.pairs + head) * p.queries + row, V(best, factor, 0.0, 0.0)); }
            let line = line_of(head, p.heads, row, p.queries) + split * p.pairs * p.queries;
            for (var n = 0u; n < WIDE; n += 1u) {
                let at = x + n * LANES_X;
                if (is_there && at < W2) { first[line * W2 + at] = F(sums_1[(i * 4u + c) * WIDE + n] * factor); }
            }
        }
    }
}

// The sums of dv and dk of the tile's rows to memory.
fn put_sums(head: u32, begin: u32, split: u32) {
    let dv = split * p.pairs * p.keys * (W1 + W2);
    let dk = dv + p.pairs * p.keys * W2;
    for (var i = 0u; i < 4u * ROWS; i += 1u) {
        let row = begin + (z + i / 4u * 4u) * 4u + i % 4u;
        let line = line_of(head, p.groups, row, p.keys);
        for (var n = 0u; n < WIDE; n += 1u) {
            let at = x + n * LANES_X;
            if (row < p.keys && at < W2) { first[dv + line * W2 + at] = F(sums_1[i * WIDE + n]); }
            if (row < p.keys && at < W1) { first[dk + line * W1 + at] = F(sums_2[i * WIDE + n]); }
        }
    }
}

// The sums of dq of the queries from `begin` on from memory, or zeros where they are fresh, or back there. IN: base, the line of query 0.
fn move_queries(base: u32, begin: u32, load: bool, fresh: bool) {
    for (var i = 0u; i < QUERIES; i += 1u) {
        let row = begin + query_of(i);
        for (var n = 0u; n < WIDE; n += 1u) {
            let at = (base + row * p.heads) * W1 + x + n * LANES_X;
            let is_there = row < p.queries && x + n * LANES_X < W1;
            if (load) { sums_3[i * WIDE + n] = V(); }
            if (load && !fresh && is_there) { sums_3[i * WIDE + n] = held_second(at); }
            if (!load && is_there) { put(at, sums_3[i * WIDE + n]); }
        }
    }
}

// Where the rows begin that a copy of dq meets in its turn: to and fro, so that copies have as much to do under a causal mask.
fn begin_of(copy: u32, turn: u32) -> u32 {
    return (turn * p.tiles + select(copy, p.tiles - 1u - copy, turn % 2u == 1u)) * TILE_R;
}

// IN: head, the number of the (batch, group) pair that owns the rows; copy, of dq.
fn backward(head: u32, copy: u32, split: u32) {
    let batch = head / p.groups;
    let group = head % p.groups;
    let ratio = p.heads / p.groups;
    let copy_base = copy * (p.pairs / p.groups) * p.queries * p.heads;
    var rows_1 = Lines(K, W1, p.steps_1, p.k_offset + batch * p.k_batch + group * p.k_head, p.k_row, 0u, p.keys);
    var rows_2 = Lines(VALUES, W2, p.steps_2, p.v_offset + batch * p.v_batch + group * p.v_head, p.v_row, 0u, p.keys);
    for (var turn = 0u; begin_of(copy, turn) < p.keys; turn += 1u) {
        let begin = begin_of(copy, turn);
        let first_tile = select(0u, begin / TILE_C, CAUSAL);
        let first_column = (first_tile + (split + p.splits - first_tile % p.splits) % p.splits) * TILE_C;
        rows_1.begin = begin;
        rows_2.begin = begin;
        for (var i = 0u; i < 4u * ROWS * WIDE; i += 1u) { sums_1[i] = V(); sums_2[i] = V(); }
        for (var reader = group * ratio; reader < group * ratio + ratio; reader += 1u) {
            var columns_1 = Lines(Q, W1, p.steps_1, p.q_offset + batch * p.q_batch + reader * p.q_head, p.q_row, first_column, p.queries);
            var columns_2 = Lines(G, W2, p.steps_2, p.g_offset + batch * p.g_batch + reader * p.g_head, p.g_row, first_column, p.queries);
            let stats_base = (batch * p.heads + reader) * p.queries;
            let base = copy_base + batch * p.queries * p.heads + reader;
            fetch_first(rows_1, columns_1);
            for (var c = first_column; c < p.queries; c += p.splits * TILE_C) {
                columns_1.begin = c;
                columns_2.begin = c;
                busy = !CAUSAL || begin + y / 4u * (16u * ROWS) < c + TILE_C;
                for (var j = 0u; j < COLS; j += 1u) { own[j] = stats[stats_base + min(c + column_of(j), p.queries - 1u)].xyz; }
                multiply(rows_1, columns_1);
                fetch_lines(columns_2, 0u);
                score(rows_1, columns_1, p.mask_offset + batch * p.mask_batch + reader * p.mask_head);
                share_cells(0u, 0u);
                accumulate(1u, columns_2, TILE_C, rows_2, columns_2);
                multiply(rows_2, columns_2);
                fetch_lines(columns_1, 0u);
                differentiate(rows_1, columns_1);
                share_cells(0u, 0u);
                if (WIDE == 1u) { move_queries(base, c, true, turn == 0u); }        // early, where registers allow it
                accumulate(2u, columns_1, TILE_C, rows_1, Lines());
                columns_1.begin = c + p.splits * TILE_C;
                if (WIDE > 1u) { move_queries(base, c, true, turn == 0u); }
                accumulate(3u, rows_1, select(TILE_R, min(TILE_R, c + TILE_C - begin), CAUSAL), rows_1, columns_1);
                move_queries(base, c, false, false);
            }
        }
        put_sums(head, begin, split);
    }
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.pairs * p.tiles * p.splits) { return; }
    let warp = local / 32u; lane = local;
    x = warp % (LANES_X / 8u) * 8u + local / 2u % 8u;
    y = warp / (LANES_X / 8u) * 4u + local % 32u / 16u * 2u + local % 2u;
    z = y / 4u * (4u * ROWS) + y % 4u;
    let owner = group / p.pairs / p.splits; let split = group / p.pairs % p.splits;
    if (GRADIENT) { backward(group % p.pairs, owner, split); } else { forward(group % p.pairs, p.tiles - 1u - owner, split); }
}
