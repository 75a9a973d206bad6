"""Layers that take their sizes from the first input, the adaptive softmax, wrappers, pruning and fusion, against PyTorch."""
import copy
import pickle

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, IndexRangeError, ShapeError, UninitializedError

torch = pytest.importorskip("torch", reason="compares with PyTorch")
pytest.importorskip("torch.nn.utils.prune", reason="compares with PyTorch")

IMAGES = {1: (2, 4, 7), 2: (2, 4, 6, 7), 3: (2, 4, 5, 6, 7)}
LAZY = [("LazyLinear", (3,), {}, (2, 5)), ("LazyLinear", (3,), {"bias": False}, (5,))]
for n, images in IMAGES.items():
    LAZY += [(f"LazyConv{n}d", (6, 3), {"stride": 2, "padding": 1, "groups": 2}, images),
             (f"LazyConvTranspose{n}d", (6, 3, 2, 1, 1), {"groups": 2, "bias": False}, images),
             (f"LazyBatchNorm{n}d", (), {"momentum": None}, images), (f"LazyBatchNorm{n}d", (), {"affine": False}, images),
             (f"LazyInstanceNorm{n}d", (), {"affine": True, "track_running_stats": True}, images)]


def taken(theirs, ours, device):
    ours.load_state_dict({key: volta.tensor(np.array(t.detach())) for key, t in theirs.state_dict().items()})
    return ours.to(device)


def close(found, wanted):
    volta.testing.assert_close(found.detach().cpu().numpy(), np.array(wanted.detach()), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, args, options, shape", LAZY)
def test_lazy_layers(name, args, options, shape, device, rng):
    array = rng.standard_normal(shape).astype(np.float32)
    theirs, ours = (getattr(package.nn, name)(*args, **options) for package in (torch, volta))
    assert repr(theirs) == repr(ours) and list(theirs.state_dict()) == list(ours.state_dict())
    assert theirs.has_uninitialized_params() == ours.has_uninitialized_params()
    ours = pickle.loads(pickle.dumps(copy.deepcopy(ours))).to(device)
    held = list(ours.parameters())
    loaded = copy.deepcopy(ours)                                    # a state dict gives shapes too
    wanted, _ = theirs(torch.tensor(array)), ours(volta.tensor(array, device=device))
    assert repr(theirs) == repr(ours) and type(ours) is getattr(volta.nn, name.removeprefix("Lazy"))
    assert [id(p) for p in ours.parameters()] == [id(p) for p in held] and all(type(p) is volta.nn.Parameter for p in held)
    assert {k: tuple(t.shape) for k, t in theirs.state_dict().items()} == {k: t.shape for k, t in ours.state_dict().items()}
    close(taken(theirs, loaded, device).train(not theirs._buffers)(volta.tensor(array, device=device)),
          theirs.train(not theirs._buffers)(torch.tensor(array)) if theirs._buffers else wanted)


def test_what_has_no_shape_is_not_used():
    layer = volta.nn.LazyLinear(3)
    assert repr(layer.weight) == "<UninitializedParameter>" and layer.weight.requires_grad and layer.weight.dtype is volta.float32
    for use in (lambda: layer.weight.shape, lambda: layer.weight.numel(), lambda: layer.weight.clone()):
        with pytest.raises(UninitializedError, match="before it has a shape; call the module with an input"):
            use()
    layer.weight.materialize((3, 2), dtype=volta.float64)
    assert type(layer.weight) is volta.nn.Parameter and layer.weight.shape == (3, 2) and layer.weight.dtype is volta.float64
    with pytest.raises(ShapeError, match="LazyConv2d: needs an input of 3 or 4 dimensions"):
        volta.nn.LazyConv2d(3, 2)(volta.zeros(2, 3))
    both = volta.nn.LazyLinear(3), volta.nn.LazyLinear(3)
    both[0].load_state_dict(both[1].state_dict())
    assert both[0].has_uninitialized_params()


def test_buffer():
    module = volta.nn.Module()
    module.kept, module.left = volta.nn.Buffer(volta.ones(2)), volta.nn.Buffer(volta.ones(3), persistent=False)
    assert list(module.state_dict()) == ["kept"] and [name for name, _ in module.named_buffers()] == ["kept", "left"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_softmax(bias, device, rng):
    theirs, ours = (package.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10, 15], 2.0, head_bias=bias) for package in (torch, volta))
    taken(theirs, ours, device)
    array, target = rng.standard_normal((9, 16)).astype(np.float32), rng.integers(0, 15, 9)
    wanted, found = theirs(torch.tensor(array), torch.tensor(target)), ours(*(volta.tensor(a, device=device) for a in (array, target)))
    wanted.loss.backward()
    found.loss.backward()
    close(found.output, wanted.output)
    close(found.loss, wanted.loss)
    for p, q in zip(theirs.parameters(), ours.parameters()):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            close(q.grad, p.grad)
    close(ours.log_prob(volta.tensor(array, device=device)), theirs.log_prob(torch.tensor(array)))
    assert ours.predict(volta.tensor(array, device=device)).tolist() == theirs.predict(torch.tensor(array)).tolist()
    single = ours(volta.tensor(array[0], device=device), volta.tensor(3, device=device)), theirs(torch.tensor(array[0]), torch.tensor(3))
    close(single[0].output, single[1].output)
    with pytest.raises(IndexRangeError, match="targets must be in"):
        ours(volta.tensor(array, device=device), volta.tensor(target + 10, device=device))
    with pytest.raises(ArgumentError, match="cutoffs must be rising"):
        volta.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 5])


