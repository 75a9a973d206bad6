"""The table's training steps in pure JAX (jax.numpy, jax.nn and jit; Adam and SGD by hand), as one of its users would write them for a
CPU: images as (batch, height, width, channels), recurrences by `lax.scan`."""
from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from models import MODELS

rng = np.random.default_rng(0)


def normal(*shape: int, fan: int | None = None) -> jax.Array:
    return jnp.asarray(rng.standard_normal(shape, dtype=np.float32) * (fan or np.prod(shape[:-1])) ** -0.5)


def dense(inputs: int, outputs: int) -> dict:
    return {"w": normal(inputs, outputs), "b": jnp.zeros(outputs)}


def linear(p: dict, x: jax.Array) -> jax.Array:
    return x @ p["w"] + p["b"]


def unit(inputs: int, outputs: int, size: int = 3, bias: bool = False) -> dict:
    """A convolution with what its normalisation needs."""
    return {"w": normal(size, size, inputs, outputs), "scale": jnp.ones(outputs), "shift": jnp.zeros(outputs)} | (
        {"b": jnp.zeros(outputs)} if bias else {})


def convolved(p: dict, x: jax.Array, stride: int = 1) -> jax.Array:
    """Convolution and batch normalisation. The running figures, which no gradient needs, are left out: in JAX's favour."""
    pad = p["w"].shape[0] // 2
    y = lax.conv_general_dilated(x, p["w"], (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")) + p.get("b", 0)
    mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
    return (y - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]


def pooled(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def mlp() -> tuple[dict, Callable]:
    def forward(p, x):
        return linear(p["c"], nn.relu(linear(p["b"], nn.relu(linear(p["a"], x)))))
    return {"a": dense(784, 512), "b": dense(512, 512), "c": dense(512, 10)}, forward


def mnist_cnn() -> tuple[dict, Callable]:
    def forward(p, x):
        x = x.transpose(0, 2, 3, 1)
        for name in ("a", "b"):
            x = pooled(nn.relu(convolved(p[name], x)))
        return linear(p["head"], x.reshape(len(x), -1))
    return {"a": unit(1, 32, bias=True), "b": unit(32, 64, bias=True), "head": dense(64 * 7 * 7, 10)}, forward


def resnet18() -> tuple[dict, Callable]:
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    pairs = list(zip(widths, widths[1:]))
    p = {"stem": unit(3, 64), "head": dense(512, 10), "blocks": [
        {"a": unit(n, m), "b": unit(m, m)} | ({} if n == m else {"short": unit(n, m, 1)}) for n, m in pairs]}

    def forward(p, x):
        x = nn.relu(convolved(p["stem"], x.transpose(0, 2, 3, 1)))
        for block, (n, m) in zip(p["blocks"], pairs):
            stride = 1 if n == m else 2
            short = convolved(block["short"], x, stride) if "short" in block else x
            x = nn.relu(convolved(block["b"], nn.relu(convolved(block["a"], x, stride))) + short)
        return linear(p["head"], x.mean((1, 2)))
    return p, forward


def layer_norm(p: dict, x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["w"] + p["b"]


def gpt(layers: int = 4, width: int = 128, heads: int = 4, length: int = 128, words: int = 96) -> tuple[dict, Callable]:
    def norm():
        return {"w": jnp.ones(width), "b": jnp.zeros(width)}
    p = {"word": normal(words, width, fan=2500), "place": normal(length, width, fan=1), "norm": norm(), "blocks": [
        {"norm1": norm(), "norm2": norm(), "qkv": dense(width, 3 * width), "out": dense(width, width), "up": dense(width, 4 * width),
         "down": dense(4 * width, width)} for _ in range(layers)]}

    def forward(p, tokens):
        batch, n = tokens.shape
        x = p["word"][tokens] + p["place"][:n]
        for block in p["blocks"]:
            q, k, v = (part.reshape(batch, n, heads, -1) for part in jnp.split(linear(block["qkv"], layer_norm(block["norm1"], x)), 3, -1))
            x = x + linear(block["out"], nn.dot_product_attention(q, k, v, is_causal=True).reshape(batch, n, width))
            x = x + linear(block["down"], nn.gelu(linear(block["up"], layer_norm(block["norm2"], x)), approximate=True))
        return (layer_norm(p["norm"], x) @ p["word"].T).reshape(-1, words)
    return p, forward


def lstm(size: int = 128) -> tuple[dict, Callable]:
    def forward(p, x):
        gates = linear(p["input"], x).transpose(1, 0, 2)

        def step(state, z):
            h, c = state
            i, f, g, o = jnp.split(z + linear(p["state"], h), 4, -1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), None
        zeros = jnp.zeros((len(x), size))
        (h, _), _ = lax.scan(step, (zeros, zeros), gates)
        return linear(p["head"], h)
    return {"input": dense(size, 4 * size), "state": dense(size, 4 * size), "head": dense(size, 10)}, forward


NETWORKS = {"mlp": mlp, "mnist_cnn": mnist_cnn, "resnet18 32x32": resnet18, "char GPT 4x128": gpt, "LSTM 128": lstm}


def adam(p, state, g, rate: float = 1e-3):
    """Source: Kingma and Ba 2015, algorithm 1, in the order of PyTorch's operations."""
    m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: m + 0.1 * (g - m), m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    size, root = rate / (1 - 0.9 ** t), jnp.sqrt(1 - 0.999 ** t)
    return jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) / root + 1e-8), p, m, v), (m, v, t)


def sgd(p, state, g, rate: float = 0.01):
    m, v, t = state
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
    return jax.tree.map(lambda p, m: p - rate * m, p, m), (m, v, t)


def jitted_step(name: str, batch: int, optimizer: str) -> Callable[[], jax.Array] | None:
    """A function that does one step on fixed data and gives the loss; None where there is no such network here."""
    if name not in NETWORKS:
        return None
    parameters, forward = NETWORKS[name]()
    x, y = (jnp.asarray(part) for part in MODELS[name][1](np.random.default_rng(0), batch))
    update = {"adam": adam, "sgd": sgd}[optimizer]

    def cost(p):
        return -jnp.take_along_axis(nn.log_softmax(forward(p, x)), y[:, None], 1).mean()

    @jax.jit
    def whole(p, state):
        loss, g = jax.value_and_grad(cost)(p)
        return *update(p, state, g), loss

    zeros = jax.tree.map(jnp.zeros_like, parameters)
    held = [parameters, (zeros, zeros, jnp.zeros(()))]

    def step():
        *held[:], loss = whole(*held)
        return loss.block_until_ready()
    return step
