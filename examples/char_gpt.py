"""Train a GPT to write Python, character by character, on the modules of Python's own standard library.

    python examples/char_gpt.py --device cpu
    python examples/char_gpt.py --device gpu --layers 6 --width 384 --context 256 --batch 64 --steps 5000

The first is a small one for a CPU, the second the real thing. Ends with the loss on text that it has not seen (2.08 bits a character of
the small one, after 235 seconds of processor time) and with code that it writes.
"""
from __future__ import annotations

import math

import common
import datasets

import volta
from volta import nn
from volta.nn import functional as F


class Block(nn.Module):
    """Attention to the characters before, then a small network for each, both beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: volta.Tensor) -> volta.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Characters and places to vectors, blocks, vectors to the logits of the next character."""

    def __init__(self, layers: int, width: int, heads: int, context: int, characters: int = len(datasets.CHARACTERS)) -> None:
        super().__init__()
        self.context = context
        self.embed, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)
        self.apply(self.initialize)

    @staticmethod
    def initialize(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, text: volta.Tensor) -> volta.Tensor:
        x = self.embed(text) + self.place.weight[:text.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def cost(model: GPT, text: volta.Tensor) -> volta.Tensor:
    """Mean nats a character of rows of text, each character foretold from those before it."""
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


@volta.no_grad()
def write(model: GPT, beginning: str, length: int, temperature: float, device: volta.device) -> str:
    """Go on from a beginning, each character drawn by its probability after as many as the model sees. The window keeps one shape:
    what is not written yet is of no matter, since nothing before looks at it."""
    text = datasets.encode(beginning.rjust(length + len(beginning)), device)[None].roll(-length, 1)
    for end in range(len(beginning), text.shape[1]):
        start = max(0, end - model.context)
        logits = model(text[:, start:start + model.context])[:, end - start - 1]
        text[:, end] = volta.multinomial(F.softmax(logits / temperature, dim=-1), 1)[:, 0]
    return datasets.decode(text[0])


def main() -> None:
    parser = common.parser(__doc__, "char-gpt-out", steps=2500, quick=20)
    for name, full, quick in (("layers", 4, 2), ("width", 128, 32), ("heads", 4, 2), ("context", 128, 32), ("batch", 16, 16)):
        common.add_size(parser, name, full, quick)
    parser.add_argument("--temperature", type=float, default=0.8, help="below 1: likely characters are made likelier")
    options = common.start(parser)
    device = options.device
    train, test = datasets.windows(datasets.standard_library(200_000 if options.quick else None), options.context + 1)
    loader = volta.data.DataLoader(train, options.batch, shuffle=True, seed=options.seed, drop_last=True, device=device)
    model = GPT(options.layers, options.width, options.heads, options.context).to(device)
    common.describe(model, device)
    optimizer = volta.optim.AdamW(model.parameters(), lr=1e-2 if options.quick else 2e-3, weight_decay=0.1, betas=(0.9, 0.95))
    schedule = volta.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2 if options.quick else 2e-3, total_steps=options.steps)
    progress = common.Progress(options.steps)
    for text in progress.batches(loader):
        optimizer.zero_grad()
        loss = cost(model, text)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        progress.add(loss)
    progress.finish()

    with volta.no_grad():
        unseen = cost(model, volta.tensor(test[:64 if options.quick else 256], device=device)).item()
    print(f"text that it has not seen: {unseen / math.log(2):.2f} bits a character")
    print("-" * 40, write(model, "def ", 80 if options.quick else 600, options.temperature, device), "-" * 40, sep="\n")
    volta.save(model.state_dict(), options.out / "char_gpt.safetensors")


if __name__ == "__main__":
    main()
