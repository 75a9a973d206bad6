"""A training that can be killed: its checkpoint holds all that the next steps depend on."""
import argparse
import hashlib
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", default="")
parser.add_argument("--die-at", type=int, default=-1, help="the step at which the process ends without a word")
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(7)
x = torch.randn(60, 6, 5)
data = TensorDataset(x, (x.sum((1, 2)) > 0).long())
order = torch.Generator()
order.manual_seed(3)
loader = DataLoader(data, batch_size=8, shuffle=True, generator=order)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(5, 12, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Sequential(nn.BatchNorm1d(12), nn.Dropout(0.3), nn.Linear(12, 2))

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
epoch = step = 0
if args.checkpoint and os.path.exists(args.checkpoint):
    state = torch.load(args.checkpoint, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"].cpu())
    order.set_state(state["order"].cpu())
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all([s.cpu() for s in state["cuda"]])
    epoch, step = state["epoch"], state["step"]
    print("resumed at", epoch)

while epoch < 6:
    for batch, labels in loader:
        if step == args.die_at:
            os._exit(9)
        optimizer.zero_grad()
        noisy = batch.to(device) + 0.1 * torch.randn(batch.shape, device=device)
        loss = F.cross_entropy(model(noisy), labels.to(device))
        loss.backward()
        optimizer.step()
        step += 1
    scheduler.step()
    epoch += 1
    if args.checkpoint:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                    "rng": torch.get_rng_state(), "order": order.get_state(), "epoch": epoch, "step": step,
                    "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}, args.checkpoint)

digest = hashlib.sha256()
for name, value in [*model.state_dict().items(), ("loss", loss)]:
    digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
print("loss", loss.item(), "digest", digest.hexdigest())
print("done")
