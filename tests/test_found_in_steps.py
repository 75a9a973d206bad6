"""Strides of dimensions that have one element, or none, as PyTorch gives them; arguments of other kinds that PyTorch takes."""
from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import volta
import volta.optim

torch = pytest.importorskip("torch")
LIBRARIES = {"PyTorch": torch, "Volta": volta}

STRIDES = {
    "new dimensions": lambda lib, x, z, e: (x[::4], x[::100], x[..., None], x[None], x[:, None],
                                            x[None, :, None], z[:, None, None], z[1:2, None],
                                            z[0, None], z[None, 0], z[None, 0, None], x[True], x[:, True], x[None, lib.tensor([1, 2])]),
    "unsqueeze": lambda lib, x, z, e: (x.unsqueeze(-1), z.unsqueeze(1), z.unsqueeze(0), z.unsqueeze(-1), e.unsqueeze(0), e.unsqueeze(1)),
    "squeeze": lambda lib, x, z, e: (x[:, None].squeeze(), x[None, :, None].squeeze(0), x[None, :, None].squeeze((0, 2)),
                                     lib.zeros(1, 4, 1).permute(1, 0, 2).squeeze(0), x[:1].squeeze(()), e[None].squeeze(0)),
    "expand": lambda lib, x, z, e: (x.expand(1, 3, 4), x.expand(2, 1, 3, 4), x[:1].expand(1, 1, 5, 1, 4), e.expand(1, 0, 4, 5),
                                    lib.broadcast_to(x, (1, 1, 3, 4)), *lib.broadcast_tensors(x[None, :1], x[:1, :1], x[0, 0])),
    "grids": lambda lib, x, z, e: tuple(y for indexing in ("ij", "xy") for y in (
        *lib.meshgrid(lib.zeros(3), lib.zeros(1), indexing=indexing),
        *lib.meshgrid(lib.zeros(3), lib.zeros(2), lib.zeros(2), indexing=indexing),
        *lib.meshgrid(lib.zeros(3), indexing=indexing))),
    "ranks": lambda lib, x, z, e: (lib.atleast_3d(x), lib.atleast_3d(x[0]), lib.atleast_2d(x[0]), lib.atleast_2d(e[:, 0, 0])),
    "like nothing": lambda lib, x, z, e: tuple(make(each) for make in (lib.zeros_like, lib.empty_like, lib.rand_like) for each in (
        e.permute(2, 0, 1), lib.zeros(0, 10, 4)[:, ::2, ::2])),
    "matrices of nothing": lambda lib, x, z, e: (
        lib.linalg.inv(lib.zeros(0, 3, 3)), lib.linalg.cholesky(lib.zeros(0, 3, 3)),
        lib.linalg.solve(lib.zeros(0, 5, 5), lib.zeros(0, 5, 2)),
        lib.linalg.eigh(lib.zeros(0, 5, 5))[1], *lib.linalg.qr(lib.zeros(5, 0)), lib.nonzero(lib.zeros(5)), lib.nonzero(lib.zeros(5, 2))),
}


LINES = {
    "averages": lambda f, x: f.avg_pool1d(x, 2), "four": lambda f, x: f.adaptive_avg_pool1d(x, 4),
    "mean": lambda f, x: f.adaptive_avg_pool1d(x, 1),
    "four maxima": lambda f, x: f.adaptive_max_pool1d(x, 4), "maxima": lambda f, x: f.max_pool1d(x, 2),
    "places": lambda f, x: f.max_pool1d(x, 2, return_indices=True)[1], "norms": lambda f, x: f.lp_pool1d(x, 2, 2),
    "areas": lambda f, x: f.interpolate(x, size=4, mode="area"), "gates": lambda f, x: f.glu(x, 2), "slopes": lambda f, x: f.rrelu(x),
}


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0)])
def test_lines(case, order):
    found, values = {}, []
    for name, lib in LIBRARIES.items():
        x = lib.arange(48.0).reshape([(2, 3, 8)[d] for d in order]).permute(*order)
        wanting = x.clone().requires_grad_()
        y, z = LINES[case](lib.nn.functional, x), LINES[case](lib.nn.functional, wanting)
        if z.requires_grad:
            z.sum().backward()
        found[name] = y.stride(), z.stride(), wanting.grad is not None and wanting.grad.stride()
        values.append(np.asarray(y.tolist()))
    assert found["Volta"] == found["PyTorch"]
    np.testing.assert_allclose(*values, rtol=2.0 ** -23)            # PyTorch's powers round by the processor


