// pool_max_grad: x[plane, index[plane, o]] += g[plane, o] from zero, in the order of o; no float atomics.
//
// A workgroup owns `segment` consecutive pixels (whole planes, or a part of one) in workgroup memory and goes through the
// outputs that can hit them, 256 at a time. Of the outputs that hit one pixel, the lowest adds first: each round, the waiting
// ones bid by integer atomicMin, and the winners add. Windows that do not overlap need one round.
//
// Bindings: 0 g (read), 1 index (read), 2 x (read_write).
// Launch:   x = planes / planes_per_segment, or planes * segments_per_plane, workgroups of 256.
// Sums:     in f32, fixed order.

const SEGMENT: u32 = 2048u;

struct Params {
    segment: u32, segments_per_plane: u32, planes_per_segment: u32, planes: u32,
    plane: u32, out_plane: u32, width: u32, out_width: u32,
    out_height: u32, stride_y: u32, padding_y: u32, reach_y: u32,
    g_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;

var<workgroup> total: array<f32, SEGMENT>;
var<workgroup> bid: array<atomic<u32>, SEGMENT>;
var<workgroup> waiting: atomic<u32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let block = group / p.segments_per_plane;
    let part = group - block * p.segments_per_plane;
    // A spare workgroup of a folded grid owns no plane; barriers need it to go on.
    let first_plane = min(block * p.planes_per_segment, p.planes);
    let last_plane = min(first_plane + p.planes_per_segment, p.planes);
    let start = part * p.segment;
    let pixels = min(p.segment, (last_plane - first_plane) * p.plane - min(start, (last_plane - first_plane) * p.plane));
    var first = first_plane * p.out_plane;
    var last = last_plane * p.out_plane;
    if (p.segments_per_plane > 1u && p.stride_y > 0u && pixels > 0u) {
        // The window's geometry is known: only these rows of outputs reach the segment.
        let top = start / p.width;
        let bottom = (start + pixels - 1u) / p.width;
        let above = select(0u, (top + p.padding_y - p.reach_y + p.stride_y - 1u) / p.stride_y, top + p.padding_y > p.reach_y);
        let below = min((bottom + p.padding_y) / p.stride_y + 1u, p.out_height);
        last = first + below * p.out_width;
        first += min(above, below) * p.out_width;
    }
    for (var i = local; i < SEGMENT; i += 256u) {
        total[i] = 0.0;
        atomicStore(&bid[i], 0xffffffffu);
    }
    if (local == 0u) {
        atomicStore(&waiting, 0u);
    }
    workgroupBarrier();
    for (var base = first; base < last; base += 256u) {
        let output = base + local;
        var pixel = 0xffffffffu;
        var value = 0.0;
        if (output < last) {
            let in_block = output / p.out_plane - first_plane;
            pixel = in_block * p.plane + u32(index[p.index_offset + output]) - start;
            if (pixel < pixels) {
                value = g[p.g_offset + output];
            }
        }
        var wants = pixel < pixels;
        loop {
            if (wants) {
                atomicMin(&bid[pixel], local);
            }
            workgroupBarrier();
            if (wants) {
                if (atomicLoad(&bid[pixel]) == local) {
                    total[pixel] += value;
                } else {
                    atomicStore(&waiting, 1u);
                }
            }
            workgroupBarrier();
            let again = atomicLoad(&waiting);
            workgroupBarrier();
            if (wants && atomicLoad(&bid[pixel]) == local) {
                wants = false;
                atomicStore(&bid[pixel], 0xffffffffu);
            }
            if (local == 0u) {
                atomicStore(&waiting, 0u);
            }
            workgroupBarrier();
            if (again == 0u) {
                break;
            }
        }
    }
    workgroupBarrier();
    let at = first_plane * p.plane + start;
    for (var i = local; i < pixels; i += 256u) {
        x[at + i] = total[i];
    }
}
