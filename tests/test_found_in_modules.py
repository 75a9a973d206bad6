"""Modules, optimizers and what lies around them beside PyTorch, as found by calling every class of it with many arguments."""
from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, AssertedError, AssertedShapeError, CallError, RankError, ShapeError, UnsupportedShapeError


def _stepped(name="Adam", count=2, **options):
    params = [nn.Parameter(volta.ones(3)), nn.Parameter(volta.ones(2, 2))]
    optimizer = getattr(volta.optim, name)(params, **options)
    for _ in range(count):
        _step(optimizer)
    return optimizer, params


def _step(optimizer):
    for group in optimizer.param_groups:
        for i, p in enumerate(group["params"]):
            p.grad = volta.full(p.shape, 0.25 * (i + 1))
    optimizer.step()


# ------------------------------------------------------------ numbers of a state
@pytest.mark.parametrize("name, numbers", [
    ("Adam", {"step": 2}), ("AdamW", {"step": 2}), ("Adagrad", {"step": 2}), ("Adadelta", {"step": 2}), ("Adamax", {"step": 2}),
    ("RAdam", {"step": 2}), ("RMSprop", {"step": 2}), ("Rprop", {"step": 2}), ("Adafactor", {"step": 2}),
    ("NAdam", {"step": 2, "mu_product": None}), ("ASGD", {"step": 2, "eta": None, "mu": 1})])
def test_a_state_shows_its_numbers_as_tensors(name, numbers):
    optimizer, (p, _) = _stepped(name)
    torch = pytest.importorskip("torch")
    q = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, 2))]
    theirs = getattr(torch.optim, name)(q)
    for _ in range(2):
        for i, v in enumerate(q):
            v.grad = torch.full(v.shape, 0.25 * (i + 1))
        theirs.step()
    state = optimizer.state[p]
    assert list(state) == list(theirs.state[q[0]])
    for key, value in numbers.items():
        shown, other = state[key], theirs.state[q[0]][key]
        assert isinstance(shown, volta.Tensor) and shown.shape == () and shown.dtype is volta.float32 and shown.device.type == "cpu"
        assert shown.item() == pytest.approx(other.item(), rel=1e-6) and (value is None or shown.item() == value)
        assert state.get(key) is shown and dict(state)[key] is shown and {**state}[key] is shown and state.setdefault(key, 9) is shown
        assert dict(state.items())[key] is shown and shown in list(state.values()) and optimizer.state_dict()["state"][0][key] is shown
    _step(optimizer)
    assert state["step"].item() == 3 and (name != "NAdam" or state["mu_product"].item() < theirs.state[q[0]]["mu_product"].item())


def test_a_shown_step_is_written_and_read_by_later_steps():
    (one, (p, other)), (two, (q, _)) = _stepped(), _stepped()
    step = one.state[p]["step"]
    for optimizer in (one, two):
        _step(optimizer)
    assert step.item() == 3 and one.state[p]["step"] is step and volta.equal(p, q)
    step.fill_(99)                                          # as PyTorch's, what is written counts
    _step(one)
    _step(two)
    assert step.item() == 100 and one.state[other]["step"].item() == 4 and not volta.equal(p, q)
    one.state[p]["step"] = volta.tensor(3.0)
    one.state[other] = {}                                   # begins anew
    _step(one)
    assert one.state[p]["step"].item() == 4 and one.state[other]["step"].item() == 1 and set(one.state[other]) == set(one.state[p])
    assert one.state[p].pop("step").item() == 4 and "step" not in one.state[p]


def test_a_state_is_copied_and_saved_with_tensors(tmp_path):
    optimizer, (p, _) = _stepped()
    copied, pickled = copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))
    for other in (copied, pickled):
        r = other.param_groups[0]["params"][0]
        _step(other)
        assert other.state[r]["step"].item() == 3 and optimizer.state[p]["step"].item() == 2
    assert "'step': tensor(2.)" in repr(optimizer.state[p]) and copy.copy(optimizer.state[p])["step"].item() == 2
    assert pickle.loads(pickle.dumps(optimizer.state[p]))["step"].item() == 2 and ({} | optimizer.state[p])["step"].item() == 2
    assert (optimizer.state[p] | {"x": 1})["step"].item() == optimizer.state[p].copy()["step"].item() == 2
    volta.save(optimizer.state_dict(), tmp_path / "o.pt")
    found = volta.load(tmp_path / "o.pt")["state"][0]["step"]
    assert found.shape == () and found.item() == 2
    other, (q, _) = _stepped(count=0)
    other.load_state_dict(volta.load(tmp_path / "o.pt"))
    assert other.state[q]["step"].item() == 2


