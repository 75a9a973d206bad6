// ctc_grad: dx[t, n, c] = g[n] * (exp(x) - the probability of class c at step t among the alignments of sequence n); 0 behind its end.
//
// Bindings: 0 g[N], 1 x[T, N, C], 2 labels[N, S], 3 inputs[N], 4 lengths[N], 5 loss[N], 6 alphas, 7 betas (read); 8 dx (read_write).
// Launch:   one thread per element of x. Sums: in f32, over the states in their order.

struct Params {
    steps: u32, batch: u32, classes: u32, most: u32, blank: u32,
    g_offset: u32, x_offset: u32, labels_offset: u32, inputs_offset: u32, lengths_offset: u32, loss_offset: u32, alphas_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> labels: array<i32>;
@group(0) @binding(3) var<storage, read> inputs: array<i32>;
@group(0) @binding(4) var<storage, read> lengths: array<i32>;
@group(0) @binding(5) var<storage, read> loss: array<f32>;
@group(0) @binding(6) var<storage, read> alphas: array<f32>;
@group(0) @binding(7) var<storage, read> betas: array<f32>;
@group(0) @binding(8) var<storage, read_write> dx: array<f32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.steps * p.batch * p.classes) { return; }
    let c = i % p.classes;
    let n = i / p.classes % p.batch;
    let t = i / p.classes / p.batch;
    let width = 2u * p.most + 1u;
    let count = 2u * u32(clamp(lengths[p.lengths_offset + n], 0, i32(p.most))) + 1u;
    if (t >= u32(clamp(inputs[p.inputs_offset + n], 0, i32(p.steps)))) {
        dx[i] = 0.0;
        return;
    }
    let total = loss[p.loss_offset + n];
    if (is_nan(total)) {
        dx[i] = nan();
        return;
    }
    let scale = g[p.g_offset + n];
    let here = x[p.x_offset + i];
    var found = 0.0;
    if (!is_nan(here)) { found = scale * exp_accurate(here); }
    if (total < 3.4e38) {
        let row = (n * p.steps + t) * width;
        for (var s = 0u; s < count; s++) {
            let label = ctc_state(labels[p.labels_offset + n * p.most + min(s / 2u, max(p.most, 1u) - 1u)], s, p.classes, p.blank);
            let a = alphas[p.alphas_offset + row + s];
            let b = betas[row + s];
            if (label == c && a > -3.4e38 && b > -3.4e38) { found -= scale * exp_accurate(a + b + total); }
        }
    }
    dx[i] = found;
}
