"""In which order in memory results, gradients, parameters and what optimizers keep lie, compared with PyTorch."""
import contextlib
import copy
import io

import numpy as np
import pytest

import volta
import volta.nn
import volta.optim
from volta.errors import ArgumentError, DTypeError, UninitializedError

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


def test_lazy_layers_take_no_format():
    with pytest.raises(UninitializedError):
        volta.nn.LazyConv2d(3, 3).to(memory_format=volta.channels_last)


# ---------------------------------------------------------------- results and gradients
def _laid(lib, array, how):
    x = lib.tensor(array.tolist(), dtype=lib.float32)
    last = lib.channels_last if x.ndim == 4 else lib.channels_last_3d
    if how == "rows":
        return x
    if how == "pixels":
        return x.contiguous(memory_format=last)
    if how == "gaps":
        return lib.cat([x, x], 1).contiguous(memory_format=last)[:, :x.shape[1]]
    if how == "columns":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    return x.permute(*range(x.ndim)[::-1]).contiguous().permute(*range(x.ndim)[::-1])


def _pools(name):
    return lambda F, x, *_: getattr(F, name)(x, 2)


OPS = {"conv2d": lambda F, x, w, v: F.conv2d(x, w, padding=1), "stride": lambda F, x, w, v: F.conv2d(x, w, stride=2),
       "bias": lambda F, x, w, v: F.conv2d(x, w, w.sum((1, 2, 3))),
       "points": lambda F, x, w, v: F.conv2d(x, w[:, :, :1, :1], v[:, 0, 0, 0]), "depthwise": lambda F, x, w, v: F.conv2d(x, v, groups=4),
       "points apart": lambda F, x, w, v: F.conv2d(x, w[:, :, :1, :1], stride=2),
       "transposed": lambda F, x, w, v: F.conv_transpose2d(x, w[:4], stride=2),
       "transposed points": lambda F, x, w, v: F.conv_transpose2d(x, w[:4, :, 1:2, 1:2]),
       "max places": lambda F, x, w, v: F.max_pool2d(x, 3, 2, 1, return_indices=True),
       "dilated max": lambda F, x, w, v: F.max_pool2d(x, 2, 1, 0, 2),
       "padded avg": lambda F, x, w, v: F.avg_pool2d(x, 3, 2, 1, True, False),
       "divided": lambda F, x, w, v: F.avg_pool2d(x, 2, divisor_override=3),
       "adaptive": lambda F, x, w, v: F.adaptive_avg_pool2d(x, (4, 3)), "adaptive max": lambda F, x, w, v: F.adaptive_max_pool2d(x, (4, 3)),
       **{name: _pools(name) for name in ("max_pool2d", "avg_pool2d", "adaptive_max_pool2d")},
       "max_pool3d": lambda F, x, w, v: F.max_pool3d(x.unsqueeze(2).repeat(1, 1, 3, 1, 1), 2),
       "batch": lambda F, x, w, v: F.batch_norm(x, None, None, v[:4, 0, 0, 0], training=True),
       "group": lambda F, x, w, v: F.group_norm(x, 2), "instance": lambda F, x, w, v: F.instance_norm(x),
       "layer": lambda F, x, w, v: F.layer_norm(x, (6, 6))}


WEIGHED = {"conv2d", "stride", "bias", "depthwise", "transposed"}             # by a whole weight, which may lie otherwise
CALLS = [(name, how, weight) for name in OPS for how in ("rows", "pixels", "gaps", "columns", "turned")
         for weight in ("rows", "pixels", "turned")[:3 if name in WEIGHED else 1]]


@pytest.mark.parametrize("name, how, weight", CALLS)
def test_results_and_gradients_lie_as_in_pytorch(name, how, weight, rng):
    arrays = [rng.standard_normal(shape) for shape in ((2, 4, 6, 6), (8, 4, 3, 3), (8, 1, 3, 3))]
    found = []
    for lib in (torch, volta):
        tensors = [_laid(lib, a, h).detach().requires_grad_() for a, h in zip(arrays, (how, weight, weight))]
        outs = OPS[name](lib.nn.functional, *tensors)
        outs = outs if isinstance(outs, tuple) else (outs,)
        # Of strided 1 x 1 convolutions of pixels, PyTorch's library for AVX2 writes the gradients behind their memory.
        with torch.backends.mkldnn.flags(enabled=False) if name == "points apart" else contextlib.nullcontext():
            grads = lib.autograd.grad(outs[0], tensors, lib.ones_like(outs[0].detach()), allow_unused=True)
        found.append([x for x in (*outs, *grads) if x is not None])
    for theirs, ours in zip(*found):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-4)
        assert ours.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [2, 3])
