"""How times grow: what an operation costs beside its work, time against size from a thousand to a hundred million elements, and what
more threads give to large products and convolutions."""
from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from timing import ASLEEP, alternate, header, row

import volta

LIBRARIES = {"volta": volta, "torch": torch}


def chain(x, length: int):
    z = x
    for _ in range(length):
        z = z + x
    return z


def overhead(rounds: int) -> None:
    """`z = z + x` without and with grad, and with the backward of such a chain, by its elements. Units: microseconds an operation."""
    print(header("z = z + x, float32, a chain; per operation, ratio volta / torch", "us"))
    for side, length in ((32, 1000), (64, 1000), (512, 100), (2048, 4)):
        xs = {name: lib.randn(side, side, requires_grad=True) for name, lib in LIBRARIES.items()}

        def backward(x, length=length):
            x.grad = None
            chain(x, length).sum().backward()
        for title, function in (("no grad", lambda x, n=length: chain(x.detach(), n)), ("forward", lambda x, n=length: chain(x, n)),
                                ("forward + backward", backward)):
            times = alternate({name: lambda x=x, f=function: f(x) for name, x in xs.items()}, rounds=rounds, asleep=ASLEEP)
            print(row(f"{side * side} elements, {title}", times, unit=1e6 / length), flush=True)


def least(function: Callable[[], object], seconds: float = 0.1) -> float:
    """The least time of a call, of three or more."""
    time.sleep(ASLEEP)
    function()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def square(n: int) -> tuple[int, int]:
    return math.isqrt(n), math.isqrt(n)


# Name, what the work grows with the elements by (its power), shapes(elements), function(library, *tensors)
SIZES = (("x + y", 1.0, lambda n: [(n,)], lambda lib, x: x + x), ("exp", 1.0, lambda n: [(n,)], lambda lib, x: x.exp()),
         ("sum", 1.0, lambda n: [(n,)], lambda lib, x: x.sum()), ("cumsum", 1.0, lambda n: [(n,)], lambda lib, x: x.cumsum(0)),
         ("softmax of rows of 1000", 1.0, lambda n: [(n // 1000, 1000)], lambda lib, x: x.softmax(1)),
         ("transposed copy", 1.0, lambda n: [square(n)], lambda lib, x: x.t().contiguous()),
         ("matmul of squares", 1.5, lambda n: [square(n)], lambda lib, x: x @ x),
         ("conv2d of 16 channels", 1.0, lambda n: [(1, 16, *square(n // 16)), (16, 16, 3, 3)],
          lambda lib, x, w: lib.nn.functional.conv2d(x, w, padding=1)))


def sizes() -> None:
    """The slope is that of time in powers of the work, from a hundred thousand elements on: 1 where time grows as the work does."""
    counts = [10 ** k for k in range(3, 9)]
    print(f"\ntime against size, microseconds\n{'elements':32s}" + "".join(f"{n:>11.0e}" for n in counts) + "   slope")
    for name, growth, shapes, function in SIZES:
        slopes = {}
        for library, lib in LIBRARIES.items():
            top = counts if growth == 1.0 else counts[:-1]              # a square of 100 million would take a minute
            times = []
            for n in top:
                xs = [lib.ones(*shape) for shape in shapes(n)]
                times.append(least(lambda f=function, lib=lib, xs=xs: f(lib, *xs)))
            slopes[library] = math.log10(times[-1] / times[2]) / (growth * (len(top) - 3))
            print(f"{name + ', ' + library:32s}" + "".join(f"{t * 1e6:11.1f}" for t in times) + " " * 11 * (len(counts) - len(top))
                  + f"{slopes[library]:8.2f}", flush=True)


def large(lib) -> dict[str, Callable[[], object]]:
    """Products and convolutions of a billion operations and more."""
    def random(*shape: int):
        return lib.randn(*shape)
    a, b, image, weight = random(1024, 1024), random(1024, 1024), random(16, 64, 32, 32), random(64, 64, 3, 3)
    many, linear, deep = random(64, 256, 256), random(2048, 512), random(16, 256, 16, 16)
    narrow, q = random(256, 256, 3, 3), random(2, 8, 1024, 64)
    functional = lib.nn.functional
    return {"matmul 1024": lambda: a @ b, "64 x matmul 256": lambda: many @ many, "linear 2048 x 512 x 1024": lambda: linear @ a[:512],
            "conv2d 3x3 64 at 32": lambda: functional.conv2d(image, weight, padding=1),
            "conv2d 3x3 256 at 16": lambda: functional.conv2d(deep, narrow, padding=1),
            "attention 1024 x 64": lambda: functional.scaled_dot_product_attention(q, q, q)}


def scaling(threads: int, turns: int = 5) -> None:
    """One thread's time over that of all of them; both, of both libraries, in turns, since a shared machine's speed changes."""
    print(f"\nscaling: time of 1 thread / time of {threads}\n{'':34s} {'volta':>9s} {'torch':>9s}")
    calls = {library: large(lib) for library, lib in LIBRARIES.items()}
    for name in calls["volta"]:
        found = {(library, count): math.inf for library in LIBRARIES for count in (1, threads)}
        for library, count in list(found) * turns:
            LIBRARIES[library].set_num_threads(count)
            found[library, count] = min(found[library, count], least(calls[library][name], 0.06))
        gains = [found[library, 1] / found[library, threads] for library in LIBRARIES]
        print(f"{name:34s} {gains[0]:9.2f} {gains[1]:9.2f}", flush=True)
