// update_sgd: one step of stochastic gradient descent, in place, as torch.optim.SGD.
//
// Bindings: 0 grad (read), 1 param (read_write), 2 buffer (read_write; a spare one without MOMENTUM).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread updates one V; count is in V's.
// Sums:     none.

alias V = vec4<f32>;
const MOMENTUM: bool = true;

struct Params {
    count: u32, grad_offset: u32, param_offset: u32, buffer_offset: u32,
    first: u32, nesterov: u32, lr: f32, momentum: f32,
    gain: f32, weight_decay: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> grad: array<V>;
@group(0) @binding(1) var<storage, read_write> param: array<V>;
@group(0) @binding(2) var<storage, read_write> buffer: array<V>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) ngroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let i = group_index(wid, ngroups) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let old = param[p.param_offset + i];
    var slope = grad[p.grad_offset + i];
    if (p.weight_decay != 0.0) {
        slope += p.weight_decay * old;
    }
    if (MOMENTUM) {
        var velocity = slope;
        if (p.first == 0u) {
            velocity = p.momentum * buffer[p.buffer_offset + i] + p.gain * slope;
        }
        buffer[p.buffer_offset + i] = velocity;
        if (p.nesterov != 0u) {
            slope += p.momentum * velocity;
        } else {
            slope = velocity;
        }
    }
    param[p.param_offset + i] = old - p.lr * slope;
}
