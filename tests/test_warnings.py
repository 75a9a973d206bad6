"""What PyTorch warns of, and how often: each time, or once in a process."""
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta import nn, optim
from volta.nn import utils

EACH_TIME = {
    "var: degrees of freedom is <= 0": lambda x: x[0, 0, :1].var(),
    "std: degrees of freedom is <= 0": lambda x: x.std((0, 2), correction=9),
    "var_mean: degrees of freedom is <= 0": lambda x: volta.var_mean(x[:0]),
    "std_mean: degrees of freedom is <= 0": lambda x: volta.std_mean(x, 1, correction=3),
    "cov: degrees of freedom is <= 0": lambda x: volta.cov(x[0][:, :1]),
    "kl_div: reduction='mean' divides by the number": lambda x: F.kl_div(x, x),
    "l1_loss: size_average and reduce are deprecated; write reduction='sum'": lambda x: F.l1_loss(x, x, size_average=False),
    "MSELoss: size_average and reduce are deprecated; write reduction='none'": lambda x: nn.MSELoss(reduce=False),
    "upsample is deprecated": lambda x: F.upsample(x, 6),
    "grid_sample: align_corners is False unless given": lambda x: F.grid_sample(x[None], volta.zeros(1, 1, 1, 2, device=x.device)),
    "affine_grid: align_corners is False unless given": lambda x: F.affine_grid(x[:, :2], (3, 1, 2, 2)),
    "tensor: of a tensor, write": lambda x: volta.tensor(x),
    "indexing: a list with sequences, slices or tensors": lambda x: x[[[0, 1], [1, 2]]],
    "SGD: a parameter is given twice in a group": lambda x: optim.SGD([x, x], lr=0.1),
    "clip_grad_norm is deprecated": lambda x: utils.clip_grad_norm([x], 1.0),
    "nn.init.uniform is deprecated": lambda x: nn.init.uniform(x),
    "nn.init: a tensor without elements": lambda x: nn.init.kaiming_uniform_(x[:0]),
    "nn.init.trunc_normal_: mean is more than 2 std away": lambda x: nn.init.trunc_normal_(x, 5.0),
    "affine_grid: with align_corners the one place": lambda x: F.affine_grid(x[:, :2], (3, 1, 1, 2), True),
    "detect_anomaly: everything is checked": lambda x: volta.autograd.detect_anomaly().__exit__(None, None, None),
    "assert_allclose is deprecated": lambda x: volta.testing.assert_allclose(x, x),
    "sdp_kernel is deprecated": lambda x: volta.backends.cuda.sdp_kernel().__enter__(),
    "cuda.amp.custom_fwd is deprecated": lambda x: volta.cuda.amp.custom_fwd(abs),
    "cuda.amp.custom_bwd is deprecated": lambda x: volta.cuda.amp.custom_bwd(abs),
    "DataLoader: 5000 workers are more than": lambda x: volta.utils.data.DataLoader([1], num_workers=5000),
    "checkpoint: give use_reentrant": lambda x: volta.utils.checkpoint.checkpoint(abs, x),
}
ONCE = {
    "cross: without dim": "volta.cross(x, x)",
    "chain_matmul is deprecated": "volta.chain_matmul(x, x)",
    "meshgrid: without indexing": "volta.meshgrid(x[0], x[0])",
    "lu is deprecated": "volta.lu(x)",
    "qr is deprecated": "x.qr()",
    "cholesky is deprecated": "volta.cholesky(x)",
    "triangular_solve is deprecated": "volta.triangular_solve(x, x)",
    "scatter: reduce beside a tensor src": "x.scatter(0, volta.zeros(1, 3).long(), x, reduce='add')",
    "index_reduce: it is in beta": "x.index_reduce(0, volta.tensor([0]), x[:1], 'mean')",
    "where: a uint8 condition": "volta.where(x.byte(), x, 1.0)",
    "T: of other tensors than matrices": "x[None].T",
    "H: of a tensor without dimensions": "x[0, 0].H",
    "add: alpha by position": "x.add(2, x)",
    "a number of a tensor that requires grad": "float(volta.ones(1, requires_grad=True))",
    "adjoint: of a tensor without dimensions": "x[0, 0].adjoint()",
    "convolution: padding='same' of an even kernel": "volta.nn.functional.conv1d(x[None], x[None, :, :2], padding='same')",
    "backward: with create_graph=True": "volta.ones((), requires_grad=True).exp().backward(create_graph=True)",
    "from_numpy: the array is not writable": "volta.from_numpy(np.broadcast_to(1.0, 3))",
}