def _backward(lib, leaf, g, **options):
    leaf.requires_grad_().backward(g, **options)
    return leaf.grad


GRADIENTS = {
    "turned": lambda lib: _backward(lib, lib.ones(3, 4), lib.ones(4, 3).t()),
    "turned leaf": lambda lib: _backward(lib, lib.ones(4, 3).t(), lib.ones(3, 4)),
    "gaps": lambda lib: _backward(lib, lib.ones(3, 8)[:, ::2], lib.ones(4, 3).t()),
    "expanded": lambda lib: _backward(lib, lib.ones(4).expand(3, 4), lib.ones(4, 3).t()),
    "both": lambda lib: _backward(lib, lib.ones(4, 3).t(), lib.ones(4, 3).t()),
    "recorded": lambda lib: _backward(lib, lib.ones(4, 3).t(), lib.ones(3, 4), create_graph=True),
    "images": lambda lib: _backward(lib, lib.ones(2, 3, 4, 4).to(memory_format=lib.channels_last), lib.ones(2, 3, 4, 4)),
}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_lie_as_their_leaves(case):
    assert GRADIENTS[case](volta).stride() == GRADIENTS[case](torch).stride()


def test_gradients_of_turned_leaves():
    x = volta.arange(12.0).reshape(4, 3).t().requires_grad_()
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert np.array_equal(x.grad.numpy(), 4 * x.detach().numpy()) and x.grad.stride() == x.stride()
    x.grad.zero_()
    (x ** 3).sum().backward(create_graph=True)
    x.grad.sum().backward()
    assert np.allclose(x.grad.detach().numpy(), 3 * x.detach().numpy() ** 2 + 6 * x.detach().numpy())


@pytest.mark.parametrize("case", STRIDES)
def test_strides(case):
    found = {}
    for name, lib in LIBRARIES.items():
        x, z, e = lib.zeros(4, 3).t(), lib.zeros(4, 3, 2).permute(2, 0, 1), lib.zeros(0, 4, 5)
        found[name] = [(tuple(y.shape), tuple(y.stride())) for y in STRIDES[case](lib, x, z, e)]
    assert found["Volta"] == found["PyTorch"]


def test_new_dimensions_in_a_batch():
    x = volta.arange(24).reshape(2, 3, 4)
    for each in (lambda y: y[None], lambda y: y[:, None], lambda y: y.t()[..., None], lambda y: y.t().unsqueeze(1),
                 lambda y: y[:, :1].squeeze(1)):
        assert volta.vmap(each)(x).tolist() == [each(y).tolist() for y in x]


def test_grids_of_points():
    a, b, c = np.arange(3.0), np.arange(2.0), np.arange(4.0)
    for mine, theirs in zip(volta.meshgrid(*map(volta.tensor, (a, b, c)), indexing="xy"), np.meshgrid(a, b, c, indexing="xy")):
        assert np.array_equal(mine.numpy(), theirs)


@pytest.mark.parametrize("rank", [1, 2])
def test_a_bias_of_another_dtype(rank):
    name, shape = f"conv_transpose{rank}d", (1, 3, *(4,) * rank)
    rng = np.random.default_rng(0)
    for dtype, bias in (("float32", "float64"), ("float32", "int64"), ("float64", "bfloat16"), ("int64", "uint8"), ("float16", "float32"),
                        ("int64", "float32")):
        x, w, b = rng.integers(0, 4, shape), rng.integers(0, 4, (3, 2, *(3,) * rank)), rng.integers(0, 4, 2)
        found = {}
        for key, lib in LIBRARIES.items():
            given = [lib.tensor(v.astype(np.float32)).to(getattr(lib, d)) for v, d in ((x, dtype), (w, dtype), (b, bias))]
            try:
                y = getattr(lib.nn.functional, name)(*given)
                found[key] = str(y.dtype).rpartition(".")[2], y.to(lib.float64).tolist()
            except (RuntimeError, TypeError):
                found[key] = "refused"
        if dtype == "float16":                  # PyTorch takes it on processors that have no products of float16
            found["PyTorch"] = "refused"
        assert found["Volta"] == found["PyTorch"], (dtype, bias)


