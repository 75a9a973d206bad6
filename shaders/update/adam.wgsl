// update_adam: one step of Adam or AdamW, in place, as torch.optim.Adam and torch.optim.AdamW.
//
// Bindings: 0 grad (read), 1 param, 2 exp_avg, 3 exp_avg_sq (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread updates one V; count is in V's.
// Sums:     none.
//
// The host gives the factors ready-made, in the precision of a Python float: keep = 1 - lr * decoupled decay,
// step = lr / correction1, spread = 1 / sqrt(correction2), gain1 = 1 - beta1, gain2 = 1 - beta2.

alias V = vec4<f32>;

struct Params {
    count: u32, grad_offset: u32, param_offset: u32, exp_avg_offset: u32,
    exp_avg_sq_offset: u32, weight_decay: f32, keep: f32, gain1: f32,
    beta2: f32, gain2: f32, spread: f32, eps: f32,
    step: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> grad: array<V>;
@group(0) @binding(1) var<storage, read_write> param: array<V>;
@group(0) @binding(2) var<storage, read_write> exp_avg: array<V>;
@group(0) @binding(3) var<storage, read_write> exp_avg_sq: array<V>;

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
    let at_avg = p.exp_avg_offset + i;
    let at_sq = p.exp_avg_sq_offset + i;
    let average = exp_avg[at_avg] + p.gain1 * (slope - exp_avg[at_avg]);
    let square = p.beta2 * exp_avg_sq[at_sq] + p.gain2 * (slope * slope);
    exp_avg[at_avg] = average;
    exp_avg_sq[at_sq] = square;
    param[p.param_offset + i] = p.keep * old - p.step * (average / (sqrt(square) * p.spread + p.eps));
}
