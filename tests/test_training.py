"""Whole trainings: the CPU and a GPU from one seed, and a run that was killed and resumed beside one that was not."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import volta
from volta import nn
from volta.nn import functional as F

STEPS = 200


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, words=11, width=16, length=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 2), Block(width, 2))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False))
        self.head[1].weight = self.words.weight

    def forward(self, x):
        return self.head(self.blocks(self.words(x) + self.places.weight)).transpose(1, 2)


def cnn():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(),
                         nn.Dropout(0.1), nn.Flatten(), nn.Linear(64, 4))


def images(rng):
    labels = rng.integers(0, 4, 16)
    x = rng.normal(size=(16, 1, 8, 8)).astype(np.float32)
    x[np.arange(16), 0, labels] += 2
    return x, labels


def sentences(rng):
    counted = (rng.integers(0, 11, (8, 1)) + rng.integers(1, 4, (8, 1)) * np.arange(13)) % 11
    return counted[:, :-1], counted[:, 1:]


def losses(make, batch, device):
    """The loss of each step, as numbers of the host."""
    volta.manual_seed(5)
    rng, found = np.random.default_rng(0), []
    model = make().to(device).train()
    optimizer = volta.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for _ in range(STEPS):
        x, labels = (volta.tensor(a, device=device) for a in batch(rng))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.detach())
    return volta.stack(found).cpu().numpy()


@pytest.mark.parametrize("make, batch", [(cnn, images), (GPT, sentences)], ids=["cnn", "gpt"])
def test_a_cpu_and_a_gpu_train_alike_from_one_seed(make, batch):
    if not volta.gpu.is_available():
        pytest.skip("needs a GPU")
    ours, theirs = (losses(make, batch, device) for device in ("cpu", "gpu"))
    assert ours[-20:].mean() < 0.5 * ours[0]
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-3)


def test_a_killed_and_resumed_run_is_the_same_to_the_bit(device, tmp_path):
    environment = dict(os.environ) if device == "gpu" else {**os.environ, "VOLTA_ADAPTER": "no such adapter", "VOLTA_REQUIRE_GPU": "0"}

    def run(*arguments):
        command = [sys.executable, "-m", "volta", "run", str(Path(__file__).parent / "scripts" / "resume.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)

    whole = run()
    assert "digest" in whole.stdout, whole.stderr
    kept = ("--checkpoint", str(tmp_path / "run.pt"))
    for step in (21, 36):                       # in the third epoch, and in the fifth
        assert run(*kept, "--die-at", str(step)).returncode == 9
    resumed = run(*kept)
    assert resumed.stdout.splitlines() == ["resumed at 4", *whole.stdout.splitlines()], resumed.stderr
