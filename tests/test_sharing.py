"""Memory that several processes see: what is moved there, what another process reads and writes, what is refused."""
import multiprocessing

import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, DeviceError

METHODS = multiprocessing.get_all_start_methods()


def _write(tensors, net, queue):
    tensors["part"] += 1
    tensors["turned"][0] = 7
    tensors["copied"] += 1
    with volta.no_grad():
        net.weight.mul_(2)
    queue.put((type(net.weight).__name__, net.weight.requires_grad, net.weight.is_shared(), tensors["turned"].stride()))


@pytest.mark.parametrize("method", METHODS)
def test_what_another_process_writes_is_read_here(method):
    net, whole = nn.Linear(2, 3).share_memory(), volta.zeros(4).share_memory_()
    before = net.weight.tolist()
    tensors = {"part": whole[1:3], "turned": volta.zeros(3, 2).t().clone().share_memory_(), "copied": volta.zeros(2)}
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_write, args=(tensors, net, queue))
    process.start()
    assert queue.get(timeout=60) == ("Parameter", True, True, (1, 2))
    process.join()
    assert process.exitcode == 0 and whole.tolist() == [0, 1, 1, 0] and tensors["turned"].tolist() == [[7, 7, 7], [0, 0, 0]]
    assert net.weight.tolist() == [[2 * x for x in row] for row in before] and tensors["copied"].tolist() == [0, 0]


def test_what_is_shared_keeps_its_values_its_layout_and_its_gradients():
    x = volta.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=volta.channels_last).requires_grad_()
    expected, strides = x.tolist(), x.stride()
    assert x.share_memory_() is x and x.is_shared() and x.untyped_storage().is_shared() and x.requires_grad and x.is_leaf
    assert x.tolist() == expected and x.stride() == strides and x.share_memory_().detach().is_shared() and not x.clone().is_shared()
    x.sum().backward()
    assert x.grad.unique().tolist() == [1.0] and not volta.ones(2).is_shared()
    assert volta.ones(0).share_memory_().shape == (0,) and volta.tensor(True).share_memory_().item() is True


def test_optimizers_step_shared_parameters_where_they_lie():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).share_memory()
    optimizer, address = volta.optim.Adam(net.parameters()), net[0].weight.data_ptr()
    net(volta.randn(4, 2)).sum().backward()
    optimizer.step()
    assert all(x.is_shared() for x in (*net.parameters(), *net.buffers())) and net[0].weight.data_ptr() == address


def test_what_is_not_shared():
    with pytest.raises(ArgumentError, match="share_memory_: a view lies in the memory of another tensor; share that before views of it"):
        volta.ones(4)[1:].share_memory_()
    with pytest.raises(DeviceError, match="share_memory_: processes share host memory alone, the tensor is on meta; share x.cpu()"):
        volta.ones(4, device="meta").share_memory_()
