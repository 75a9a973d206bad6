"""Models and training steps written once for Volta and PyTorch: `lib` is either module."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np


def mlp(lib):
    """784-512-512-10."""
    nn = lib.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def mnist_cnn(lib):
    """conv 32, conv 64 (3x3), each with BatchNorm, ReLU and 2x2 max pooling, then a classifier."""
    nn = lib.nn
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * 7 * 7, 10))


def resnet18(lib, large: bool = False):
    """ResNet-18: with a 3x3 stem without pooling, as for CIFAR, or with torchvision's, of `large` images."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, narrow: int, wide: int):
            super().__init__()
            stride = 1 if narrow == wide else 2
            self.main = nn.Sequential(nn.Conv2d(narrow, wide, 3, stride, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
                                      nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide))
            self.short = nn.Identity() if stride == 1 else nn.Sequential(nn.Conv2d(narrow, wide, 1, 2, bias=False), nn.BatchNorm2d(wide))

        def forward(self, x):
            return lib.relu(self.main(x) + self.short(x))

    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    first = nn.Conv2d(3, 64, 7, 2, 3, bias=False) if large else nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    return nn.Sequential(first, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1) if large else nn.Identity(),
                         *(Block(*pair) for pair in zip(widths, widths[1:])), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def gpt(lib, layers: int, width: int, heads: int, length: int, words: int):
    """A GPT-2: pre-norm blocks of causal attention and a GELU network four times as wide, the head tied to the word embedding."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            batch, n, _ = x.shape
            q, k, v = (part.view(batch, n, heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, dim=2))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, n, width))
            return x + self.network(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(width)
            nn.init.normal_(self.word.weight, std=0.02)

        def forward(self, tokens):
            x = self.word(tokens) + self.place.weight[:tokens.shape[1]]
            return nn.functional.linear(self.norm(self.blocks(x)), self.word.weight).view(-1, words)
    return GPT()


def lstm(lib):
    """One LSTM layer, 128 wide, whose last state is classified."""
    nn = lib.nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])
    return Classifier()


def images(*shape: int) -> Callable:
    """Inputs of normal numbers and one of ten labels each."""
    return lambda rng, batch: (rng.standard_normal((batch, *shape)).astype(np.float32), rng.integers(0, 10, batch))


def text(length: int, words: int) -> Callable:
    """Tokens, and after each the next one."""
    return lambda rng, batch: (rng.integers(0, words, (batch, length)), rng.integers(0, words, batch * length))


MODELS = {
    "mlp": (mlp, images(784)),
    "mnist_cnn": (mnist_cnn, images(1, 28, 28)),
    "resnet18 32x32": (resnet18, images(3, 32, 32)),
    "resnet18 64x64": (resnet18, images(3, 64, 64)),
    "resnet18 64x64 7x7 stem": (lambda lib: resnet18(lib, large=True), images(3, 64, 64)),
    "char GPT 4x128": (lambda lib: gpt(lib, 4, 128, 4, 128, 96), text(128, 96)),
    "char GPT 6x384": (lambda lib: gpt(lib, 6, 384, 6, 256, 96), text(256, 96)),
    "GPT-2 124M": (lambda lib: gpt(lib, 12, 768, 12, 1024, 50257), text(1024, 50257)),
    "LSTM 128": (lstm, images(64, 128)),
}


def training_step(lib, name: str, batch: int, device: str, optimizer: str = "adam", **options):
    """A function that does one step (forward, cross-entropy, backward, Adam or SGD with momentum) on fixed data; gives the loss tensor."""
    make, data = MODELS[name]
    model = make(lib).to(device)
    x, y = (lib.tensor(part).to(device) for part in data(np.random.default_rng(0), batch))
    if optimizer == "adam":
        optimizer = lib.optim.Adam(model.parameters(), lr=1e-3, **options)
    else:
        optimizer = lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **options)
    loss_function = lib.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step
