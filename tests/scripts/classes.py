"""What programs do with PyTorch's functions and grad modes as objects: they derive classes from these and hang names on those."""
import torch
import torch.nn.functional as F


class Quiet(torch.no_grad):
    def __init__(self):
        super().__init__()
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        return super().__enter__()


quiet = Quiet()
for _ in range(2):
    with quiet:
        assert not torch.is_grad_enabled()
assert torch.is_grad_enabled() and quiet.entered == 2 and isinstance(torch.no_grad(), torch.no_grad)
assert not quiet(torch.is_grad_enabled)() and not torch.no_grad(torch.is_grad_enabled)()
with torch.no_grad():
    assert torch.enable_grad(torch.is_grad_enabled)() and isinstance(torch.enable_grad(), torch.enable_grad)
with torch.inference_mode() as nothing:
    assert nothing is None and torch.is_inference_mode_enabled() and isinstance(torch.inference_mode(False), torch.inference_mode)
mode = torch.set_grad_enabled(False)
assert isinstance(mode, torch.set_grad_enabled) and not torch.is_grad_enabled()
with mode:
    pass
assert torch.is_grad_enabled() and torch.inference_mode(torch.is_inference_mode_enabled)()

for function in (F.relu, F.softmax, F.leaky_relu):
    function.__default_init__ = torch.nn.init.kaiming_uniform_
    assert function.__default_init__ is torch.nn.init.kaiming_uniform_
    del function.__default_init__
    assert not hasattr(function, "__default_init__")

x = torch.ones(2)
for name in ("is_sparse", "is_quantized", "is_mps", "is_xpu", "is_nested", "is_mkldnn", "layout", "name", "is_leaf"):
    assert getattr(torch.Tensor, name).__get__(x) == getattr(x, name)
assert x.layout is torch.strided and x.name is None and not x.is_mps
print("done")
