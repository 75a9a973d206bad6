"""The gradient of a convolution's input tap by tap, with no padding: next to it, infinite weights would meet zeros and give NaN."""
from math import prod

import numpy as np

from volta._kernels.cpu.decomposition import kernel


@kernel
def input_gradient_by_taps(g, weight, size, stride, padding, dilation, groups):
    """x[N, C, *size] of g[N, O, ...] and weight[O, C / groups, ...], for images and volumes."""
    places, taps, channels = g.shape[2:], weight.shape[2:], weight.shape[1]
    g = g.reshape(len(g), groups, -1, prod(places))
    weight = weight.reshape(groups, -1, channels, *taps)
    reach = [max(n + 2 * p, (m - 1) * s + (k - 1) * d + 1) for n, p, m, s, k, d in zip(size, padding, places, stride, taps, dilation)]
    out = np.zeros((len(g), groups * channels, *reach), g.dtype)
    for tap in np.ndindex(taps):
        part = np.swapaxes(weight[(..., *tap)], 1, 2) @ g
        seen = [slice(k * d, k * d + (m - 1) * s + 1, s) for k, d, m, s in zip(tap, dilation, places, stride)]
        out[(..., *seen)] += part.reshape(len(g), -1, *places)
    return out[(..., *[slice(p, p + n) for p, n in zip(padding, size)])]
