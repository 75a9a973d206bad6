"""Teach a network to balance a pole on a cart by REINFORCE: what led to long balancing becomes likelier.

    python examples/reinforce.py --device cpu

Many carts are simulated side by side, on the device, and nothing is read back while they run. Ends with the mean number of steps for
which poles stay up: 495 of 500, after 5 seconds. reinforce.png shows how it came about.
"""
from __future__ import annotations

import math

import common

import volta
from volta import nn
from volta.nn import functional as F

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FARTHEST, STEEPEST = 2.4, 12 * math.pi / 180
GAMMA = 0.99


def move(state: volta.Tensor, right: volta.Tensor) -> volta.Tensor:
    """Position, speed, angle and its speed, a time step after a push to the right (1) or left (0). Shape: (carts, 4), (carts).
    Source: Barto, Sutton and Anderson 1983."""
    x, speed, angle, turning = state.unbind(1)
    sine, cosine = angle.sin(), angle.cos()
    push = ((2 * right - 1) * FORCE + POLE * HALF_LENGTH * turning.square() * sine) / (CART + POLE)
    falling = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - POLE * cosine.square() / (CART + POLE)))
    rushing = push - POLE * HALF_LENGTH * falling * cosine / (CART + POLE)
    return state + SECONDS * volta.stack([speed, rushing, turning, falling], 1)


@volta.no_grad()
def play(policy: nn.Module, carts: int, steps: int, device: volta.device) -> tuple[volta.Tensor, volta.Tensor, volta.Tensor]:
    """States, pushes, and 1 where the pole was still up. Shape: (steps, carts, 4), (steps, carts), (steps, carts)."""
    state, up = volta.rand(carts, 4, device=device) * 0.1 - 0.05, volta.ones(carts, device=device)
    states, pushes, alive = [], [], []
    for _ in range(steps):
        right = volta.bernoulli(policy(state)[:, 0].sigmoid())
        states.append(state)
        pushes.append(right)
        alive.append(up)
        state = move(state, right)
        up = up * ((state[:, 0].abs() < FARTHEST) & (state[:, 2].abs() < STEEPEST))
        state = volta.where(up[:, None] > 0, state, 0.0)            # what has fallen lies still
    return volta.stack(states), volta.stack(pushes), volta.stack(alive)


def returns(alive: volta.Tensor) -> volta.Tensor:
    """The discounted number of steps that are still to come: of n of them, (1 - GAMMA^n) / (1 - GAMMA)."""
    left = alive.flip(0).cumsum(0).flip(0)
    return (1 - GAMMA ** left) / (1 - GAMMA)


def main() -> None:
    parser = common.parser(__doc__, "reinforce-out", steps=100, quick=12)
    for name, full, quick in (("carts", 64, 64), ("longest", 500, 60)):
        common.add_size(parser, name, full, quick)
    options = common.start(parser)
    device = options.device
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    common.describe(policy, device)
    optimizer = volta.optim.Adam(policy.parameters(), lr=1e-2)
    progress = common.Progress(options.steps, "steps up")
    for _ in progress:
        states, pushes, alive = play(policy, options.carts, options.longest, device)
        gain = returns(alive)
        number = alive.sum()
        gain = (gain - (gain * alive).sum() / number) * alive
        gain = gain / (gain.square().sum() / number).sqrt().clamp(min=1e-6)
        optimizer.zero_grad()
        surprise = F.binary_cross_entropy_with_logits(policy(states)[..., 0], pushes, reduction="none")     # -log of its probability
        ((surprise * gain).sum() / number).backward()
        optimizer.step()
        progress.add(number / options.carts)
    progress.finish(rises=True)

    up = play(policy, 200, options.longest, device)[2].sum(0)
    whole = (up == options.longest).float().mean().item()
    print(f"200 poles: {up.mean().item():.1f} steps up on average, {whole:.1%} of them all {options.longest}")
    volta.save(policy.state_dict(), options.out / "reinforce.safetensors")
    if figure := common.figure(6, 4):
        axes = figure.subplots()
        axes.plot(progress.values, color="#1f4e8c")
        axes.set(xlabel="update", ylabel="steps up", ylim=(0, None))
        common.save_figure(figure, options.out / "reinforce.png")


if __name__ == "__main__":
    main()