TAKEN = {
    "flags": lambda lib, f: f.gaussian_nll_loss(lib.ones(3), lib.zeros(3), lib.ones(3), full=1, eps=True),
    "margin": lambda lib, f: f.cosine_embedding_loss(lib.ones(2, 3), lib.ones(2, 3), -lib.ones(2), margin=True),
    "power": lambda lib, f: f.multi_margin_loss(lib.eye(2), lib.tensor([0, 0]), p=1.0),
    "no power": lambda lib, f: f.normalize(lib.ones(2, 3), p=None),
    "a mean in a tensor": lambda lib, f: lib.normal(lib.tensor(1.5), 0.0, (2, 3)),
}
REFUSED = {
    "modes": lambda lib, f: f.grid_sample(lib.ones(1, 1, 2, 2), lib.zeros(1, 1, 2, 2), mode=None),
    "kinds": lambda lib, f: lib.cdist(lib.ones(2, 2), lib.ones(2, 2), compute_mode=1),
    "bags": lambda lib, f: f.embedding_bag(lib.tensor([1, 2]), lib.ones(4, 2), lib.tensor([0]), mode=1),
    "powers": lambda lib, f: f.multi_margin_loss(lib.eye(2), lib.tensor([0, 0]), p="no"),
    "windows": lambda lib, f: lib.signal.windows.hann("no"),
    "kept": lambda lib, f: lib.max(lib.ones(2), None, True),
    "numbers": lambda lib, f: lib.normal(1.0, 2.0),
}


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case):
    assert np.allclose(TAKEN[case](volta, volta.nn.functional).numpy(), TAKEN[case](torch, torch.nn.functional).numpy())


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    with pytest.raises((ValueError, TypeError)) as theirs:
        REFUSED[case](torch, torch.nn.functional)
    with pytest.raises(theirs.type):
        REFUSED[case](volta, volta.nn.functional)


@pytest.mark.parametrize("shape", [(3, 0), (2, 3, 0)])
def test_nothing_is_solved(shape):
    found = [lib.linalg.lu_solve(*lib.linalg.lu_factor(lib.eye(3).expand(*shape[:-2], 3, 3)), lib.zeros(shape))
             for lib in LIBRARIES.values()]
    assert tuple(found[0].shape) == found[1].shape and found[0].stride() == found[1].stride()


@pytest.mark.parametrize("name", ["lstm_cell", "gru_cell", "rnn_tanh_cell", "lstm", "gru"])
@pytest.mark.parametrize("length", [1, 3])
def test_states_of_another_length_are_refused(name, length):
    rows = {"lstm": 8, "gru": 6, "rnn": 2}[name.partition("_")[0]]
    h, weights = volta.zeros(2, length), (volta.zeros(rows, 3), volta.zeros(rows, 2))
    with pytest.raises(RuntimeError, match=f"a state must have rows of 2, as the weights do, got \\(2, {length}\\)"):
        if name.endswith("cell"):
            getattr(volta, name)(volta.zeros(2, 3), (volta.zeros(2, 2), h) if name == "lstm_cell" else h, *weights)
        else:
            hx = h[None] if name == "gru" else (h[None], volta.zeros(1, 2, 2))
            getattr(volta, name)(volta.zeros(4, 2, 3), hx, weights, False, 1, 0.0, False, False, False)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_copies_share_memory_as_what_is_copied(device, dtype):
    x = volta.arange(6.0, device=device).to(getattr(volta, dtype)).reshape(2, 3)
    a, b = copy.deepcopy([x, x[:, 1]])
    a[0, 1] = 7
    assert b.tolist() == [7, 4] and b.stride() == (3,) and x[0, 1] == 1
    turned = copy.deepcopy(x.t()[1:, :1])
    assert turned.stride() == (1, 3) and turned.tolist() == [[1], [2]]


def test_copies_and_pickles_of_leaves_lie_as_they_do():
    x = volta.arange(6.0).reshape(2, 3)
    turned = x.t().requires_grad_()
    for found in copy.deepcopy(turned), pickle.loads(pickle.dumps(turned)):
        assert found.stride() == (1, 3) and found.requires_grad and found.is_leaf and found.tolist() == turned.tolist()


WRITES = {"times": lambda v: v.mul_(2), "number": lambda v: v.__setitem__(0, 1.0), "zeros": lambda v: v.zero_(),
          "filled": lambda v: v.index_fill_(0, volta.tensor([0]), 1.0), "positive": lambda v: v.relu_()}


@pytest.mark.parametrize("write", WRITES)
def test_views_made_without_history_of_what_has_one_are_not_written_to(write):
    base = volta.ones(2, 3, requires_grad=True) * 1
    with volta.no_grad():
        view, plain = base[0], volta.ones(2, 3)[0]
    WRITES[write](plain)
    with pytest.raises(RuntimeError, match=r"view made under no_grad\(\)"):
        WRITES[write](view)
    with volta.no_grad():
        WRITES[write](view)


