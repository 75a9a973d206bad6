"""Translation with nn.Transformer and a causal language model with nn.TransformerEncoder, in mixed precision, as scripts for PyTorch do."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import GradScaler, autocast
from torch.nn.utils import clip_grad_norm_, prune
from torch.optim.lr_scheduler import LambdaLR

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
TOKENS, WIDTH, LENGTH, PAD = 12, 16, 8, 0


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.0, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:x.size(0)])


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.position = PositionalEncoding(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, activation=F.gelu, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.decoder = nn.LazyLinear(TOKENS)

    def forward(self, src):
        mask = nn.Transformer.generate_square_subsequent_mask(len(src)).to(src.device)
        x = self.position(self.embedding(src) * math.sqrt(WIDTH))
        return self.decoder(self.encoder(x, mask=mask, is_causal=True))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH, padding_idx=PAD)
        self.position = PositionalEncoding(WIDTH)
        self.transformer = nn.Transformer(WIDTH, 2, 1, 1, 32, dropout=0.0)
        self.generator = nn.Linear(WIDTH, TOKENS)

    def forward(self, src, tgt):
        hidden = (src == PAD).t()
        mask = self.transformer.generate_square_subsequent_mask(tgt.size(0), device=tgt.device)
        src, tgt = (self.position(self.embedding(x)) for x in (src, tgt))
        return self.generator(self.transformer(src, tgt, tgt_mask=mask, src_key_padding_mask=hidden, memory_key_padding_mask=hidden))


def train(model, batch, steps=25):
    inputs, targets = batch
    with torch.no_grad():
        model(*inputs)                                   # lazy layers take their shape
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
    scheduler = LambdaLR(optimizer, lambda step: min((step + 1) / 5, 1.0))
    scaler, losses = GradScaler(device.type, init_scale=256.0), []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with autocast(device_type=device.type, dtype=torch.float16):
            logits = model(*inputs)
            loss = F.cross_entropy(logits.view(-1, TOKENS), targets.reshape(-1), ignore_index=PAD, label_smoothing=0.05)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.append(loss.item())
    assert logits.dtype == torch.float16 and losses[-1] < 0.8 * losses[0], losses
    return losses[-1]


tokens = torch.randint(1, TOKENS, (LENGTH + 1, 4), device=device)
model = nn.DataParallel(LanguageModel().to(device))
print("language model", train(model, ((tokens[:-1],), tokens[1:])))

src, tgt = torch.randint(1, TOKENS, (LENGTH, 4), device=device), torch.randint(1, TOKENS, (LENGTH, 4), device=device)
src[-2:, 1] = PAD
print("translator", train(Translator().to(device), ((src, tgt[:-1]), tgt[1:])))

with torch.cuda.amp.autocast(enabled=False):
    prune.l1_unstructured(model.module.decoder, "weight", amount=0.25)
    assert int((model.module.decoder.weight == 0).sum()) == TOKENS * WIDTH // 4
print("done")
