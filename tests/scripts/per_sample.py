"""torch.nn.utils._per_sample_grad: gradients of each sample, which are those of batches of one."""
import torch
from torch import nn
from torch.nn.utils._per_sample_grad import call_for_per_sample_grads


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm, self.out = nn.Embedding(5, 4), nn.LayerNorm(4), nn.Linear(4, 3)
        self.out.bias.requires_grad_(False)

    def forward(self, words, scale=1.0):
        return self.out(self.norm(self.table(words))) * scale


torch.manual_seed(0)
x = torch.randn(3, 2, 6, 6)
images = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
for module, given, options in ((images, x, {}), (Words(), torch.tensor([[1, 2], [3, 3], [0, 4]]), {"scale": 2.0})):
    found = call_for_per_sample_grads(module)(given, **options)
    assert torch.allclose(found, module(given, **options), atol=1e-6)
    (found ** 2).sum().backward()
    apart = [p.grad_sample for p in module.parameters() if p.requires_grad]
    for p in module.parameters():
        assert p.grad is None
        p.grad_sample = None
    for i in range(3):
        (module(given[i:i + 1], **options) ** 2).sum().backward()
        for p, g in zip((p for p in module.parameters() if p.requires_grad), apart):
            assert g.shape == (3, *p.shape) and torch.allclose(g[i], p.grad, atol=1e-4)
            p.grad = None
    (call_for_per_sample_grads(module, loss_reduction="mean")(given, **options) ** 2).mean().backward()
    size = found.numel() // 3
    for p, g in zip((p for p in module.parameters() if p.requires_grad), apart):
        assert torch.allclose(p.grad_sample, g / size, atol=1e-4)

for asked, text in ((lambda: call_for_per_sample_grads(images)(x), "grad_sample"),
                    (lambda: call_for_per_sample_grads(3), "Module passed must be nn.Module, got int"),
                    (lambda: call_for_per_sample_grads(images, loss_reduction="none"), "to be sum or mean, got none"),
                    (lambda: call_for_per_sample_grads(images, batch_size="a"), "must be None or an integer, got str"),
                    (lambda: call_for_per_sample_grads(images, batch_size=0), "Batch size must be positive, got 0"),
                    (lambda: call_for_per_sample_grads(nn.Bilinear(6, 6, 1))(x[0], x), "batch size"),
                    (lambda: call_for_per_sample_grads(nn.Identity())(3), "batch")):
    try:
        asked()
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
print("done")
