"""Generate text with GPT-2 from a checkpoint as Hugging Face has it, with a cache of keys and values.

    python examples/gpt2.py --checkpoint FOLDER --prompt "The answer is" --device gpu

FOLDER holds config.json, model.safetensors, vocab.json and merges.txt. With --quick, a small one with random weights is written first, in
the same format (its text means nothing). Ends with the text, with the tokens a second, and with a comparison of all logits with those of
one pass without the cache.
"""
from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import common
from tqdm import tqdm

import volta
from volta import nn
from volta.nn import functional as F


class Tokenizer:
    """Text to numbers and back: words, as bytes, whose pairs are merged in the order in which they were found in training.
    Numerals that are no digits, such as a raised 2, count as letters here, not as numbers.
    Source: Sennrich, Haddow and Birch 2016; Radford et al. 2019, section 2.2."""
    WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

    def __init__(self, folder: Path) -> None:
        self.numbers: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        lines = [line for line in (folder / "merges.txt").read_text(encoding="utf-8").split("\n")[1:] if line]
        self.ranks = {tuple(line.split(" ")): i for i, line in enumerate(lines)}
        self.tokens = {number: token for token, number in self.numbers.items()}
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}

    def encode(self, text: str) -> list[int]:
        return [self.numbers[part] for word in self.WORDS.findall(text) for part in self.merged(word)]

    def merged(self, word: str) -> list[str]:
        parts = [self.letters[byte] for byte in word.encode()]
        while len(parts) > 1:
            rank, i = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == len(self.ranks):
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        return parts

    def decode(self, numbers: list[int]) -> str:
        return bytes(self.bytes[letter] for n in numbers for letter in self.tokens[n]).decode(errors="replace")