def test_states_of_schedules_are_pytorchs():
    class Share:
        def __init__(self, base):
            self.base = base

        def __call__(self, epoch):
            return self.base ** epoch

    schedules = {
        "LambdaLR": (lambda e: 0.9 ** e,), "MultiplicativeLR": (lambda e: 0.9,), "CyclicLR": (0.01, 0.1, 3), "StepLR": (3, 0.5)}
    for name, arguments in schedules.items():
        ours, theirs = ([o := lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.1, momentum=0.9),
                         getattr(lib.optim.lr_scheduler, name)(o, *arguments)] for lib in (volta, torch))
        for _ in range(3):
            ours[0].step()
            ours[1].step()
        theirs[1].load_state_dict(ours[1].state_dict())
        theirs[0].load_state_dict(ours[0].state_dict())
        for optimizer, schedule in (ours, theirs):
            optimizer.step()
            schedule.step()
        assert ours[0].param_groups[0]["lr"] == pytest.approx(theirs[0].param_groups[0]["lr"])
    optimizer = volta.optim.SGD([volta.nn.Parameter(volta.ones(1))], lr=0.1)
    first, second = (volta.optim.lr_scheduler.LambdaLR(optimizer, Share(base)) for base in (0.5, 0.9))
    assert first.state_dict()["lr_lambdas"] == [{"base": 0.5}]
    second.load_state_dict(first.state_dict())
    assert second.lr_lambdas[0].base == 0.5


@pytest.mark.parametrize("name, arguments", [
    ("StepLR", (3, 0.5)), ("MultiStepLR", ([2, 3],)), ("ConstantLR", (0.3, 4)), ("ExponentialLR", (0.9,))])
@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_schedules_that_go_on(name, arguments, epoch):
    found = []
    for lib in LIBRARIES.values():
        optimizer = lib.optim.SGD([{"params": [lib.nn.Parameter(lib.ones(1))], "initial_lr": 1.0}], lr=0.1)
        schedule = getattr(lib.optim.lr_scheduler, name)(optimizer, *arguments, last_epoch=epoch)
        found.append([schedule.last_epoch, *schedule.get_last_lr()])
        for _ in range(3):
            optimizer.step()
            schedule.step()
            found[-1].append(schedule.get_last_lr()[0])
    assert np.allclose(*found)


def test_a_leaf_that_wants_no_gradient_any_more_gets_none():
    x, y = volta.ones(2, requires_grad=True), volta.ones(2, requires_grad=True)
    out = (x * y).sum()
    x.requires_grad_(False)
    out.backward()
    assert x.grad is None and y.grad.tolist() == [1.0, 1.0]


def test_hooks_of_state_dicts_change_the_dict_that_they_are_given():
    layer = volta.nn.Linear(2, 1)
    layer.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.pop("bias"))
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict()


@pytest.mark.parametrize("shape", [(2, 1, 2, 2), (2, 3, 1, 1), (2, 3, 2, 2), (0, 3, 2, 2)])
def test_pixels_of_one_channel_or_element(shape):
    found = []
    for lib in LIBRARIES.values():
        x, last = lib.zeros(shape), {"memory_format": lib.channels_last}
        found.append([y.stride() for y in (x.clone(**last), x.to(**last), x.contiguous(**last), lib.empty(*shape, **last),
                                           lib.empty_like(x, **last), x.to(lib.float64, **last))])
    assert found[0] == found[1]


def test_jacobians_of_sums():
    first, second = volta.func.jacrev(lambda x: (x.sum(), x * x))(volta.arange(3.0))
    first[0] = 2.0
    assert first.tolist() == [2.0, 1.0, 1.0] and second.stride() == (3, 1)
    assert volta.autograd.functional.jacobian(lambda x: x * x, volta.ones(2), create_graph=True).requires_grad
    with pytest.raises(RuntimeError, match="grad: inputs is empty"):
        volta.autograd.grad(volta.ones(2, requires_grad=True).sum(), [])


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "float16"])
def test_factors_of_any_dtype_are_unpacked(dtype):
    found = [lib.lu_unpack(lib.eye(3, 4).to(getattr(lib, dtype)), lib.tensor([2, 2, 3], dtype=lib.int32)) for lib in LIBRARIES.values()]
    assert [(str(x.dtype).rpartition(".")[2], x.tolist()) for x in found[0]] == [(x.dtype.name, x.tolist()) for x in found[1]]