def test_steps_of_pytorch_that_are_plain_numbers_stay_such():
    p = nn.Parameter(volta.ones(3, 2))
    optimizer = volta.optim.SparseAdam([p])
    p.grad = volta.sparse_coo_tensor([[0, 2]], volta.ones(2, 2), (3, 2))
    optimizer.step()
    assert type(optimizer.state[p]["step"]) is int and optimizer.state[p]["step"] == 1
    assert type(optimizer.state_dict()["state"][0]["step"]) is int

    class Own(volta.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            for p in self.param_groups[0]["params"]:
                self.state[p].setdefault("step", 0)
                self.state[p]["step"] += 1
    own = Own([p])
    own.step()
    assert type(own.state[p]["step"]) is int and type(own.state_dict()["state"][0]["step"]) is int


def test_flags_of_optimizers_are_true_or_false_by_their_value():
    params = [nn.Parameter(volta.ones(2))]
    for options in ({"amsgrad": 1}, {"maximize": 0}, {"foreach": 0}, {"fused": 1, "foreach": 0}, {"capturable": 0}):
        volta.optim.Adam(params, **options)
    for options in ({"foreach": "x"}, {"maximize": "x"}, {"amsgrad": (1, 2)}):
        with pytest.raises(CallError, match="must be True or False"):
            volta.optim.Adam(params, **options)
    optimizer = volta.optim.SGD([{"params": params, "lr": -0.5}])         # a group's own rate
    params[0].grad = volta.ones(2)
    optimizer.step()
    assert params[0].tolist() == [1.5, 1.5]
    with pytest.raises(ArgumentError, match="lr must be"):
        volta.optim.SGD(params, lr=-0.5)
    with pytest.raises(AssertedError, match="capturable=True needs parameters on a GPU"):
        volta.optim.Adam(params, capturable=True).step()


ERRORS = [
    (CallError, "kernel_size must be an int", lambda: nn.Conv1d(1, 1, 2.5)),
    (CallError, "stride must be an int", lambda: nn.Conv2d(1, 1, 2, stride="x")),
    (CallError, "padding must be an int", lambda: nn.ReflectionPad1d((1.0, 2))),
    (ArgumentError, "kernel_size must be an int", lambda: nn.Conv1d(1, 1, (1, 2))),
    (CallError, "takes .out_channels", lambda: nn.LazyConv1d(1, 1, 1, 0, 1, 1, True, "zeros", None, None, None)),
    (CallError, "takes .out_channels", lambda: nn.LazyConv1d(1, 1, 1, 0, 1, dilation=1)),
    (UnsupportedShapeError, "needs an input of 2 or 3 dimensions", lambda: nn.ReflectionPad1d(1)(volta.ones(3))),
    (TypeError, "must be a tensor", lambda: nn.ReplicationPad1d(1)(3)),
    (RankError, "cannot take the number of channels", lambda: nn.LazyBatchNorm1d()(volta.ones(3))),
    (AssertedShapeError, "must have width 8", lambda: nn.MultiheadAttention(8, 2)(*[volta.ones(2, 1, 4)] * 3)),
    (RankError, "must have 1 or 2 dimensions", lambda: nn.EmbeddingBag(3, 2)(volta.ones(1, 2, 3, dtype=volta.int64))),
    (ShapeError, "batches of different sizes", lambda: nn.CrossEntropyLoss()(volta.ones(3, 4), volta.ones(2))),
    (CallError, "a hook must be a function", lambda: nn.ReLU().register_forward_hook(3)),
    (CallError, "must be a list of tensors", lambda: volta.optim.SGD([{"params": None}])),
    (CallError, "betas must be two numbers", lambda: volta.optim.Adam([nn.Parameter(volta.ones(1))], betas=(None, 0.9))),
    (CallError, "history_size must be an integer", lambda: volta.optim.LBFGS([nn.Parameter(volta.ones(1))], history_size="x")),
]


def test_errors_are_of_the_kind_that_pytorch_raises(each):
    def check(case):
        kind, text, call = case
        with pytest.raises(kind, match=text):
            call()
    each(check, ERRORS)


# ------------------------------------------------------------ modules
def test_lazy_layers_hold_plain_tensors_once_they_have_a_shape():
    layer = nn.LazyBatchNorm1d()
    layer.reset_parameters()                                # nothing to draw yet
    layer(volta.ones(2, 3, 4))
    assert type(layer.running_mean) is volta.Tensor and type(layer) is nn.BatchNorm1d and list(layer.state_dict())[2] == "running_mean"


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16, volta.float64])
def test_instance_norm_keeps_statistics_in_its_dtype(dtype):
    layer = nn.InstanceNorm1d(3, track_running_stats=True, affine=True).to(dtype)
    x = volta.tensor(np.arange(24.0).reshape(2, 3, 4)).to(dtype)
    assert layer(x).dtype is dtype and layer.running_mean.dtype is dtype
    np.testing.assert_allclose(layer.running_mean.float().numpy(), 0.1 * x.float().numpy().mean((0, 2)), rtol=1e-2)


