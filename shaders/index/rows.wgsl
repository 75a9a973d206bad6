// index_rows: out[outer, index[k], inner] += g[outer, k, inner], where entries are few beside the rows: a workgroup has OWN entries, and
// looks at all of them for others that name the same rows; the first entry of a row adds up all of it, the others nothing.
//
// Bindings: 0 g, 1 index (read), 2 out (read_write).
// Launch:   x = groups = outers * ceil(entries / OWN) * strips of COLUMNS workgroups of 256; inner and offsets but the index's are in V's.
// Sums:     in A, in the order of k, then out's element.

alias V = f32;
alias A = f32;
alias O = f32;
const COLUMNS: u32 = 32u;               // a power of two
const OWN: u32 = 256u / COLUMNS;
const WORDS: u32 = 128u;                // of 32 entries, at most
const ITEMS: u32 = WORDS / 8u;          // entries that a thread looks at
const NONE: u32 = 0xffffffffu;

struct Params {
    groups: u32, inner: u32, entries: u32, size: u32,
    strips: u32, blocks: u32,
    g_offset: u32, index_offset: u32, out_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

var<workgroup> rows: array<u32, OWN>;
var<workgroup> others: array<atomic<u32>, OWN>;         // that name the row: later ones, and from 2^16 on earlier ones
var<workgroup> named: array<atomic<u32>, OWN * WORDS>;  // which later ones, a bit each

fn finish(v: A) -> O { return O(v); }
fn row_of(k: u32) -> u32 { return u32(clamp(index[p.index_offset + min(k, p.entries - 1u)], 0, i32(p.size) - 1)); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = min(group_of(grid), p.groups - 1u);
    let outer = group / p.strips / p.blocks;
    let first = group / p.strips % p.blocks * OWN;
    var seen: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) { seen[j] = row_of(j * 256u + local); }
    if (local < OWN) {
        rows[local] = row_of(first + local);
        atomicStore(&others[local], 0u);
    }
    for (var w = local; w < OWN * WORDS; w += 256u) { atomicStore(&named[w], 0u); }
    workgroupBarrier();
    for (var i = 0u; i < OWN; i++) {
        let row = rows[i];
        for (var j = 0u; j < ITEMS; j++) {
            let k = j * 256u + local;
            if (seen[j] == row && k < p.entries && k != first + i) {
                atomicAdd(&others[i], select(0x10000u, 1u, k > first + i));
                if (k > first + i) { atomicOr(&named[i * WORDS + k / 32u], 1u << (k % 32u)); }
            }
        }
    }
    workgroupBarrier();
    let own = local / COLUMNS;
    let column = group % p.strips * COLUMNS + local % COLUMNS;
    let more = atomicLoad(&others[own]);
    if (first + own >= p.entries || column >= p.inner || more >= 0x10000u || group_of(grid) >= p.groups) {
        return;
    }
    let start = p.g_offset + outer * p.entries * p.inner + column;
    var total = A(g[start + (first + own) * p.inner]);
    let into = p.out_offset + (outer * p.size + rows[own]) * p.inner + column;
    let base = A(out[into]);
    for (var w = (first + own) / 32u; more > 0u && w < WORDS; w++) {
        for (var bits = atomicLoad(&named[own * WORDS + w]); bits != 0u; bits &= bits - 1u) {
            total += A(g[start + (w * 32u + firstTrailingBit(bits)) * p.inner]);
        }
    }
    out[into] = finish(base + total);
}