@pytest.mark.parametrize("text", EACH_TIME)
def test_warnings_of_each_time(device, text):
    x = volta.tensor(np.random.default_rng(0).uniform(0.5, 1.0, (3, 3, 3)).astype(np.float32), device=device)
    for _ in range(2):
        with pytest.warns(Warning) as seen:
            EACH_TIME[text](x)
        assert [str(each.message).startswith(text) for each in seen] == [True]
        assert seen[0].filename == __file__


def test_warnings_of_once():
    """In a process of their own, since they are given once; with `set_warn_always` each time. Factors by position share one warning."""
    program = textwrap.dedent(f"""
        import warnings, numpy as np, volta
        x = volta.eye(3)
        for again in (False, True):
            volta.set_warn_always(again)
            for text, call in {ONCE!r}.items():
                seen = []
                for _ in range(2):
                    with warnings.catch_warnings(record=True) as told:
                        warnings.simplefilter("always")
                        eval(call)
                    assert all(str(each.message).startswith(text) and each.filename != volta.__file__ for each in told), (text, told)
                    seen.append(len(told))
                assert seen == ([1, 1] if again else [1, 0]), (text, seen)
        volta.set_warn_always(False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x.addmm(2, x, x)
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_what_is_not_warned_of():
    x = volta.rand(3, 3, 3) + 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.var(0, correction=2)
        x.var(0, correction=-1)
        volta.cov(x[0])
        F.kl_div(x, x, reduction="batchmean")
        volta.kl_div(x, x, 1)
        volta.cross(x, x, 0)
        volta.linalg.cross(x, x)
        volta.meshgrid(x[0, 0], x[0, 0], indexing="ij")
        assert x[[0, 1]].shape[0] == 2 and x[0].T.shape == x.mT[0].shape == x.mH[0].shape == x[0].H.shape
        nn.init.orthogonal_(x[0])
        F.conv1d(x, x[:, :, :2], padding="same", dilation=2)
        F.affine_grid(x[:, :2], (3, 1, 1, 2), False)
        assert int(volta.ones(1, requires_grad=True)) == 1
        assert volta.asarray(np.broadcast_to(1.0, 3), copy=True, requires_grad=True).requires_grad
        with volta.no_grad():
            float(volta.ones(1, requires_grad=True))


def test_warnings_of_layers(device):
    x, same = volta.ones(3, 3, device=device), volta.zeros(3, 3, dtype=volta.bool, device=device)
    attention, layer = nn.MultiheadAttention(3, 1).to(device), nn.Linear(3, 3).to(device)
    layer.register_full_backward_hook(lambda *args: None)
    with pytest.warns(UserWarning, match=r"masks of different types, volta.float32 and volta.bool, are deprecated"):
        attention(x, x, x, key_padding_mask=same[0], attn_mask=x * 0)
    with pytest.warns(UserWarning, match="Linear: no input wants a gradient, so its full backward hook runs when"):
        layer(x).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attention(x, x, x, key_padding_mask=same[0], attn_mask=same)
        layer(x.requires_grad_()).sum().backward()


def test_a_tensor_of_tensors_that_want_gradients_warns():
    """Once, so in a process of its own: the mean of losses in a list has no gradient."""
    program = textwrap.dedent("""
        import warnings, volta
        warnings.simplefilter("error")
        loss = volta.ones((), requires_grad=True) * 2
        with volta.no_grad():
            volta.tensor([loss, loss])
        volta.tensor([loss.detach(), 1.0])
        try:
            volta.tensor([loss, loss])
        except UserWarning as told:
            assert str(told).startswith("a number of a tensor that requires grad has no gradient")
        else:
            raise SystemExit("no warning")
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