def test_attributes_that_programs_read():
    assert nn.Upsample(scale_factor=2).name == "Upsample" and nn.SyncBatchNorm(3).process_group is None
    assert nn.MultiheadAttention(4, 2)._qkv_same_embed_dim and not nn.MultiheadAttention(4, 2, kdim=3)._qkv_same_embed_dim
    assert nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1).use_nested_tensor is False
    found = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])(volta.ones(2, 4), volta.tensor([0, 4]))
    assert type(found).__name__ == "_ASMoutput"
    module = nn.Module()
    module.register_buffer("x", None)
    assert module.get_buffer("x") is None
    with pytest.raises(AttributeError, match="no buffer 'y'"):
        module.get_buffer("y")


def test_assigned_parameters_have_no_gradient():
    layer = nn.Linear(2, 1)
    layer(volta.ones(1, 2)).sum().backward()
    layer.load_state_dict(layer.state_dict())
    assert layer.weight.grad is not None
    layer.load_state_dict({"weight": volta.zeros(1, 2, dtype=volta.float64), "bias": volta.zeros(1)}, assign=True)
    assert layer.weight.grad is None and layer.weight.dtype is volta.float64


# ------------------------------------------------------------ data, devices, convolutions
class _Stream(volta.data.IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_a_loader_tells_packages_what_it_does():
    kind = volta.data.loader._DatasetKind
    loader, stream = volta.data.DataLoader(range(5), batch_size=2), volta.data.DataLoader(_Stream(), batch_size=None)
    assert loader._dataset_kind == kind.Map == 0 and stream._dataset_kind == kind.Iterable == 1
    assert loader._auto_collation and not stream._auto_collation
    assert loader._index_sampler is loader.batch_sampler and stream._index_sampler is stream.sampler
    batches = iter(loader)
    assert batches._num_yielded == 0 and len(next(batches)) == 2 and batches._num_yielded == 1


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_transposed_convolution_that_leaves_nothing_is_empty(rank):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (torch, volta):
        x, w, b = (lib.ones(shape, requires_grad=True) for shape in ((2, 4, *(1,) * rank), (4, 3, *(1,) * rank), (3,)))
        y = getattr(lib.nn.functional, f"conv_transpose{rank}d")(x, w, b, stride=2, padding=1, output_padding=1)
        y.sum().backward()
        found.append([tuple(y.shape), *(t.grad.tolist() for t in (x, w, b))])
    assert found[0] == found[1] and found[1][0] == (2, 3, *(0,) * rank)
    with pytest.raises(ShapeError, match="leaves nothing"):
        getattr(nn.functional, f"conv_transpose{rank}d")(volta.ones(2, 4, *(1,) * rank), volta.ones(4, 3, *(1,) * rank), padding=1)


MORE_ERRORS = [
    (ValueError, "needs tensors and numbers, got list, Tensor", lambda: volta.distributions.Normal([1.0], volta.ones(1))),
    (TypeError, "needs tensors and numbers, got NoneType", lambda: volta.distributions.Gamma(None, 1.0)),
    (AssertionError, "give exactly one of covariance_matrix", lambda: volta.distributions.Wishart(volta.tensor(3.0))),
    (NotImplementedError, "total_count must be one int", lambda: volta.distributions.Multinomial(volta.tensor(5), volta.ones(2))),
    (NotImplementedError, "there is no device 'mps' here", lambda: volta.ones(2, device="mps")),
    (AssertionError, "there is no device 'xpu' here", lambda: volta.ones(2, device="xpu")),
    (ValueError, "there is no process group", lambda: nn.parallel.DistributedDataParallel(nn.Linear(2, 2))),
    (AssertionError, "must be in evaluation", lambda: nn.utils.fuse_linear_bn_eval(nn.Linear(2, 2), nn.BatchNorm1d(2))),
    (AssertionError, "needs a mask", lambda: volta.nn.utils.prune.custom_from_mask(nn.Linear(2, 2), "weight", volta.ones(3))),
    (TypeError, "num_workers must be an integer", lambda: volta.data.DataLoader(range(3), num_workers=1.5)),
    (TypeError, "needs arrays, or a dataset", lambda: volta.data.DataLoader(3)),
    (TypeError, "T_max must be a finite number", lambda: volta.optim.lr_scheduler.CosineAnnealingLR(_stepped()[0], None)),
    (TypeError, "mode must be 'min' or 'max'", lambda: volta.optim.lr_scheduler.ReduceLROnPlateau(_stepped()[0], 3)),
]


def test_more_errors_are_of_the_kind_that_pytorch_raises(each):
    def check(case):
        kind, text, call = case
        with pytest.raises(kind, match=text):
            call()
    each(check, MORE_ERRORS)
