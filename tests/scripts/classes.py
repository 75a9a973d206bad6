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


# tensors of a class that makes them itself, with arguments of its own
class Tagged(torch.Tensor):
    def __new__(cls, data, tag=None):
        made = torch.Tensor._make_subclass(cls, data)
        made.tag = tag
        return made


class Named(torch.Tensor):
    def __new__(cls, data, name):
        return torch.as_tensor(data).as_subclass(cls)

    def __init__(self, data, name):
        super().__init__()
        self.called = name


for x in (torch.arange(3), torch.ones(2, 3).t(), torch.tensor(2.0)):
    tagged = Tagged(x, tag="a")
    assert type(tagged) is Tagged and tagged.tag == "a" and tagged.stride() == x.stride() and tagged.data_ptr() == x.data_ptr()
    assert tagged.dtype is x.dtype and torch.equal(tagged, x)
class Held(Tagged, torch.nn.Parameter):
    def __new__(cls, data, tag=None, requires_grad=True):
        made = torch.Tensor._make_subclass(cls, Tagged(data), requires_grad)
        made.tag = tag
        return made


class Labelled(torch.Tensor):
    def __new__(cls, data, labels):
        return super().__new__(cls, data)

    def __init__(self, data, labels):
        assert self.shape == data.shape
        self.labels = labels


held = Held(torch.ones(2), tag="h")
module = torch.nn.Module()
module.held = held
assert isinstance(held, torch.nn.Parameter) and held.tag == "h" and held.requires_grad and dict(module.named_parameters()) == {"held": held}
x = torch.ones(2, requires_grad=True)
named = Named(x * 3, name="n")
labelled = Labelled(torch.ones(2, 3), ["a"])
assert labelled.labels == ["a"] and type(labelled * 2) is Labelled and torch.Tensor.__new__(torch.Tensor, 2, 3).shape == (2, 3)
named.sum().backward()
assert named.called == "n" and named.tolist() == [3, 3] and x.grad.tolist() == [3, 3]

# constructors of older programs give a tensor over, with its graph
for make in (torch.Tensor, torch.FloatTensor, lambda x: Labelled(x, []), torch.ones(1).new):
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    made = make(y)
    assert made.requires_grad and made.grad_fn is not None and made.data_ptr() == y.data_ptr()
    made.sum().backward()
    assert x.grad.tolist() == [3, 3]
try:
    torch.Tensor(2, other=3)
except TypeError:
    pass
else:
    raise AssertionError("other")

# layers call what is in nn.functional
counts, before = {}, {}


def count(name):
    function = before[name] = getattr(F, name)

    def counted(*args, **options):
        counts[name] = counts.get(name, 0) + 1
        return function(*args, **options)
    setattr(F, name, counted)
    assert getattr(F, name) is counted


for name in ("linear", "conv2d", "relu", "dropout", "batch_norm", "max_pool2d"):
    count(name)
layers = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Dropout(),
                             torch.nn.Flatten(), torch.nn.Linear(8, 2), torch.nn.ReLU())
layers(torch.ones(2, 1, 6, 6))
assert counts == {"linear": 1, "conv2d": 1, "relu": 2, "dropout": 1, "batch_norm": 1, "max_pool2d": 1}, counts
for name, function in before.items():
    setattr(F, name, function)
layers(torch.ones(2, 1, 6, 6))
assert counts["relu"] == 2
print("done")
