"""Weight and spectral normalisation of both kinds and parametrizations, compared with PyTorch."""
import warnings

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, ShapeError

torch = pytest.importorskip("torch", reason="compares with PyTorch")

LAYERS = {"linear": (lambda nn: nn.Linear(4, 3), (5, 4)), "conv": (lambda nn: nn.Conv2d(2, 4, 3), (2, 2, 5, 5)),
          "transposed": (lambda nn: nn.ConvTranspose2d(2, 4, 3), (2, 2, 5, 5))}
KINDS = [("weight_norm", {}), ("weight_norm", {"dim": None}), ("weight_norm", {"dim": 1}), ("spectral_norm", {}),
         ("spectral_norm", {"n_power_iterations": 3})]


def close(ours, theirs, tolerance=1e-5):
    np.testing.assert_allclose(ours.detach().cpu().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("first_kind", [True, False], ids=["hook", "parametrization"])
@pytest.mark.parametrize("kind, options", KINDS)
@pytest.mark.parametrize("layer", LAYERS)
def test_values_gradients_and_state_dicts(layer, kind, options, first_kind, device):
    make, shape = LAYERS[layer]
    theirs, ours = make(torch.nn), make(volta.nn).to(device)
    ours.load_state_dict(theirs.state_dict())
    theirs_utils, ours_utils = torch.nn.utils, volta.nn.utils
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(theirs_utils if first_kind else theirs_utils.parametrizations, kind)(theirs, **options)
    getattr(ours_utils if first_kind else ours_utils.parametrizations, kind)(ours, **options)
    assert [(k, tuple(v.shape)) for k, v in theirs.state_dict().items()] == [(k, v.shape) for k, v in ours.state_dict().items()]
    ours.load_state_dict(theirs.state_dict())
    rng = np.random.default_rng(0)
    for _ in range(2):
        x = rng.standard_normal(shape).astype(np.float32)
        for lib, m in ((torch, theirs), (volta, ours)):
            m.zero_grad()
            out = m(lib.tensor(x).to("cpu" if lib is torch else device))
            (out ** 2).sum().backward()
        for (name, p), (their_name, q) in zip(ours.named_parameters(), theirs.named_parameters()):
            assert name == their_name
            close(p.grad, q.grad, 2e-4)
    close(ours.eval()(volta.tensor(x, device=device)), theirs.eval()(torch.tensor(x)))
    if first_kind:
        getattr(theirs_utils, "remove_" + kind)(theirs)
        getattr(ours_utils, "remove_" + kind)(ours)
    else:
        theirs_utils.parametrize.remove_parametrizations(theirs, "weight")
        ours_utils.parametrize.remove_parametrizations(ours, "weight")
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict()) and repr(ours) == repr(theirs)
    close(ours(volta.tensor(x, device=device)), theirs(torch.tensor(x)))


def test_a_parametrization_of_the_users_own():
    class Symmetric(volta.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).t()

        def right_inverse(self, x):
            return x.triu()

    class Doubled(volta.nn.Module):
        def forward(self, x):
            return x * 2

    parametrize = volta.nn.utils.parametrize
    layer = volta.nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert isinstance(layer, volta.nn.Linear) and parametrize.is_parametrized(layer, "weight") and layer.weight.equal(layer.weight.t())
    layer.weight = volta.ones(3, 3)
    assert layer.weight.equal(volta.ones(3, 3)) and "parametrizations.weight.original" in dict(layer.named_parameters())
    with parametrize.cached():
        assert layer.weight is layer.weight
    parametrize = volta.nn.utils.parametrize
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.weight.equal(volta.full((3, 3), 2.0))
    with pytest.raises(ArgumentError, match="Doubled has no right_inverse"):
        layer.weight = volta.zeros(3, 3)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is volta.nn.Linear and layer.weight.equal(volta.full((3, 3), 2.0)) and not parametrize.is_parametrized(layer)


def test_what_cannot_be_parametrized_is_named():
    class Flat(volta.nn.Module):
        def forward(self, x):
            return x.flatten()

    layer, utils = volta.nn.Linear(2, 2), volta.nn.utils
    for function in (utils.weight_norm, utils.spectral_norm, utils.parametrizations.weight_norm, utils.parametrizations.spectral_norm):
        with pytest.raises(ArgumentError, match="Linear has no parameter"):
            function(layer, "bogus")
    with pytest.raises(ShapeError, match=r"gives volta.float32 \(4,\) where the tensor was volta.float32 \(2, 2\)"):
        utils.parametrize.register_parametrization(layer, "weight", Flat())
    assert type(layer) is volta.nn.Linear and set(layer.state_dict()) == {"weight", "bias"}
    for remove in (utils.remove_weight_norm, utils.remove_spectral_norm):
        with pytest.raises(ArgumentError, match="remove_"):
            remove(layer)
    utils.weight_norm(layer)
    with pytest.raises(ArgumentError, match="has no parameter 'weight'"):
        utils.weight_norm(layer)


