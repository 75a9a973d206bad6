"""ctc_loss on the GPU with more states than a workgroup has threads, than its memory holds, and with labels that come again."""
from __future__ import annotations

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.devices.gpu import ctc as gpu_ctc

pytestmark = pytest.mark.gpu


def _both(x, labels, inputs, lengths, blank=0):
    """(losses, gradient) of each device."""
    for device in ("cpu", "gpu"):
        leaf = volta.tensor(x, device=device, requires_grad=True)
        losses = F.ctc_loss(leaf.log_softmax(2), volta.tensor(labels, device=device), volta.tensor(inputs), volta.tensor(lengths),
                            blank=blank, reduction="none")
        losses.sum().backward()
        yield losses.detach().numpy(), leaf.grad.numpy()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("steps, states, classes, blank", [(41, 11, 7, 0), (300, 140, 30, 2), (39, 0, 4, 0), (1, 1, 3, 1)])
def test_many_states(steps, states, classes, blank, shared, monkeypatch):
    if not shared:
        monkeypatch.setattr(gpu_ctc, "MOST_SHARED", 0)
    for kernel in gpu_ctc.KERNELS.values():
        kernel.plans.clear()
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((steps, 3, classes)).astype(np.float32), rng.integers(0, classes, (3, states))
    labels[labels == blank] = (blank + 1) % classes
    inputs, lengths = [steps, steps - steps // 9, steps], [states, max(states - 5, 0), states // 2]
    (loss, grad), (found, slope) = _both(x, labels, inputs, lengths, blank)
    np.testing.assert_allclose(found, loss, rtol=2e-6, atol=1e-5)
    np.testing.assert_allclose(slope, grad, atol=4e-4)
    for kernel in gpu_ctc.KERNELS.values():
        kernel.plans.clear()
