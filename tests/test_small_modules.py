"""Modules of PyTorch with few names: windows, gradients of convolutions, versions, causal masks, hub.load, and helpers, against PyTorch."""
import itertools
import os
import subprocess
import sys
from importlib import import_module

import pytest

import volta
import volta.nn.causal
import volta.nn.grad
import volta.nn.utils.stateless
from volta.compat.version import TorchVersion
from volta.errors import ArgumentError, AutogradError, DownloadError, DTypeError, ShapeError

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
both = pytest.mark.parametrize("library", [volta, torch], ids=["volta", "torch"])
WINDOWS = {"bartlett": [{}], "blackman": [{}], "cosine": [{}], "exponential": [{}, {"tau": 3.0}, {"center": 2.0, "sym": False}],
           "gaussian": [{}, {"std": 2.5}], "general_cosine": [{"a": [0.5, 0.3, 0.2]}], "general_hamming": [{}, {"alpha": 0.7}],
           "hamming": [{}], "hann": [{}], "kaiser": [{}, {"beta": 3.0}, {"beta": 0.0}], "nuttall": [{}]}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, device):
    for options, length, sym in itertools.product(WINDOWS[name], (0, 1, 2, 5, 8), (True, False)):
        options = {"sym": sym, **options}
        expected = getattr(torch.signal.windows, name)(length, dtype=torch.float64, **options)
        found = getattr(volta.signal.windows, name)(length, device=device, **options)
        assert found.dtype is volta.float32 and found.device.type == device
        volta.testing.assert_close(found.cpu().numpy(), expected.float().numpy(), rtol=1e-5, atol=1e-6)


