"""Random programs beside PyTorch: views, changes in place, indices good and bad, of all dtypes. After each step all tensors are compared,
so that a view which stopped being one, or a refused change that left traces, is seen; at the end the gradients are."""
import math
import random
import re

import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch", reason="compares with PyTorch")

DTYPES = ("float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
TOLERANCES = {"float16": 3e-3, "bfloat16": 2e-2}           # of float64 too, which holds what was computed in float32
POINTWISE = "exp sin tanh abs neg sign floor sqrt square relu sigmoid isnan logical_not reciprocal".split()
PAIRS = "maximum minimum fmod remainder hypot eq ne lt logical_and logical_xor atan2 copysign".split()
REDUCED = "sum mean amax amin prod all any logsumexp argmax count_nonzero std cumsum cumprod sort softmax".split()
CHANGED = "add_ sub_ mul_ div_ copy_ fmod_ lt_ atan2_ fill_".split()


class Program:
    """Steps as text, in which `L` is the library and p0, p1... are tensors."""

    def __init__(self, seed):
        self.draw, self.count, self.shapes = random.Random(seed), 0, {}

    def one(self):
        return self.draw.choice(list(self.shapes)[-5:])

    def named(self, text):
        """The shapes of the tensors in a step."""
        return [self.shapes[name] for name in re.findall(r"p\d+", text)]

    def dim(self, name):
        rank = len(self.shapes[name])
        return self.draw.randint(-rank, max(rank - 1, 0)) if self.draw.random() < 0.95 else self.draw.choice([rank, -rank - 1, 9])

    def made(self):
        shape = tuple(self.draw.choice([0, 1, 1, 2, 3, 4]) for _ in range(self.draw.choice([0, 1, 2, 2, 3])))
        dtype, size = self.draw.choice(DTYPES), math.prod(shape)
        known = {"uint8": [0, 1, 2, 3, 4, 5], "bool": [0, 1]}.get(dtype, [0.5, -1.5, 2, -3, 4, 0, -0.25] if "float" in dtype
                                                                 else [-4, -1, 0, 1, 2, 3])
        values = [self.draw.choice(known) for _ in range(size)]
        leaf = ".requires_grad_()" if dtype in ("float32", "float64") and self.draw.random() < 0.4 else ""
        return f"L.tensor({values}, dtype=L.{dtype}).reshape({shape}).detach(){leaf}"

    def index(self):
        def part():
            ends = [self.draw.choice([None, 0, 1, 2, -1, -2, 7, -7]) for _ in range(2)]
            places = [self.draw.choice([0, 0, 1, -1, 4]) for _ in range(2)]
            return self.draw.choice(["None", "...", repr(self.draw.choice([0, 1, -1, 5])), "slice(None, None, 2)",
                                     f"slice({ends[0]}, {ends[1]}, None)", f"L.tensor({places})"])
        return "(" + "".join(part() + ", " for _ in range(self.draw.randint(0, 2))) + ")"

    def value(self):
        x, y = self.one(), self.one()
        number = self.draw.choice(["2", "-1", "0.5", "True"])
        other = y if self.draw.random() < 0.6 else number
        return self.draw.choice([
            f"{x}.transpose({self.dim(x)}, {self.dim(x)})", f"{x}[{self.index()}]", f"{x}.unsqueeze({self.dim(x)})", f"{x}.squeeze()",
            f"{x}.flip({self.dim(x)})", f"{x}.narrow({self.dim(x)}, {self.draw.choice([0, 1, -1])}, {self.draw.choice([1, 2, 0])})",
            f"{x}.expand(2, *{self.shapes[x]})", f"{x}.reshape(-1)", f"{x}.diagonal({self.draw.choice([0, 1, -1])})", f"{x}.detach()",
            f"{x}.unbind({self.dim(x)})[-1]", f"{x}.unfold({self.dim(x)}, 2, 2)", f"{x}.movedim({self.dim(x)}, {self.dim(x)})",
            f"{x} {self.draw.choice(['+', '-', '*', '/', '<', '==', '>='])} {other}", f"L.{self.draw.choice(PAIRS)}({x}, {y})",
            f"{x}.{self.draw.choice(POINTWISE)}()", f"{x}.{self.draw.choice(REDUCED)}(dim={self.dim(x)})",
            f"L.where({x} > 0, {y}, {number})",
            f"L.cat([{x}, {y}], {self.dim(x)})", f"{x}.masked_fill({x} > 0, {number})", f"{x}.clamp({number}, 3)", self.made()])

    def change(self):
        x, y = self.one(), self.one()
        other = y if self.draw.random() < 0.5 else self.draw.choice(["2", "-1", "0.5", "True"])
        places = [self.draw.choice([0, 0, 1, -1, 5])]
        return self.draw.choice([
            f"{x}.{self.draw.choice(CHANGED)}({other})", f"{x}.{self.draw.choice(POINTWISE[:5])}_()",
            f"{x}.__setitem__({self.index()}, {other})",
            f"{x}.index_add_({self.dim(x)}, L.tensor({places}), {y})",
            f"{x}.index_fill_({self.dim(x)}, L.tensor({places if all(self.shapes[x]) else [0]}), 2)",
            f"{x}.index_put_((L.tensor({places}),), {y}, accumulate=True)", f"{x}.transpose_({self.dim(x)}, {self.dim(x)})",
            f"{x}.unbind()[0].mul_(2)", f"{x}.diagonal().fill_(3)", f"{x}.zero_()", f"{x}.data.fill_(1)",
            f"L.neg({x}.detach(), out={x}.detach())"])


def differ(theirs, ours):
    """In what two results differ; None for nothing."""
    if isinstance(theirs, (tuple, list)):
        return next((found for pair in zip(theirs, ours) if (found := differ(*pair))), None)
    if not isinstance(theirs, torch.Tensor):
        return None
    facts = [(tuple(t.shape), str(t.dtype).rpartition(".")[2], t.requires_grad, t.stride() if t.numel() > 1 and 1 not in t.shape else None)
             for t in (theirs, ours)]
    if facts[0] != facts[1]:
        return facts
    values = [(t.detach().float() if t.dtype.itemsize == 2 and t.is_floating_point() else t.detach().clone()).numpy().astype(np.float64)
              for t in (theirs, ours)]
    tolerance = TOLERANCES.get(facts[0][1], 1e-4)
    return None if np.allclose(*values, rtol=tolerance, atol=tolerance, equal_nan=True) else values


def run(seed):
    program, worlds, lines = Program(seed), ({"L": torch}, {"L": volta}), []

    def step(text):
        found = []
        for world in worlds:
            try:
                found.append(eval(text, world))
            except Exception as error:
                found.append(error)
        lines.append(text)
        theirs, ours = found
        if isinstance(theirs, RuntimeError) and ("single memory location" in str(theirs) or "not implemented for" in str(theirs)):
            return None
        if isinstance(ours, IndexError) and not isinstance(theirs, Exception) and any(0 in s for s in program.named(text)):
            return None                 # PyTorch does not look at indices of nothing
        assert isinstance(theirs, Exception) == isinstance(ours, Exception), (found, lines)
        if isinstance(theirs, Exception):
            assert isinstance(ours, (RuntimeError, ValueError, TypeError, IndexError)), (found, lines)
        elif (apart := differ(theirs, ours)) is not None:
            raise AssertionError((apart, lines))
        return found

    for i in range(14):
        text = program.made() if i < 3 else program.value() if program.draw.random() < 0.6 else program.change()
        before = {name: worlds[1][name].detach().clone() for name in program.shapes}
        found = step(text)
        if found is None:
            return
        if isinstance(found[0], Exception):
            for name, value in before.items():
                now = worlds[1][name].detach()
                assert now.shape == value.shape, (name, lines)
                assert np.array_equal(now.double().numpy(), value.double().numpy(), equal_nan=True), (name, lines)
            if any(differ(*[world[name] for world in worlds]) for name in program.shapes):
                return          # what PyTorch refuses may have been done in part
        if isinstance(found[0], torch.Tensor) and found[0].numel() < 2000 and not any(found[0] is worlds[0][n] for n in program.shapes):
            name = f"p{len(program.shapes)}"
            program.shapes[name] = tuple(found[0].shape)
            lines[-1] = f"{name} = {text}"
            for world, value in zip(worlds, found):
                world[name] = value
        for name in program.shapes:
            apart = differ(*[world[name] for world in worlds])
            assert apart is None, (name, apart, lines)
            program.shapes[name] = tuple(worlds[0][name].shape)
    gradients = []
    for world in worlds:
        tensors = [world[name] for name in program.shapes]
        ends = [t for t in tensors if t.requires_grad and not t.is_leaf and t.is_floating_point()]
        leaves = [t for t in tensors if t.requires_grad and t.is_leaf]
        if not ends or not leaves:
            return
        try:
            gradients.append(world["L"].autograd.grad([(t * t).sum().double() for t in ends], leaves,
                                                      [world["L"].ones((), dtype=world["L"].float64) for _ in ends], allow_unused=True))
        except RuntimeError:
            gradients.append(None)
    if gradients[0] is not None:
        assert gradients[1] is not None, lines
        for theirs, ours in zip(*gradients):
            assert (theirs is None) == (ours is None), lines
            if theirs is not None and bool(theirs.isfinite().all()):
                assert differ(theirs.contiguous(), ours.contiguous()) is None, (theirs, ours, lines)


@pytest.mark.parametrize("seed", range(0, 400, 20))
def test_programs_do_as_pytorch(seed):
    for each in range(seed, seed + 20):
        try:
            run(each)
        except RuntimeError as error:
            if "view of its base has been modified inplace" not in str(error):          # PyTorch's tensor is of no use any more
                raise