@pytest.fixture
def gaps():
    """What a GPU has no algorithm for is computed on the CPU."""
    previous = volta.set_gpu_gaps("warn")
    yield
    volta.set_gpu_gaps(previous)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("gaps")
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
@pytest.mark.parametrize("trivialized", [True, False])
def test_orthogonal(kind, shape, trivialized, device, rng):
    """The base that completes a matrix is drawn: ours is taken from PyTorch."""
    theirs, ours = (library.nn.Linear(*shape[::-1]) for library in (torch, volta))
    ours.load_state_dict(theirs.state_dict())
    for library, layer in ((torch, theirs), (volta, ours)):
        assert library.nn.utils.parametrizations.orthogonal(layer, "weight", kind, use_trivialization=trivialized) is layer
    assert list(theirs.state_dict()) == list(ours.state_dict())
    square = ours.weight.T @ ours.weight if shape[0] >= shape[1] else ours.weight @ ours.weight.T
    volta.testing.assert_close(square, volta.eye(min(shape)), rtol=1e-5, atol=1e-5)
    ours.to(device).load_state_dict(theirs.state_dict())
    x, weights = rng.standard_normal((5, shape[1])).astype("f"), []
    for library, layer, place in ((torch, theirs, "cpu"), (volta, ours, device)):
        steps = library.optim.SGD(layer.parameters(), 0.1)
        for _ in range(5):
            steps.zero_grad()
            (layer(library.tensor(x, device=place)).exp().mean() + layer.weight[0].sum()).backward()
            steps.step()
        weights.append(layer.weight.detach().cpu().numpy())
    np.testing.assert_allclose(weights[1], weights[0], atol=2e-5)


def test_wrong_orthogonal():
    orthogonal = volta.nn.utils.parametrizations.orthogonal
    with pytest.raises(ArgumentError, match="has no parameter or buffer 'w'"):
        orthogonal(volta.nn.Linear(2, 2), "w")
    with pytest.raises(ArgumentError, match="needs a matrix"):
        orthogonal(volta.nn.Linear(2, 2), "bias")
    with pytest.raises(ArgumentError, match="orthogonal_map must be"):
        orthogonal(volta.nn.Linear(2, 2), orthogonal_map="qr")
    layer = orthogonal(volta.nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign"):
        layer.weight = volta.eye(2)


def test_spectral_norm_iterates_in_passes_alone():
    layer = volta.nn.utils.spectral_norm(volta.nn.Linear(4, 3))
    assert (layer.weight == layer.weight_orig).all()                    # until the first pass
    layer(volta.ones(1, 4))
    u, v, original = layer.weight_u.clone(), layer.weight_v.clone(), layer.weight_orig.detach().clone()
    volta.nn.utils.remove_spectral_norm(layer)
    volta.testing.assert_close(layer.weight.detach(), original / volta.dot(u, volta.mv(original, v)))


@pytest.mark.parametrize("leave", [True, False])
def test_the_parameter_that_stays_is_the_one_an_optimizer_has(leave):
    class Doubled(volta.nn.Module):
        def forward(self, x):
            return x * 2

    layer = volta.nn.Linear(2, 2)
    parameter, before = layer.weight, layer.weight.detach().clone()
    optimizer = volta.optim.SGD(layer.parameters(), 1.0)
    parametrize = volta.nn.utils.parametrize
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert layer.weight is parameter and (parameter == before * (2 if leave else 1)).all()
    layer(volta.ones(1, 2)).sum().backward()
    optimizer.step()
    assert (layer.weight == before * (2 if leave else 1) - 1).all()


def test_what_parametrizations_must_give():
    class Three(volta.nn.Module):
        def forward(self, x):
            return 3

    with pytest.raises(ValueError, match="must return a tensor, got int"):
        volta.nn.utils.parametrize.register_parametrization(volta.nn.Linear(2, 2), "weight", Three())
    with pytest.raises(ValueError, match="n_power_iterations must be positive, got 0"):
        volta.nn.utils.parametrizations.spectral_norm(volta.nn.Linear(2, 2), n_power_iterations=0)


def test_what_is_pruned_together_has_a_graph_at_once():
    layers = [volta.nn.Linear(3, 2), volta.nn.Linear(3, 2)]
    prune = volta.nn.utils.prune
    prune.global_unstructured([(layer, "weight") for layer in layers], prune.L1Unstructured, amount=3)
    assert all(layer.weight.grad_fn is not None for layer in layers)
    assert sum(int((layer.weight == 0).sum()) for layer in layers) == 3