def test_pools_of_pixels_are_those_of_rows(rank, dtype, rng):
    array = rng.standard_normal((2, 5, 6, 7, 9)[:rank + 2] if rank == 3 else (3, 5, 7, 9)).astype(dtype)
    array[0, 1, 2, 3] = np.nan
    array[1] = 1.0
    pool = getattr(volta.nn.functional, f"max_pool{rank}d")
    found = []
    for pixels in (False, True):
        x = volta.tensor(array)
        x = x.movedim(1, -1).contiguous().movedim(-1, 1) if pixels else x
        out, index = pool(x.requires_grad_(), 3, 2, 1, return_indices=True)
        weights = volta.arange(out.numel(), dtype=out.dtype).reshape(out.shape)
        found.append([t.detach().numpy() for t in (out, index, volta.autograd.grad(out, x, weights)[0], pool(x.detach(), 3, 2, 1))])
    for rows, pixels in zip(*found):
        np.testing.assert_array_equal(rows, pixels)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adadelta", "Rprop"])
def test_optimizers_step_where_parameters_lie(name, device):
    found = []
    for form in (volta.contiguous_format, volta.channels_last):
        volta.manual_seed(0)
        module = volta.nn.Conv2d(3, 4, 3).to(device, memory_format=form)
        optimizer = getattr(volta.optim, name)(module.parameters(), lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))
        address = module.weight.data_ptr() if device == "cpu" else 0
        for k in range(3):
            optimizer.zero_grad()
            (module.weight ** 2 * k).sum().backward()
            optimizer.step()
        assert module.weight.is_contiguous(memory_format=form) and (device != "cpu" or module.weight.data_ptr() == address)
        found.append(module.weight.detach().cpu().numpy())
    np.testing.assert_array_equal(*found)


def test_images_on_a_gpu_lie_as_on_the_cpu(device):
    x = volta.ones(2, 4, 6, 6, device=device).to(memory_format=volta.channels_last).requires_grad_()
    net = volta.nn.Sequential(volta.nn.Conv2d(4, 8, 3), volta.nn.BatchNorm2d(8), volta.nn.ReLU(), volta.nn.MaxPool2d(2))
    net.to(device, memory_format=volta.channels_last)
    y = net(x)
    y.retain_grad()
    y.sum().backward()
    assert y.stride() == (32, 1, 16, 8) and x.grad.stride() == x.stride() and net[0].weight.grad.stride() == net[0].weight.stride()


@pytest.mark.parametrize("other", ["rows", "pixels", "gaps", "columns", "turned"])
@pytest.mark.parametrize("how", ["rows", "pixels", "gaps", "columns", "turned"])
def test_losses_of_logits_lie_as_the_targets(how, other, rng):
    array = rng.uniform(size=(2, 4, 6, 6))
    found = [lib.nn.functional.binary_cross_entropy_with_logits(_laid(lib, array, how), _laid(lib, array, other), reduction="none")
             for lib in (torch, volta)]
    assert tuple(found[0].stride()) == tuple(found[1].stride())
    np.testing.assert_allclose(found[1].numpy(), found[0].numpy(), rtol=1e-5)


@pytest.mark.parametrize("how", ["rows", "pixels", "columns"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_lines_go_by_the_weight_alone(rank, how):
    """A convolution of lines is one of images of a row, whose input PyTorch makes row-major, but not its weight."""
    found = []
    for lib in (torch, volta):
        turned = [lib.ones(2, 8, 4).transpose(1, 2), lib.ones(6, 3, 4).transpose(1, 2)]
        x, w = (turned[0], turned[1].contiguous()) if how == "columns" else (turned[0].contiguous(), turned[1]) if how == "pixels" else [
            t.contiguous() for t in turned]
        x, w = x[:, :rank + 1], w[:, :rank + 1]
        found.append(tuple(lib.nn.functional.conv1d(x, w).stride()))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"])
def test_one_image_whose_channels_lie_together(name, each):
    """PyTorch goes by the step to the next image, too, though there is none."""
    def check(batched, channels):
        found = []
        for lib in (torch, volta):
            x = lib.arange(30.0 * channels).reshape(6, 5, channels).permute(2, 0, 1)
            weight = lib.ones(channels, channels, 3, 3) if name.startswith("conv") else 2
            y = getattr(lib.nn.functional, name)(x[None] if batched else x, weight)
            found.append((tuple(y.shape), y.stride(), y.tolist()))
        assert found[0] == found[1]
    each(check, [True, False], [2, 3, 8, 16])
