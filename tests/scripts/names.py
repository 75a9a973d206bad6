"""Names of a PyTorch script that are no operation: devices, settings, types, memory, seeds. It ends by printing "done"."""
import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch import Tensor
from torch.autograd import Variable
from torch.nn.modules.linear import Linear
from torch.optim.lr_scheduler import StepLR
from torch.optim.sgd import SGD
from torch.utils.data import DataLoader, Dataset, TensorDataset

assert torch.__version__ >= "2.0" and torch.version.cuda is None
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert isinstance(device, torch.device) and not isinstance("cuda", torch.device)
assert str(device) == device.type == ("cuda" if torch.cuda.is_available() else "cpu")
assert torch.device(type="cpu", index=0) == torch.device("cpu:0") != torch.device("cpu")

cudnn.benchmark = True
assert torch.backends.cudnn.benchmark and not torch.backends.mps.is_available()
torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("high")
torch.use_deterministic_algorithms(True)
assert torch.get_float32_matmul_precision() == "high" and torch.are_deterministic_algorithms_enabled()
torch.manual_seed(0)
torch.cuda.manual_seed(0)
torch.cuda.manual_seed_all(0)

x = torch.Tensor([[1, 2], [3, 4]])
assert isinstance(x, Variable) and Variable(x, requires_grad=True).requires_grad and not x.requires_grad
assert isinstance(x, Tensor) and isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
assert x.dtype is torch.float32 and torch.Tensor(2, 3).shape == (2, 3) and torch.LongTensor([1]).dtype is torch.int64
assert torch.FloatTensor(x.size()).shape == (2, 2) and torch.Tensor((2, 3)).tolist() == [2, 3] and torch.Tensor().numel() == 0
assert x.type() == "torch.FloatTensor" and x.type(torch.LongTensor).dtype is torch.int64
assert x.type("torch.DoubleTensor").dtype is torch.float64
assert isinstance(x.size(), torch.Size) and x.size().numel() == 4 and torch.Size([2, 2]) == x.shape
assert torch.inf > 0 and torch.pi > 3 and torch.nan != torch.nan and x[torch.newaxis].shape == (1, 2, 2)

torch.cuda.synchronize()
torch.cuda.empty_cache()
if device.type == "cuda":
    y = x.to(device)
    assert y.is_cuda and y.device.index == torch.cuda.current_device() == 0 and torch.cuda.device_count() >= 1
    assert y.type() == "torch.cuda.FloatTensor" and torch.cuda.FloatTensor([1]).is_cuda
    assert torch.cuda.memory_allocated() > 0 and torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.get_device_name(0) and torch.cuda.get_device_properties(0).name == torch.cuda.get_device_name()
    with torch.cuda.device(0):
        assert torch.zeros(1, device="cuda").is_cuda
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    end.record()
    assert start.elapsed_time(end) >= 0
    assert torch.accelerator.current_accelerator().type == "cuda" and torch.accelerator.device_count() == torch.cuda.device_count()

    # a CPU tensor without dimensions counts as a number
    factor = torch.tensor(3.0)
    assert (y * factor).is_cuda and (factor + y).tolist() == [[4, 5], [6, 7]] and (factor.double() * y).dtype is torch.float32
    assert (y.long() * factor).dtype is torch.float32
    y.mul_(factor)
    assert y.tolist() == [[3, 6], [9, 12]]
    learned = torch.tensor(2.0, requires_grad=True)
    (y * learned).sum().backward()
    assert learned.grad.item() == 30 and not learned.grad.is_cuda
    assert y[torch.tensor([1])].tolist() == [[9, 12]] and y[torch.tensor([True, False])].is_cuda
    y[torch.tensor([0])] = 0.0
    assert y.tolist() == [[0, 0], [9, 12]]

model = torch.compile(nn.Linear(2, 1)).to(device)
assert isinstance(model, Linear) and isinstance(model, torch.nn.Module)
optimizer = optim.SGD(model.parameters(), lr=0.1)
assert isinstance(optimizer, SGD) and isinstance(optimizer, torch.optim.Optimizer)
scheduler = StepLR(optimizer, step_size=1)
for inputs, targets in DataLoader(TensorDataset(x, torch.ones(2, 1)), batch_size=1):
    optimizer.zero_grad()
    F.mse_loss(model(inputs.to(device)), targets.to(device)).backward()
    optimizer.step()
scheduler.step()
assert issubclass(TensorDataset, Dataset)
print("done")
