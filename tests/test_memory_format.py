"""In which order in memory results, gradients, parameters and what optimizers keep lie, compared with PyTorch."""
import copy
import io

import pytest

import volta
import volta.nn
import volta.optim
from volta.errors import ArgumentError, DTypeError

torch = pytest.importorskip("torch")


def _modules(lib):
    return {"conv1d": lib.nn.Conv1d(2, 3, 3), "conv2d": lib.nn.Conv2d(2, 3, 3), "conv3d": lib.nn.Conv3d(2, 3, 3),
            "deep": lib.nn.Sequential(lib.nn.Conv2d(3, 4, 1), lib.nn.BatchNorm2d(4), lib.nn.Linear(3, 2))}


def _strides(module):
    return [tuple(x.stride()) for x in (*module.parameters(), *module.buffers())]


FORMATS = ["channels_last", "channels_last_3d", "contiguous_format", "preserve_format"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d", "deep"])
def test_modules_are_arranged(name, form):
    found = []
    for lib in (torch, volta):
        module = _modules(lib)[name]
        try:
            found.append(_strides(module.to(memory_format=getattr(lib, form))))
        except RuntimeError as e:
            found.append(str(e).partition("to: ")[2].partition(",")[0] if lib is volta else str(e))
            assert _strides(module) == _strides(_modules(lib)[name]), "an error leaves the module as it was"
    assert found[0] == found[1]


def test_module_to_refuses_what_is_no_format():
    with pytest.raises(DTypeError, match="Module.to: memory_format must be one such as volta.channels_last, got 'x'"):
        volta.nn.Conv2d(2, 3, 3).to(memory_format="x")


def test_module_to_arranges_gradients_and_integer_buffers():
    module = volta.nn.Conv2d(2, 3, 3)
    module.register_buffer("seen", volta.zeros(2, 3, 4, 5, dtype=volta.int64))
    weight = module.weight
    grad = weight.grad = volta.ones_like(weight)
    module.to("cpu", volta.float64, memory_format=volta.channels_last)
    assert module.weight is weight and weight.grad is grad and grad.dtype is volta.float64
    assert weight.stride() == grad.stride() == (18, 1, 6, 2)
    assert module.seen.dtype is volta.int64 and module.seen.stride() == (60, 1, 15, 3)


def _carried(lib):
    module = lib.nn.Conv2d(2, 3, 3).to(memory_format=lib.channels_last)
    kept, other = io.BytesIO(), lib.nn.Conv2d(2, 3, 3)
    lib.save(module.state_dict(), kept)
    kept.seek(0)
    state = lib.load(kept)
    yield copy.deepcopy(module).weight.stride()
    yield state["weight"].stride()
    other.load_state_dict(state)
    yield other.weight.stride()
    other.load_state_dict(state, assign=True)
    yield other.weight.stride()
    module.load_state_dict(lib.nn.Conv2d(2, 3, 3).state_dict())
    yield module.weight.stride()


def test_copies_and_files_keep_the_format():
    assert list(map(tuple, _carried(volta))) == list(map(tuple, _carried(torch)))


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "Rprop", "Adafactor"])
def test_optimizers_keep_the_format_of_parameters(name):
    found = []
    for lib in (torch, volta):
        module = lib.nn.Conv2d(2, 3, 3).to(memory_format=lib.channels_last)
        optimizer = getattr(lib.optim, name)(module.parameters(), lr=0.1, **({"momentum": 0.9} if name in ("SGD", "RMSprop") else {}))
        module(lib.ones(2, 2, 6, 6).to(memory_format=lib.channels_last)).sum().backward()
        optimizer.step()
        found.append((tuple(module.weight.grad.stride()), [tuple(x.stride()) for x in optimizer.state[module.weight].values()
                                                           if isinstance(x, lib.Tensor) and x.ndim]))
    assert found[0] == found[1]


def test_formats_that_say_nothing_are_refused():
    with pytest.raises(ArgumentError, match="contiguous: preserve memory format is unsupported"):
        volta.ones(2, 3).t().contiguous(memory_format=volta.preserve_format)
    with pytest.raises(ArgumentError, match="empty: unsupported memory format Preserve"):
        volta.empty(2, memory_format=volta.preserve_format)
    with pytest.raises(ArgumentError, match="required rank 4 tensor to use channels_last format"):
        volta.ones(2, 3).clone(memory_format=volta.channels_last)
