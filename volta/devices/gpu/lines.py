"""Convolution of lines, images of one row, on the GPU: without columns, where there are enough of them for the GPU to be full.

Knows tensors, the runtime's context and conv/lines.wgsl. Must not know derivatives.
"""
from __future__ import annotations

from volta.devices.gpu.common import ceil_div
from volta.devices.gpu.plans import At, Plan

TILE = 128                  # channels that a workgroup makes, where there are as many
LENGTH = 128                # of a line, of which it makes them
MOST_TAPS = 5               # that the registers of a thread reach
MOST_ROWS = 32              # of the weight in a step, of which threads read by fours
CHANNELS = 8                # of x, of a step, and at least
FULL = 3 / 4                # of a GPU's multiprocessors that have to have work


def takes(outputs: int, channels: int, x_shape: tuple, out_length: int, geometry: tuple, units: int) -> bool:
    """Whether a convolution is computed here. IN: geometry, its kernel, stride, dilation, padding of rows and groups; `units`, the
    number of the GPU's multiprocessors."""
    kernel, stride, dilation, padding, groups = geometry
    images, height = x_shape[0], x_shape[2]
    if not (height == kernel[0] == groups == 1 and padding == 0 and 2 <= kernel[1] <= MOST_TAPS and stride == (1, 1)
            and dilation[1] == 1):
        return False
    tile = _tile(outputs)
    tiles_o, tiles_l = ceil_div(outputs, tile), ceil_div(out_length, LENGTH)
    whole = 5 * tiles_l * LENGTH <= 6 * out_length and 5 * tiles_o * tile <= 6 * outputs
    return whole and channels >= CHANNELS and images * tiles_o * tiles_l >= FULL * units


def _tile(outputs: int) -> int:
    """Output channels that a workgroup makes: 64, where the last would have no more."""
    return TILE if (outputs - 1) % TILE >= TILE // 2 else TILE // 2


def add(plan: Plan, x, weight, bias, out, out_shape: tuple, padding: int, turned: bool = False) -> Plan:
    """out[N, O, 1, L'] of x[N, C, 1, L], whose lines have unit stride, and weight[O, C, 1, taps], or with `turned` [C, O, 1, taps]."""
    (images, channels, _, length), taps = x.shape, weight.shape[3]
    outputs, out_length = out_shape[1], out_shape[3]
    tile = _tile(outputs)
    tiles_o, tiles_l = ceil_div(outputs, tile), ceil_div(out_length, LENGTH)
    rows = weight.shape[1] * taps
    strides = (taps, rows) if turned else (rows, taps)
    whole = not (outputs % 4 or channels % CHANNELS)
    by_fours = not any(n % 4 for n in (x.offset, padding, length, *x._strides[:2])), (
        whole and not (turned or rows % 4 or weight.offset % 4) and CHANNELS * taps <= MOST_ROWS)
    overrides = {}
    for name, fours in zip(("X", "W"), by_fours):
        overrides |= {name: "vec4<f32>" if fours else "f32", f"{name}_WORD": 4 if fours else 1}
    if out_length % 4:
        overrides |= {"O": "f32", "OUT_WORD": 1, "put_four": "return;"}
    plan.step("conv/lines", (0, 1, None if bias is None else 2, out), (
        At(0), At(1), 0 if bias is None else At(2), images, channels, outputs, length, out_length, padding, *x._strides[:2], *strides,
        tiles_o, tiles_l), images * tiles_o * tiles_l,
        TAPS=taps, TILE_O=tile, WHOLE=whole, HAS_BIAS=bias is not None, TURNED=turned, **overrides)
    return plan