@both
def test_windows_that_there_are_not(library):
    windows = library.signal.windows
    for call in (lambda: windows.hann(-1), lambda: windows.gaussian(3, std=0.0), lambda: windows.exponential(3, tau=0.0),
                 lambda: windows.exponential(3, center=1.0), lambda: windows.kaiser(3, beta=-1.0),
                 lambda: windows.hann(3, dtype=library.int32), lambda: windows.general_cosine(3, a=[])):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError):
        windows.general_cosine(3, a=1.0)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_convolutions(rank, device):
    for stride, padding, dilation, groups in ((1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1)):
        torch.manual_seed(0)
        x, w = torch.randn(2, 4, *[7] * rank), torch.randn(6, 4 // groups, *[3] * rank)
        g = torch.randn_like(getattr(torch.nn.functional, f"conv{rank}d")(x, w, None, stride, padding, dilation, groups))
        ours = [volta.tensor(t.numpy(), device=device) for t in (x, w, g)]
        for form, sizes in (("input", (x.shape, w, g)), ("weight", (x, w.shape, g))):
            given = (tuple(x.shape), ours[1], ours[2]) if form == "input" else (ours[0], tuple(w.shape), ours[2])
            expected = getattr(torch.nn.grad, f"conv{rank}d_{form}")(*sizes, stride, padding, dilation, groups)
            found = getattr(volta.nn.grad, f"conv{rank}d_{form}")(*given, stride, padding, dilation, groups)
            volta.testing.assert_close(found.cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_gradients_of_convolutions_are_recorded():
    weight = volta.ones(1, 1, 3, requires_grad=True)
    volta.nn.grad.conv1d_input((1, 1, 5), weight, volta.ones(1, 1, 3)).sum().backward()
    assert weight.grad.tolist() == [[[3, 3, 3]]]
    with pytest.raises(ShapeError, match="conv1d_input: the convolution gives"):
        volta.nn.grad.conv1d_input((1, 1, 5), weight, volta.ones(1, 1, 4))


def test_versions():
    theirs = torch.torch_version.TorchVersion
    others = ["2.2", "2.13", "2.13.0", "2.13.0+cpu", "2.14", "2.13.0a0", "2.13.0rc1", "2.13.0.dev1", "2.9.1", (2, 13), (2, 2, 1), (3,),
              "10.0"]
    for text in ("2.13.0", "2.13.0+cpu", "2.9", "2.13.0a0"):
        for other in others:
            a, b = TorchVersion(text), theirs(text)
            found = a < other, a <= other, a > other, a >= other, a == other
            assert found == (b < other, b <= other, b > other, b >= other, b == other), (text, other)
            assert (a != other) is not (a == other)
    with pytest.raises(TypeError):
        print(TorchVersion("2.13.0") > 3)
    assert len({TorchVersion("2.13.0"), "2.13.0"}) == 1 and TorchVersion("2.13.0").split(".") == ["2", "13", "0"]


def test_modules_under_the_name_of_torch():
    text = ("import volta.compat; volta.compat.install()\nimport torch\nassert torch.__version__ >= '2.2' and torch.version.cuda is None\n"
            "from torch.version import __version__ as v; assert v == torch.__version__\n"
            "from torch.torch_version import TorchVersion\nfrom torch.functional import norm, einsum\n"
            "from torch.nn.utils.stateless import functional_call\nfrom torch.signal.windows import hann\n"
            "from torch.nn.grad import conv2d_input\n"
            "from torch.nn.attention.bias import causal_lower_right\nfrom torch.testing import assert_close, make_tensor\n"
            "from torch.autograd import gradcheck\nfrom torch.autograd.gradcheck import GradcheckError\n"
            "from torch.optim.optimizer import ParamsT, register_optimizer_step_pre_hook\n"
            "from torch.optim.sgd import sgd\nfrom torch.optim._functional import adam\nfrom torch.optim.adam import adam as same\n"
            "assert adam is same and callable(sgd)\n"
            "from torch.quasirandom import SobolEngine\nfrom torch.utils.weak import WeakTensorKeyDictionary\n"
            "assert torch.quasirandom.SobolEngine is SobolEngine and callable(torch.utils.swap_tensors)\n"
            "from torch.nn.modules.module import register_module_forward_hook\n"
            "from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present\n"
            "from torch.nn.utils.memory_format import convert_conv2d_weight_memory_format\n"
            "from torch.utils.checkpoint import noop_context_fn\n"
            "assert torch.backends.mha.get_fastpath_enabled() and torch.signal.windows.hann is hann\nprint('done')")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert done.stdout == "done\n", done.stderr


def test_causal_masks(device):
    q, k = volta.rand(1, 1, 3, 4, device=device), volta.rand(1, 1, 5, 4, device=device)
    for name in ("causal_upper_left", "causal_lower_right"):
        mask = getattr(volta.nn.causal, name)(3, 5)
        theirs = getattr(import_module("torch.nn.attention.bias"), name)(3, 5)
        assert mask.tolist() == theirs._materialize().tolist()
        found = volta.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask.to(device))
        tensors = [torch.tensor(t.cpu().numpy()) for t in (q, k, k)]
        expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=theirs)
        volta.testing.assert_close(found.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_load_of_a_folder(tmp_path):
    (tmp_path / "part.py").write_text("def scale(x, by=2):\n    return x * by\n")
    (tmp_path / "hubconf.py").write_text("dependencies = ['math']\nfrom part import scale\n_hidden = scale\n")
    before = list(sys.path)
    for library in (volta, torch):
        assert library.hub.load(str(tmp_path), "scale", 3, source="local", by=4) == 12
    for name in ("nothing", "_hidden"):
        with pytest.raises(ArgumentError, match=f"hub.load: .*hubconf.py has no function '{name}'"):
            volta.hub.load(tmp_path, name, source="local")
    with pytest.raises(DownloadError, match="hub.load: code is not downloaded from github; get some/repo by git"):
        volta.hub.load("some/repo", "model")
    with pytest.raises(ArgumentError, match="hub.load: there is no file"):
        volta.hub.load(tmp_path / "none", "scale", source="local")
    (tmp_path / "hubconf.py").write_text("dependencies = ['not_there_at_all']\n")
    with pytest.raises(ArgumentError, match="needs not_there_at_all, which is not installed"):
        volta.hub.load(tmp_path, "scale", source="local")
    assert sys.path == before


@both
def test_hooks_of_what_is_saved_can_be_refused(library):
    graph = library.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            pass
    with graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        pass


@both
def test_changes_that_are_told(library):
    x, factor = library.ones(2, requires_grad=True), library.ones(2)
    y = x * factor
    library.autograd.graph.increment_version(factor)
    with pytest.raises(RuntimeError):
        y.sum().backward()
    assert factor._version == 1
    library.autograd.graph.increment_version([factor, factor])
    assert factor._version == 3


def test_refused_hooks_say_so():
    with pytest.raises(AutogradError, match="^mine$"), volta.autograd.graph.disable_saved_tensors_hooks("mine"), \
            volta.autograd.graph.save_on_cpu():
        pass


@both
def test_parametrizations_are_transferred(library):
    class Double(library.nn.Module):
        def forward(self, x):
            return x * 2

    parametrize = library.nn.utils.parametrize
    first, second = library.nn.Linear(2, 2), library.nn.Linear(2, 2)
    assert parametrize.type_before_parametrizations(first) is library.nn.Linear
    parametrize.register_parametrization(first, "weight", Double())
    assert parametrize.type_before_parametrizations(first) is library.nn.Linear
    assert parametrize.transfer_parametrizations_and_params(first, second) is second
    assert second.weight.tolist() == first.weight.tolist() and parametrize.is_parametrized(second, "weight")
    assert second.parametrizations.weight.original is first.parametrizations.weight.original
    third = library.nn.Linear(2, 2)
    parametrize.transfer_parametrizations_and_params(third, second)
    assert not parametrize.is_parametrized(third)


@both
def test_weights_are_laid_out(library):
    net = library.nn.Sequential(library.nn.Conv2d(3, 4, 3), library.nn.Conv3d(3, 4, 3), library.nn.Linear(2, 2))
    before = net[0].weight.tolist()
    assert library.nn.utils.convert_conv2d_weight_memory_format(net, library.channels_last) is net
    library.nn.utils.convert_conv3d_weight_memory_format(net, library.channels_last_3d)
    assert net[0].weight.is_contiguous(memory_format=library.channels_last) and net[0].weight.tolist() == before
    assert net[1].weight.is_contiguous(memory_format=library.channels_last_3d) and net[0].weight.requires_grad


@pytest.mark.parametrize("name", ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"])
def test_wrong_layouts_of_weights(name):
    call = getattr(volta.nn.utils, name)
    for wrong in (None, 3, "x", volta.zeros(2)):
        with pytest.raises(DTypeError, match=f"{name}: module must be a module, got"):
            call(wrong, volta.channels_last)
        with pytest.raises(DTypeError, match=f"{name}: memory_format must be one such as volta.channels_last, got"):
            call(volta.nn.Conv2d(1, 1, 1), wrong)


@both
def test_calls_without_state(library):
    layer = library.nn.Linear(2, 1)
    call = library.nn.utils.stateless.functional_call
    zeros = {"weight": library.zeros(1, 2), "bias": library.ones(1)}
    with pytest.warns(FutureWarning, match="stateless.functional_call"):
        assert call(layer, parameters_and_buffers=zeros, args=library.ones(3, 2)).tolist() == [[1], [1], [1]]