def test_places_of_nothing():
    for shape in (0, 3), (3, 0), (0,):
        found = [lib.unravel_index(lib.zeros(shape, dtype=lib.int64), (2, 3)) for lib in LIBRARIES.values()]
        assert [tuple(x.shape) for x in found[0]] == [x.shape for x in found[1]]


def test_tensors_of_pytorch_are_refused():
    with pytest.raises(TypeError, match="sin: input must be a tensor or a number, got Tensor"):
        volta.sin(torch.ones(2))
    with pytest.raises(TypeError):
        volta.ones(2) + torch.ones(2)


@pytest.mark.parametrize("name, option, value", [("SGD", "lr", "a"), ("SGD", "lr", None), ("Adam", "lr", "a"), ("Adam", "betas", 0.9),
                                                 ("RMSprop", "lr", None), ("Adafactor", "eps", -1.0)])
def test_what_is_no_number_is_a_type_error(name, option, value):
    for library in LIBRARIES.values():
        with pytest.raises(TypeError):
            getattr(library.optim, name)([library.nn.Parameter(library.ones(1))], **{option: value})
        with pytest.raises(ValueError):
            getattr(library.optim, name)([library.nn.Parameter(library.ones(1))], lr=-1.0)


def test_the_logarithm_of_a_density_of_1_is_0_and_not_minus_0():
    for library in LIBRARIES.values():
        assert str(library.distributions.Uniform(0.0, 1.0).log_prob(library.tensor([0.5]))) == "tensor([0.])"


@pytest.mark.parametrize("size", [1, 2, 2.5, 0.5, 3.0])
def test_a_step_size_may_be_a_fraction(size):
    """The epochs that it divides are those that count, as in PyTorch."""
    def rates(lib):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=1.0)
        schedule = lib.optim.lr_scheduler.StepLR(optimizer, size, 0.3)
        found = []
        for _ in range(11):
            optimizer.step()
            schedule.step()
            found.append(schedule.get_last_lr()[0])
        return found, schedule.step_size
    assert rates(volta) == rates(torch)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD", "RMSprop", "Rprop"])
def test_capturable_steps_are_not_for_the_cpu(name):
    """PyTorch refuses them, too; parameters without a gradient are not looked at."""
    for lib, error in ((torch, AssertionError), (volta, ValueError)):
        x = lib.nn.Parameter(lib.ones(2))
        optimizer = getattr(lib.optim, name)([x], capturable=True)
        optimizer.step()
        x.grad = lib.ones(2)
        with pytest.raises(error, match="capturable=True"):
            optimizer.step()
        assert x.tolist() == [1, 1] and (lib is torch or not optimizer.state[x])


@pytest.mark.parametrize("call", [
    lambda lib: lib.randint(5, 3), lambda lib: lib.randint(1, 5, 3), lambda lib: lib.randint(5, size=3),
    lambda lib: lib.randint(5, lib.tensor(3)), lambda lib: lib.randint(5, True),
    *(lambda lib, f=f: getattr(lib, f)(lib.ones(2, 3), True, keepdim=True) for f in ("std", "var", "std_mean", "var_mean"))])
def test_sizes_and_kept_dimensions_that_are_missing(call):
    for lib in (torch, volta):
        with pytest.raises(TypeError, match="randint|keepdim"):
            call(lib)


@pytest.mark.parametrize("dim", [1 << 32, (1 << 32) + 1, -(1 << 32) - 1, 1 << 40, -1 << 63])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_dimensions_beyond_32_bits(dim, rank):
    """Of which the lower bits had been taken where few entries are written."""
    x = volta.arange(4.0).reshape((4,) * (rank == 1) + (2, 2) * (rank == 2)) if rank else volta.tensor(1.0)
    at, line, one = volta.zeros_like(x, dtype=volta.int64), volta.tensor([0]), (x[:1] if rank else x).clone()
    for call in (lambda: volta.scatter(x, dim, at, x), lambda: volta.scatter(x, dim, at, 2.0), lambda: x.scatter_add_(dim, at, at.float()),
                 lambda: x.scatter_(dim, at, 2.0), lambda: x.scatter_reduce_(dim, at, at.float(), "amax"),
                 lambda: x.index_add_(dim, line, one), lambda: x.index_fill_(dim, line, 3.0),
                 lambda: volta.index_copy(x, dim, line, one), lambda: volta.kthvalue(x > 0 if rank == 0 else x, 1, dim)):
        before = x.tolist()
        with pytest.raises(IndexError, match="out of range"):
            call()
        assert x.tolist() == before
