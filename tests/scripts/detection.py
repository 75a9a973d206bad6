"""A detector of boxes in PyTorch's idiom: priors matched to boxes, hard negatives, smooth L1, focal loss, boxes decoded and suppressed."""
import argparse
import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=2e-2)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
logging.basicConfig(level=logging.WARNING)
log = logging.getLogger(__name__)
np.random.seed(0)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def point_form(boxes):
    return torch.cat((boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2), 1)


def intersect(box_a, box_b):
    A, B = box_a.size(0), box_b.size(0)
    max_xy = torch.min(box_a[:, 2:].unsqueeze(1).expand(A, B, 2), box_b[:, 2:].unsqueeze(0).expand(A, B, 2))
    min_xy = torch.max(box_a[:, :2].unsqueeze(1).expand(A, B, 2), box_b[:, :2].unsqueeze(0).expand(A, B, 2))
    inter = torch.clamp((max_xy - min_xy), min=0)
    return inter[:, :, 0] * inter[:, :, 1]


def jaccard(box_a, box_b):
    inter = intersect(box_a, box_b)
    area_a = ((box_a[:, 2] - box_a[:, 0]) * (box_a[:, 3] - box_a[:, 1])).unsqueeze(1).expand_as(inter)
    area_b = ((box_b[:, 2] - box_b[:, 0]) * (box_b[:, 3] - box_b[:, 1])).unsqueeze(0).expand_as(inter)
    return inter / (area_a + area_b - inter)


def match(threshold, truths, priors, labels, loc_t, conf_t, idx):
    overlaps = jaccard(truths, point_form(priors))
    best_prior_overlap, best_prior_idx = overlaps.max(1, keepdim=True)
    best_truth_overlap, best_truth_idx = overlaps.max(0, keepdim=True)
    best_truth_idx.squeeze_(0)
    best_truth_overlap.squeeze_(0)
    best_prior_idx.squeeze_(1)
    best_prior_overlap.squeeze_(1)
    best_truth_overlap.index_fill_(0, best_prior_idx, 2)
    for j in range(best_prior_idx.size(0)):
        best_truth_idx[best_prior_idx[j]] = j
    matches = truths[best_truth_idx]
    conf = labels[best_truth_idx] + 1
    conf[best_truth_overlap < threshold] = 0
    g_cxcy = ((matches[:, :2] + matches[:, 2:]) / 2 - priors[:, :2]) / (0.1 * priors[:, 2:])
    g_wh = torch.log((matches[:, 2:] - matches[:, :2]) / priors[:, 2:]) / 0.2
    loc_t[idx] = torch.cat([g_cxcy, g_wh], 1)
    conf_t[idx] = conf


def log_sum_exp(x):
    x_max = x.data.max()
    return torch.log(torch.sum(torch.exp(x - x_max), 1, keepdim=True)) + x_max


class MultiBoxLoss(nn.Module):
    def __init__(self, num_classes, priors, negpos_ratio=3):
        super().__init__()
        self.num_classes, self.negpos_ratio = num_classes, negpos_ratio
        self.register_buffer("priors", priors)

    def forward(self, loc_data, conf_data, targets):
        num, num_priors = loc_data.size(0), self.priors.size(0)
        loc_t = torch.Tensor(num, num_priors, 4).to(loc_data.device)
        conf_t = torch.LongTensor(num, num_priors).to(loc_data.device)
        for idx in range(num):
            match(0.5, targets[idx][:, :-1].data, self.priors.data, targets[idx][:, -1].data, loc_t, conf_t, idx)
        pos = conf_t > 0
        num_pos = pos.sum(dim=1, keepdim=True)
        pos_idx = pos.unsqueeze(pos.dim()).expand_as(loc_data)
        loss_l = F.smooth_l1_loss(loc_data[pos_idx].view(-1, 4), loc_t[pos_idx].view(-1, 4), reduction="sum")
        batch_conf = conf_data.view(-1, self.num_classes)
        loss_c = (log_sum_exp(batch_conf) - batch_conf.gather(1, conf_t.view(-1, 1))).view(num, -1)
        loss_c[pos] = 0
        _, loss_idx = loss_c.sort(1, descending=True)
        _, idx_rank = loss_idx.sort(1)
        neg = idx_rank < torch.clamp(self.negpos_ratio * num_pos, max=pos.size(1) - 1).expand_as(idx_rank)
        conf_p = conf_data[(pos.unsqueeze(2).expand_as(conf_data) + neg.unsqueeze(2).expand_as(conf_data)).gt(0)]
        loss_c = F.cross_entropy(conf_p.view(-1, self.num_classes), conf_t[(pos + neg).gt(0)], reduction="sum")
        one_hot = F.one_hot(conf_t, self.num_classes).float()
        p = torch.sigmoid(conf_data)
        focal = F.binary_cross_entropy_with_logits(conf_data, one_hot, reduction="none") * ((p - one_hot).abs() ** 2)
        return loss_l / num_pos.data.sum().float(), (loss_c + focal.sum()) / num_pos.data.sum().float()


def nms(boxes, scores, overlap=0.5):
    order, keep = scores.sort(0, descending=True)[1], []
    while order.numel() > 0:
        keep.append(order[0].item())
        order = order[1:][jaccard(boxes[order[:1]], boxes[order[1:]]).squeeze(0) <= overlap]
    return keep


grid = [[(i + 0.5) / 4, (j + 0.5) / 4, s, s] for i in range(4) for j in range(4) for s in (0.2, 0.4)]
net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Conv2d(16, 2 * (4 + 3), 3, 2, 1)).to(device)
criterion = MultiBoxLoss(3, torch.tensor(grid)).to(device)
optimizer = optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
images = torch.from_numpy(np.random.randn(4, 3, 16, 16).astype(np.float32)).to(device)
corners = np.random.rand(4, 3, 2) * 0.6
sizes = 0.15 + 0.2 * np.random.rand(4, 3, 2)
targets = [torch.FloatTensor(np.concatenate([a, a + s, np.random.randint(0, 2, (3, 1))], 1)).to(device) for a, s in zip(corners, sizes)]
losses = []
for step in range(args.steps):
    out = net(images).permute(0, 2, 3, 1).contiguous().view(4, -1, 7)
    loss_l, loss_c = criterion(out[..., :4], out[..., 4:].contiguous(), targets)
    loss = loss_l + loss_c
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    log.info("step %d loss %.4f", step, loss)
assert losses[-1] < 0.6 * losses[0], losses
assert f"{loss}" == str(loss.item()) and f"{loss:.3f}" == f"{loss.item():.3f}"

net.eval()
with torch.no_grad():
    out = net(images[:1]).permute(0, 2, 3, 1).reshape(-1, 7)
    centres = criterion.priors[:, :2] + out[:, :2] * 0.1 * criterion.priors[:, 2:]
    boxes = point_form(torch.cat([centres, criterion.priors[:, 2:] * torch.exp(out[:, 2:4] * 0.2)], 1))
    scores = F.softmax(out[:, 4:], dim=1)[:, 1:].max(1)[0]
    kept = nms(boxes, scores)
assert 1 <= len(kept) <= len(grid) and len(set(kept)) == len(kept)
print("done")
