"""Gradients of masks that are learnt, as relative positions are, against PyTorch in float64."""
from __future__ import annotations

import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch")

CASES = [((2, 4, 9, 8), (2, 4, 7, 8), (9, 7), False), ((2, 4, 9, 8), (2, 4, 9, 8), (1, 4, 9, 9), True),
         ((2, 4, 5, 8), (2, 4, 6, 8), (2, 1, 1, 6), False), ((3, 70, 16), (3, 65, 16), (70, 65), False)]


@pytest.mark.parametrize("queries, keys, shape, causal", CASES)
def test_gradients_of_masks(queries, keys, shape, causal, device):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (queries, keys, keys, shape, queries)]
    arrays[3].reshape(-1)[::5] = -np.inf
    found = []
    for module in (volta, torch):
        made = [volta.tensor(a, device=device) if module is volta else torch.tensor(a.astype(np.float64)) for a in arrays]
        for x in made[:4]:
            x.requires_grad_()
        q, k, v, mask, g = made
        if module is torch and causal:
            seen = torch.ones(shape[-2:]).tril().bool()
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask.masked_fill(~seen, -np.inf))
        else:
            out = module.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        out.backward(g)
        found.append([out.detach().cpu().numpy(), *[x.grad.cpu().numpy() for x in made[:4]]])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())


def test_masks_that_want_no_gradient_cost_nothing(gpu):
    q, k, v = (volta.rand(2, 3, 8, 16, device=gpu, requires_grad=True) for _ in range(3))
    counts = []
    for mask in (None, None, volta.rand(8, 8, device=gpu), volta.rand(2, 1, 1, 8, device=gpu)):
        before = volta.gpu.stats().dispatches
        volta.nn.functional.scaled_dot_product_attention(q, k, v, mask).sum().backward()
        counts.append(volta.gpu.stats().dispatches - before)
        q.grad = k.grad = v.grad = None
    assert counts[1:] == counts[1:2] * 3, counts
