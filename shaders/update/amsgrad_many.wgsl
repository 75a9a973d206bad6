// update_amsgrad_many: update_amsgrad for up to six parameters in one dispatch.
//
// Workgroups from start_s on belong to parameter s; places that are not used have count 0 and start where the grid ends.
//
// Bindings: 0..5 grad (read), then param, exp_avg, exp_avg_sq, max_exp_avg_sq of each place (read_write; spare buffers where
//           not used).
// Launch:   x = sum of ceil(count_s / 256) workgroups of 256; a thread updates one V; counts are in V's; no offsets.
// Sums:     none.

alias V = vec4<f32>;

struct Params {
    count0: u32, count1: u32, count2: u32, count3: u32,
    count4: u32, count5: u32, start1: u32, start2: u32,
    start3: u32, start4: u32, start5: u32, weight_decay: f32,
    keep: f32, gain1: f32, beta2: f32, gain2: f32,
    spread: f32, eps: f32, step: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> grad0: array<V>;
@group(0) @binding(1) var<storage, read> grad1: array<V>;
@group(0) @binding(2) var<storage, read> grad2: array<V>;
@group(0) @binding(3) var<storage, read> grad3: array<V>;
@group(0) @binding(4) var<storage, read> grad4: array<V>;
@group(0) @binding(5) var<storage, read> grad5: array<V>;
@group(0) @binding(6) var<storage, read_write> param0: array<V>;
@group(0) @binding(7) var<storage, read_write> exp_avg0: array<V>;
@group(0) @binding(8) var<storage, read_write> exp_avg_sq0: array<V>;
@group(0) @binding(9) var<storage, read_write> max_exp_avg_sq0: array<V>;
@group(0) @binding(10) var<storage, read_write> param1: array<V>;
@group(0) @binding(11) var<storage, read_write> exp_avg1: array<V>;
@group(0) @binding(12) var<storage, read_write> exp_avg_sq1: array<V>;
@group(0) @binding(13) var<storage, read_write> max_exp_avg_sq1: array<V>;
@group(0) @binding(14) var<storage, read_write> param2: array<V>;
@group(0) @binding(15) var<storage, read_write> exp_avg2: array<V>;
@group(0) @binding(16) var<storage, read_write> exp_avg_sq2: array<V>;
@group(0) @binding(17) var<storage, read_write> max_exp_avg_sq2: array<V>;
@group(0) @binding(18) var<storage, read_write> param3: array<V>;
@group(0) @binding(19) var<storage, read_write> exp_avg3: array<V>;
@group(0) @binding(20) var<storage, read_write> exp_avg_sq3: array<V>;
@group(0) @binding(21) var<storage, read_write> max_exp_avg_sq3: array<V>;
@group(0) @binding(22) var<storage, read_write> param4: array<V>;
@group(0) @binding(23) var<storage, read_write> exp_avg4: array<V>;
@group(0) @binding(24) var<storage, read_write> exp_avg_sq4: array<V>;
@group(0) @binding(25) var<storage, read_write> max_exp_avg_sq4: array<V>;
@group(0) @binding(26) var<storage, read_write> param5: array<V>;
@group(0) @binding(27) var<storage, read_write> exp_avg5: array<V>;
@group(0) @binding(28) var<storage, read_write> exp_avg_sq5: array<V>;
@group(0) @binding(29) var<storage, read_write> max_exp_avg_sq5: array<V>;

struct Next {
    param: V, exp_avg: V, exp_avg_sq: V, max_exp_avg_sq: V,
}

fn step(grad: V, old: V, exp_avg: V, exp_avg_sq: V, max_exp_avg_sq: V) -> Next {
    var slope = grad;
    if (p.weight_decay != 0.0) {
        slope += p.weight_decay * old;
    }
    let average = exp_avg + p.gain1 * (slope - exp_avg);
    let square = p.beta2 * exp_avg_sq + p.gain2 * (slope * slope);
    let top = select(square, max_exp_avg_sq, max_exp_avg_sq >= square);
    return Next(p.keep * old - p.step * (average / (sqrt(top) * p.spread + p.eps)), average, square, top);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) ngroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let group = group_index(wid, ngroups);
    var slot = 0u;
    var start = 0u;
    if (group >= p.start1) {
        slot = 1u;
        start = p.start1;
    }
    if (group >= p.start2) {
        slot = 2u;
        start = p.start2;
    }
    if (group >= p.start3) {
        slot = 3u;
        start = p.start3;
    }
    if (group >= p.start4) {
        slot = 4u;
        start = p.start4;
    }
    if (group >= p.start5) {
        slot = 5u;
        start = p.start5;
    }
    let i = (group - start) * 256u + local;
    switch slot {
        case 0u: {
            if (i < p.count0) {
                let next = step(grad0[i], param0[i], exp_avg0[i], exp_avg_sq0[i], max_exp_avg_sq0[i]);
                param0[i] = next.param;
                exp_avg0[i] = next.exp_avg;
                exp_avg_sq0[i] = next.exp_avg_sq;
                max_exp_avg_sq0[i] = next.max_exp_avg_sq;
            }
        }
        case 1u: {
            if (i < p.count1) {
                let next = step(grad1[i], param1[i], exp_avg1[i], exp_avg_sq1[i], max_exp_avg_sq1[i]);
                param1[i] = next.param;
                exp_avg1[i] = next.exp_avg;
                exp_avg_sq1[i] = next.exp_avg_sq;
                max_exp_avg_sq1[i] = next.max_exp_avg_sq;
            }
        }
        case 2u: {
            if (i < p.count2) {
                let next = step(grad2[i], param2[i], exp_avg2[i], exp_avg_sq2[i], max_exp_avg_sq2[i]);
                param2[i] = next.param;
                exp_avg2[i] = next.exp_avg;
                exp_avg_sq2[i] = next.exp_avg_sq;
                max_exp_avg_sq2[i] = next.max_exp_avg_sq;
            }
        }
        case 3u: {
            if (i < p.count3) {
                let next = step(grad3[i], param3[i], exp_avg3[i], exp_avg_sq3[i], max_exp_avg_sq3[i]);
                param3[i] = next.param;
                exp_avg3[i] = next.exp_avg;
                exp_avg_sq3[i] = next.exp_avg_sq;
                max_exp_avg_sq3[i] = next.max_exp_avg_sq;
            }
        }
        case 4u: {
            if (i < p.count4) {
                let next = step(grad4[i], param4[i], exp_avg4[i], exp_avg_sq4[i], max_exp_avg_sq4[i]);
                param4[i] = next.param;
                exp_avg4[i] = next.exp_avg;
                exp_avg_sq4[i] = next.exp_avg_sq;
                max_exp_avg_sq4[i] = next.max_exp_avg_sq;
            }
        }
        case 5u: {
            if (i < p.count5) {
                let next = step(grad5[i], param5[i], exp_avg5[i], exp_avg_sq5[i], max_exp_avg_sq5[i]);
                param5[i] = next.param;
                exp_avg5[i] = next.exp_avg;
                exp_avg_sq5[i] = next.exp_avg_sq;
                max_exp_avg_sq5[i] = next.max_exp_avg_sq;
            }
        }
        default: {
        }
    }
}