def test_synchronised_norm(device, rng):
    net = volta.nn.Sequential(volta.nn.BatchNorm2d(3, eps=1e-3), volta.nn.Sequential(volta.nn.BatchNorm1d(2), volta.nn.InstanceNorm1d(3)))
    x = volta.tensor(rng.standard_normal((2, 3, 4, 4)), dtype=volta.float32, device=device)
    wanted = copy.deepcopy(net[0]).to(device)(x)
    converted = volta.nn.SyncBatchNorm.convert_sync_batchnorm(net.to(device))
    assert [type(m).__name__ for m in converted.modules()][1:] == ["SyncBatchNorm", "Sequential", "SyncBatchNorm", "InstanceNorm1d"]
    assert converted is net and volta.equal(net[0](x), wanted) and int(net[0].num_batches_tracked) == 1
    with pytest.raises(ArgumentError, match="process_group must be None"):
        volta.nn.SyncBatchNorm(3, process_group=object())


def test_data_parallel(device):
    net = volta.nn.DataParallel(volta.nn.Linear(2, 3).to(device))
    x = volta.ones(4, 2, device=device)
    assert list(net.state_dict()) == ["module.weight", "module.bias"] and volta.equal(net(x), net.module(x))
    assert volta.equal(volta.nn.parallel.data_parallel(net.module, x), net(x))
    with pytest.warns(UserWarning, match="everything is computed on the first"):
        volta.nn.DataParallel(volta.nn.Linear(2, 3), ["cpu", "cpu"])


def test_pruning(device, rng):
    steps = [("l1_unstructured", "weight", {"amount": 0.3}), ("ln_structured", "weight", {"amount": 2, "n": 2, "dim": 0}),
             ("l1_unstructured", "weight", {"amount": 5}), ("identity", "bias", {}), ("custom_from_mask", "bias", {"mask": None})]
    theirs, ours = (package.nn.Conv2d(4, 6, 3) for package in (torch, volta))
    taken(theirs, ours, device)
    x = rng.standard_normal((1, 4, 5, 5)).astype(np.float32)
    for name, parameter, options in steps:
        for package, net in ((torch, theirs), (volta, ours)):
            mask = {"mask": package.tensor([1, 0, 1, 1, 0, 1], device=device if net is ours else "cpu")} if "mask" in options else {}
            assert getattr(package.nn.utils.prune, name)(net, parameter, **options | mask) is net
        assert {k: tuple(t.shape) for k, t in theirs.state_dict().items()} == {k: t.shape for k, t in ours.state_dict().items()}
        close(getattr(ours, parameter + "_mask"), getattr(theirs, parameter + "_mask"))
    wanted, found = theirs(torch.tensor(x)), ours(volta.tensor(x, device=device))
    close(found, wanted)
    wanted.sum().backward()
    found.sum().backward()
    close(ours.weight_orig.grad, theirs.weight_orig.grad)
    assert volta.nn.utils.prune.is_pruned(ours)
    for package, net in ((torch, theirs), (volta, ours)):
        package.nn.utils.prune.remove(net, "weight")
        package.nn.utils.prune.remove(net, "bias")
    assert sorted(theirs.state_dict()) == sorted(ours.state_dict()) and not volta.nn.utils.prune.is_pruned(ours)
    close(ours.weight, theirs.weight)
    with pytest.raises(ArgumentError, match="is not pruned"):
        volta.nn.utils.prune.remove(ours, "weight")


