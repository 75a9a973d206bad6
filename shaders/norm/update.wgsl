// norm_update: running = (1 - momentum) * running + momentum * batch, for the mean and the unbiased variance, in place.
//
// The batch variance comes back from rstd: 1 / rstd^2 - eps.
//
// Bindings: 0 mean, 1 rstd (read), 2 running_mean, 3 running_var (read_write).
// Launch:   x = ceil(channels / 64) workgroups of 64; a thread does one channel.
// Sums:     none.

struct Params {
    channels: u32, mean_offset: u32, rstd_offset: u32, running_mean_offset: u32,
    running_var_offset: u32, momentum: f32, decay: f32, eps: f32, unbias: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> mean: array<f32>;
@group(0) @binding(1) var<storage, read> rstd: array<f32>;
@group(0) @binding(2) var<storage, read_write> running_mean: array<f32>;
@group(0) @binding(3) var<storage, read_write> running_var: array<f32>;

@compute @workgroup_size(64)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let channel = group_of(grid) * 64u + local;
    if (channel >= p.channels) {
        return;
    }
    let inverse = rstd[p.rstd_offset + channel];
    let variance = (1.0 / (inverse * inverse) - p.eps) * p.unbias;
    let at_mean = p.running_mean_offset + channel;
    let at_var = p.running_var_offset + channel;
    running_mean[at_mean] = p.decay * running_mean[at_mean] + p.momentum * mean[p.mean_offset + channel];
    running_var[at_var] = p.decay * running_var[at_var] + p.momentum * variance;
}
