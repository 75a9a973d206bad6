"""Calls of normalisations, pooling and variances that both tables time: label, shapes of the arguments, function(library, *tensors)."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

IMAGES, WIDE = (32, 64, 28, 28), (64, 128, 56, 56)


def calls(large: bool) -> list[tuple[str, list[tuple[int, ...]], Callable]]:
    """The table's rows; `large` for a GPU."""
    images, rows = (WIDE if large else IMAGES), ((64, 512), (4096, 768)) + ((16384, 1024), (4096, 8192)) * large
    channels = images[1:2]
    found = []
    for shape in rows:
        last = shape[-1:]
        found += [(f"layer_norm {shape}", [shape, last, last], lambda lib, x, w, b, s=last: lib.nn.functional.layer_norm(x, s, w, b)),
                  (f"rms_norm {shape}", [shape, last], lambda lib, x, w, s=last: lib.nn.functional.rms_norm(x, s, w)),
                  *[(f"var {shape} dim {d}", [shape], lambda lib, x, d=d: lib.var(x, d)) for d in (0, 1)]]
    found += [(f"group_norm {images}, {n} groups", [images, channels, channels],
               lambda lib, x, w, b, n=n: lib.nn.functional.group_norm(x, n, w, b)) for n in (8, 32)]
    found += [(f"instance_norm {images}", [images, channels, channels],
               lambda lib, x, w, b: lib.nn.functional.instance_norm(x, None, None, w, b)),
              (f"var {images} dim (0, 2, 3)", [images], lambda lib, x: lib.var(x, (0, 2, 3)))]
    line, volume = (images[0], images[1], images[2] * images[3]), (images[0] // 4, images[1] // 4, 16, *images[2:])
    for name, shape, arguments in (("max_pool2d", images, (2,)), ("max_pool2d", images, (3, 2, 1)), ("avg_pool2d", images, (2,)),
                                   ("avg_pool2d", images, (3, 2, 1)), ("adaptive_avg_pool2d", images, (7,)),
                                   ("adaptive_avg_pool2d", images, (1,)), ("adaptive_max_pool2d", images, (7,)),
                                   ("max_pool1d", line, (3, 2, 1)), ("avg_pool1d", line, (3, 2, 1)), ("max_pool3d", volume, (2,)),
                                   ("avg_pool3d", volume, (2,))):
        found.append((f"{name}{arguments} {shape}", [shape],
                      lambda lib, x, name=name, a=arguments: getattr(lib.nn.functional, name)(x, *a)))
    return found


def both_ways(lib, device: str, arguments: list, function: Callable) -> tuple[Callable, Callable]:
    """(forward, forward and backward) of a call on tensors of a fixed seed; an argument is a shape, or an array of integers."""
    rng = np.random.default_rng(0)
    inputs = [lib.tensor(a, device=device) if isinstance(a, np.ndarray) else
              lib.tensor(rng.standard_normal(a, dtype=np.float32), device=device, requires_grad=True) for a in arguments]
    plain, wanted = [x.detach() for x in inputs], [x for x in inputs if x.requires_grad]
    g = lib.tensor(rng.standard_normal(tuple(function(lib, *plain).shape), dtype=np.float32), device=device)

    def backward():
        return lib.autograd.grad(function(lib, *inputs), wanted, g)[0]
    return lambda: function(lib, *plain), backward