def test_global_and_random_pruning(device):
    prune = volta.nn.utils.prune
    theirs, ours = (package.nn.Sequential(package.nn.Linear(5, 4), package.nn.Linear(4, 3)) for package in (torch, volta))
    taken(theirs, ours, device)
    for package, net in ((torch, theirs), (volta, ours)):
        utils = package.nn.utils.prune
        utils.global_unstructured([(net[0], "weight"), (net[1], "weight")], utils.L1Unstructured, amount=0.4)
    for p, q in zip(theirs, ours):
        close(q.weight_mask, p.weight_mask)
    layer = prune.random_unstructured(volta.nn.Linear(10, 4).to(device), "weight", 0.25)
    assert int(layer.weight_mask.sum()) == 30
    prune.random_structured(layer, "weight", 0.5, dim=1)
    assert int((layer.weight_mask.sum(0) == 0).sum()) >= 4
    with pytest.raises(TypeError, match="must prune elements"):
        prune.global_unstructured([(ours[0], "weight")], prune.LnStructured, amount=1, n=2)
    with pytest.raises(ArgumentError, match="a share in"):
        prune.l1_unstructured(ours[0], "bias", 1.5)


@pytest.mark.parametrize("name, args, shape", [("Conv2d", (3, 4, 2), (2, 3, 4, 4)), ("ConvTranspose1d", (3, 4, 2), (2, 3, 4)),
                                               ("Linear", (3, 4), (2, 3))])
def test_fusion(name, args, shape, device, rng):
    norm = {2: "BatchNorm1d", 3: "BatchNorm1d", 4: "BatchNorm2d"}[len(shape)]
    layer, behind = getattr(volta.nn, name)(*args).to(device).eval(), getattr(volta.nn, norm)(4).to(device).eval()
    x = volta.tensor(rng.standard_normal(shape), dtype=volta.float32, device=device)
    for t in (behind.weight, behind.bias, behind.running_mean, behind.running_var):
        t.data.uniform_(0.5, 2.0)
    utils = volta.nn.utils
    fused = utils.fuse_linear_bn_eval(layer, behind) if name == "Linear" else utils.fuse_conv_bn_eval(layer, behind, "Transpose" in name)
    volta.testing.assert_close(fused(x), behind(layer(x)), rtol=1e-4, atol=1e-5)
    with pytest.raises(ArgumentError, match="must be in evaluation"):
        utils.fuse_conv_bn_eval(layer.train(), behind)
    assert utils.skip_init(volta.nn.Linear, 2, 3, device=device).weight.shape == (3, 2)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("options", [{"size": (4, 3)}, {"size": (11, 4)}, {"scale_factor": (0.4, 1.7)},
                                     {"size": (4, 3), "align_corners": True}])
def test_resampling_without_aliasing(mode, options):
    array = np.random.default_rng(0).standard_normal((2, 3, 9, 7)).astype("float32")
    found = []
    for library in (volta, torch):
        x = library.tensor(array, requires_grad=True)
        y = library.nn.functional.interpolate(x, mode=mode, antialias=True, **options)
        (y * y).sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    pixels = (array * 40 + 128).clip(0, 255).astype("uint8")
    ours, theirs = (library.nn.functional.interpolate(library.tensor(pixels), mode=mode, antialias=True, **options).numpy().astype(int)
                    for library in (volta, torch))
    assert abs(ours - theirs).max() <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("shape, size", [((2, 3, 40, 37), (13, 17)), ((1, 1, 11, 9), (25, 40)), ((3, 5, 64, 20), (7, 90))])
def test_resampling_without_aliasing_on_a_gpu(mode, shape, size, gpu):
    """As in double precision on the CPU, by one dispatch for each dimension each way, once there are tables."""
    rng = np.random.default_rng(0)
    array, weights = rng.standard_normal(shape).astype("float32"), rng.standard_normal((*shape[:2], *size)).astype("float32")
    exact = torch.tensor(array, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.interpolate(exact, size, mode=mode, antialias=True)
    y.backward(torch.tensor(weights).double())
    for device in ("cpu", gpu):
        x, g = volta.tensor(array, device=device, requires_grad=True), volta.tensor(weights, device=device)
        volta.nn.functional.interpolate(x, size, mode=mode, antialias=True)
        before = volta.gpu.stats()
        ours = volta.nn.functional.interpolate(x, size, mode=mode, antialias=True)
        ours.backward(g)
        assert device == "cpu" or (volta.gpu.stats() - before).dispatches == 4        # of which the leaf takes the gradient over
        np.testing.assert_allclose(ours.detach().cpu().numpy(), y.detach().numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(x.grad.cpu().numpy(), exact.grad.numpy(), rtol=1e-5, atol=2e-5)
        pixels = (array * 40 + 128).clip(0, 255).astype("uint8")
        ours = volta.nn.functional.interpolate(volta.tensor(pixels, device=device), size, mode=mode, antialias=True).cpu().numpy()
        theirs = torch.nn.functional.interpolate(torch.tensor(pixels), size, mode=mode, antialias=True).numpy()
        assert abs(ours.astype(int) - theirs).max() <= 1