def byte_letters() -> dict[int, str]:
    """A letter that one can see for each byte, as GPT-2's vocabulary writes them."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {**{byte: chr(byte) for byte in seen}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


class Attention(nn.Module):
    """Attention to the tokens before. A cache (keys, values) has room for all of them; those of new tokens are written behind the old."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: volta.Tensor, cache: volta.Tensor | None, start: int) -> volta.Tensor:
        q, k, v = self.c_attn(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            end = start + x.shape[1]
            cache[0, :, :, start:end], cache[1, :, :, start:end] = k, v
            k, v = cache[0, :, :, :end], cache[1, :, :, :end]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1)       # one new token may see all that there is
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention, then a small network for each token, both beside a shortcut."""

    def __init__(self, width: int, heads: int, epsilon: float) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.attn = Attention(width, heads)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x: volta.Tensor, cache: volta.Tensor | None, start: int) -> volta.Tensor:
        x = x + self.attn(self.ln_1(x), cache, start)
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Tokens to the logits of the next ones; `start` is how many tokens the cache holds."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, heads, epsilon = config["n_embd"], config["n_head"], config.get("layer_norm_epsilon", 1e-5)
        self.context, self.cache_shape = config["n_positions"], (config["n_layer"], 2, 1, heads, config["n_positions"], width // heads)
        self.wte, self.wpe = nn.Embedding(config["vocab_size"], width), nn.Embedding(config["n_positions"], width)
        self.h = nn.ModuleList([Block(width, heads, epsilon) for _ in range(config["n_layer"])])
        self.ln_f = nn.LayerNorm(width, epsilon)

    def forward(self, tokens: volta.Tensor, cache: volta.Tensor | None = None, start: int = 0) -> volta.Tensor:
        x = self.wte(tokens) + self.wpe.weight[start:start + tokens.shape[1]]
        for i, block in enumerate(self.h):
            x = block(x, None if cache is None else cache[i], start)
        return F.linear(self.ln_f(x), self.wte.weight)


def load(folder: Path, device: volta.device) -> GPT2:
    """The model of a checkpoint. Its matrices lie transposed in the file, and some files put "transformer." before every name."""
    model = GPT2(json.loads((folder / "config.json").read_text())).to(device)
    mapper = (volta.io.StateDictMapper().rename(re.compile(r"^transformer\."), "")
              .exclude("lm_head.weight", re.compile(r"\.attn\.(masked_)?bias$"))
              .transpose(re.compile(r"(c_attn|c_proj|c_fc)\.weight$")))
    state, report = mapper(volta.load(folder / "model.safetensors"))
    model.load_state_dict(state)
    print(f"{folder}: {len(report.names)} tensors, {len(report.transposed)} of them transposed, {len(report.dropped)} not needed")
    return model.eval()


def write_random_checkpoint(folder: Path) -> Path:
    """A small checkpoint with random weights, in the format of the real one."""
    config = {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 128, "layer_norm_epsilon": 1e-5}
    merges = ["t h", "Ġ th", "Ġth e", "i n", "e r", "a n", "Ġ a", "o n"]
    tokens = [*byte_letters().values(), *(pair.replace(" ", "") for pair in merges)]
    model = GPT2({**config, "vocab_size": len(tokens)})
    mapper = volta.io.StateDictMapper().prefix("transformer.").transpose(re.compile(r"(c_attn|c_proj|c_fc)\.weight$"))
    folder.mkdir(exist_ok=True)
    volta.save({name: value.contiguous() for name, value in mapper(model.state_dict()).state_dict.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": len(tokens)}))
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]), encoding="utf-8")
    return folder


def draw(logits: volta.Tensor, temperature: float, top: int) -> volta.Tensor:
    """One of the `top` likeliest tokens, by its probability. Shape: (1, tokens) -> (1, 1)."""
    values, tokens = logits.topk(min(top, logits.shape[-1]))
    return tokens.gather(1, volta.multinomial(F.softmax(values / temperature, dim=-1), 1))


@volta.inference_mode()
def generate(model: GPT2, tokens: volta.Tensor, count: int, options: Any) -> tuple[volta.Tensor, volta.Tensor]:
    """`count` tokens more, and the logits that each was drawn from. What is drawn is fed in again without leaving the device."""
    cache, start, new, all_logits = volta.zeros(model.cache_shape, device=tokens.device), 0, tokens, []
    for _ in tqdm(range(count), unit="token"):
        all_logits.append(model(new, cache, start)[:, -1])
        start += new.shape[1]
        new = draw(all_logits[-1], options.temperature, options.top)
        tokens = volta.cat([tokens, new], 1)
    return tokens, volta.stack(all_logits, 1)


def main() -> None:
    parser = common.parser(__doc__, "gpt2-out")
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="config.json, model.safetensors, vocab.json, merges.txt")
    parser.add_argument("--prompt", default="The theory of computation begins with")
    common.add_size(parser, "tokens", 200, 24)
    common.add_size(parser, "top", 40, 40)
    parser.add_argument("--temperature", type=float, default=0.8, help="below 1: likely tokens are made likelier")
    options = common.start(parser)
    if not options.checkpoint and not options.quick:
        parser.error("--checkpoint needs the folder of a GPT-2 checkpoint; --quick makes a small random one")
    folder = options.checkpoint or write_random_checkpoint(options.out / "random-gpt2")
    model, tokenizer = load(folder, options.device), Tokenizer(folder)
    common.describe(model, options.device)
    prompt = tokenizer.encode(options.prompt)
    count = min(options.tokens, model.context - len(prompt))

    began = time.perf_counter()
    tokens, logits = generate(model, volta.tensor([prompt], device=options.device), count, options)
    text = tokenizer.decode(tokens[0].tolist())
    seconds = time.perf_counter() - began
    print("-" * 40, text, "-" * 40, sep="\n")
    with volta.inference_mode():
        whole = model(tokens[:, :-1])[:, len(prompt) - 1:]
    error = ((logits - whole).abs().max() / whole.abs().max()).item()
    print(f"{count} tokens in {seconds:.2f} s, {count / seconds:.1f} tokens/s; without the cache all logits are the same to {error:.1e}")
    common.require(error < 1e-4, "the cache changes the logits")


if __name__ == "__main__":
    main()
