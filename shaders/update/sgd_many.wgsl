// update_sgd_many: update_sgd with momentum for up to ten parameters in one dispatch.
//
// Workgroups from start_s on belong to parameter s; places that are not used have count 0 and start where the grid ends.
//
// Bindings: 0..9 grad (read), then param, buffer of each place (read_write; spare buffers where not used).
// Launch:   x = sum of ceil(count_s / 256) workgroups of 256; a thread updates one V; counts are in V's; no offsets.
// Sums:     none.

alias V = vec4<f32>;

struct Params {
    count0: u32, count1: u32, count2: u32, count3: u32,
    count4: u32, count5: u32, count6: u32, count7: u32,
    count8: u32, count9: u32, start1: u32, start2: u32,
    start3: u32, start4: u32, start5: u32, start6: u32,
    start7: u32, start8: u32, start9: u32, first: u32,
    nesterov: u32, lr: f32, momentum: f32, gain: f32,
    weight_decay: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> grad0: array<V>;
@group(0) @binding(1) var<storage, read> grad1: array<V>;
@group(0) @binding(2) var<storage, read> grad2: array<V>;
@group(0) @binding(3) var<storage, read> grad3: array<V>;
@group(0) @binding(4) var<storage, read> grad4: array<V>;
@group(0) @binding(5) var<storage, read> grad5: array<V>;
@group(0) @binding(6) var<storage, read> grad6: array<V>;
@group(0) @binding(7) var<storage, read> grad7: array<V>;
@group(0) @binding(8) var<storage, read> grad8: array<V>;
@group(0) @binding(9) var<storage, read> grad9: array<V>;
@group(0) @binding(10) var<storage, read_write> param0: array<V>;
@group(0) @binding(11) var<storage, read_write> buffer0: array<V>;
@group(0) @binding(12) var<storage, read_write> param1: array<V>;
@group(0) @binding(13) var<storage, read_write> buffer1: array<V>;
@group(0) @binding(14) var<storage, read_write> param2: array<V>;
@group(0) @binding(15) var<storage, read_write> buffer2: array<V>;
@group(0) @binding(16) var<storage, read_write> param3: array<V>;
@group(0) @binding(17) var<storage, read_write> buffer3: array<V>;
@group(0) @binding(18) var<storage, read_write> param4: array<V>;
@group(0) @binding(19) var<storage, read_write> buffer4: array<V>;
@group(0) @binding(20) var<storage, read_write> param5: array<V>;
@group(0) @binding(21) var<storage, read_write> buffer5: array<V>;
@group(0) @binding(22) var<storage, read_write> param6: array<V>;
@group(0) @binding(23) var<storage, read_write> buffer6: array<V>;
@group(0) @binding(24) var<storage, read_write> param7: array<V>;
@group(0) @binding(25) var<storage, read_write> buffer7: array<V>;
@group(0) @binding(26) var<storage, read_write> param8: array<V>;
@group(0) @binding(27) var<storage, read_write> buffer8: array<V>;
@group(0) @binding(28) var<storage, read_write> param9: array<V>;
@group(0) @binding(29) var<storage, read_write> buffer9: array<V>;

struct Next {
    param: V, buffer: V,
}

fn step(grad: V, old: V, buffer: V) -> Next {
    var slope = grad;
    if (p.weight_decay != 0.0) {
        slope += p.weight_decay * old;
    }
    var velocity = slope;
    if (p.first == 0u) {
        velocity = p.momentum * buffer + p.gain * slope;
    }
    if (p.nesterov != 0u) {
        slope += p.momentum * velocity;
    } else {
        slope = velocity;
    }
    return Next(old - p.lr * slope, velocity);
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
    if (group >= p.start6) {
        slot = 6u;
        start = p.start6;
    }
    if (group >= p.start7) {
        slot = 7u;
        start = p.start7;
    }
    if (group >= p.start8) {
        slot = 8u;
        start = p.start8;
    }
    if (group >= p.start9) {
        slot = 9u;
        start = p.start9;
    }
    let i = (group - start) * 256u + local;
    switch slot {
        case 0u: {
            if (i < p.count0) {
                let next = step(grad0[i], param0[i], buffer0[i]);
                param0[i] = next.param;
                buffer0[i] = next.buffer;
            }
        }
        case 1u: {
            if (i < p.count1) {
                let next = step(grad1[i], param1[i], buffer1[i]);
                param1[i] = next.param;
                buffer1[i] = next.buffer;
            }
        }
        case 2u: {
            if (i < p.count2) {
                let next = step(grad2[i], param2[i], buffer2[i]);
                param2[i] = next.param;
                buffer2[i] = next.buffer;
            }
        }
        case 3u: {
            if (i < p.count3) {
                let next = step(grad3[i], param3[i], buffer3[i]);
                param3[i] = next.param;
                buffer3[i] = next.buffer;
            }
        }
        case 4u: {
            if (i < p.count4) {
                let next = step(grad4[i], param4[i], buffer4[i]);
                param4[i] = next.param;
                buffer4[i] = next.buffer;
            }
        }
        case 5u: {
            if (i < p.count5) {
                let next = step(grad5[i], param5[i], buffer5[i]);
                param5[i] = next.param;
                buffer5[i] = next.buffer;
            }
        }
        case 6u: {
            if (i < p.count6) {
                let next = step(grad6[i], param6[i], buffer6[i]);
                param6[i] = next.param;
                buffer6[i] = next.buffer;
            }
        }
        case 7u: {
            if (i < p.count7) {
                let next = step(grad7[i], param7[i], buffer7[i]);
                param7[i] = next.param;
                buffer7[i] = next.buffer;
            }
        }
        case 8u: {
            if (i < p.count8) {
                let next = step(grad8[i], param8[i], buffer8[i]);
                param8[i] = next.param;
                buffer8[i] = next.buffer;
            }
        }
        case 9u: {
            if (i < p.count9) {
                let next = step(grad9[i], param9[i], buffer9[i]);
                param9[i] = next.param;
                buffer9[i] = next.buffer;
            }
        }
        default: {
        }
    }
}
