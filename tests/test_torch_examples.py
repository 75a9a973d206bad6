"""What examples of PyTorch's own documentation show: values, graphs and printed text. Skips where it is not installed."""
import copy
import pickle
import re

import numpy as np
import pytest

import volta
from volta.nn.utils import rnn

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")


def same_text(show):
    """Whether what `show` prints of both libraries is the same but for their names."""
    assert re.sub(r"0x[0-9a-f]+", "", str(show(volta))).replace("volta.", "torch.") == re.sub(r"0x[0-9a-f]+", "", str(show(torch)))


def leaf(lib):
    return lib.tensor([[1.0, 2.0], [3.0, 4.5]], requires_grad=True)


@pytest.mark.parametrize("step", [
    lambda x: x * 2, lambda x: x.sum(), lambda x: x.mean(), lambda x: x ** 2, lambda x: x.view(4), lambda x: x.flatten(), lambda x: x @ x,
    lambda x: x.double(), lambda x: x.log1p(), lambda x: x.t().contiguous(), lambda x: x.softmax(0), lambda x: x.relu().norm()])
def test_steps_of_graphs_print_alike(step):
    same_text(lambda lib: step(leaf(lib)))
    same_text(lambda lib: step(leaf(lib)).grad_fn)


def test_what_was_written_to_prints_alike():
    def written(lib):
        y = leaf(lib).clone()
        y[0] = 5.0
        return y
    same_text(written)


@pytest.mark.parametrize("call", [
    lambda lib, x: lib.max(x, 1), lambda lib, x: x.min(dim=0), lambda lib, x: lib.sort(x, stable=True), lambda lib, x: x.topk(1),
    lambda lib, x: lib.linalg.qr(lib.eye(2)).R, lambda lib, x: lib.slogdet(x), lambda lib, x: lib.aminmax(x), lambda lib, x: x.cummax(1),
    lambda lib, x: lib.linalg.eigh(lib.eye(2)).eigenvalues, lambda lib, x: lib.histogram(x, 2), lambda lib, x: lib.frexp(x)])
def test_several_results_print_alike(call):
    same_text(lambda lib: call(lib, lib.tensor([[1.0, 3.0], [2.0, 8.0]])))


def test_several_results_are_copied_and_pickled():
    found = volta.tensor([1.0, 3.0]).max(0)
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert repr(other) == repr(found) and type(other) is type(found)


@pytest.mark.parametrize("make", [
    lambda lib, x: x.to_sparse(), lambda lib, x: x.double().to_sparse_coo(), lambda lib, x: x.to_sparse(1),
    lambda lib, x: x.to_sparse(layout=x.to_sparse().layout).requires_grad_(), lambda lib, x: (x.to_sparse().layout, x.layout),
    lambda lib, x: lib.sparse_coo_tensor(lib.empty([1, 0]), [], [1]), lambda lib, x: lib.arange(8).reshape(2, 2, 2).to_sparse(2)])
def test_sparse_tensors_print_alike(make):
    same_text(lambda lib: make(lib, lib.tensor([[0.0, 9.5, 0.0], [7.0, 0.0, 10.0]])))


def test_subclasses_print_by_their_names():
    def made(lib):
        class Named(lib.Tensor):
            pass
        return Named([[1.0, 2.0], [3.0, 4.0]])
    same_text(made)


@pytest.mark.parametrize("options", [{}, {"requires_grad": False}, {"requires_grad": True}, {"copy": True}, {"copy": False},
                                     {"copy": True, "requires_grad": False}, {"copy": True, "requires_grad": True}])
def test_asarray_of_a_step(options):
    def made(lib):
        x = leaf(lib) + 1
        out = lib.asarray(x, **options)
        return out.requires_grad, out.is_leaf, out.data_ptr() == x.data_ptr()
    assert made(volta) == made(torch)


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
@pytest.mark.parametrize("freeze", [True, False])
def test_tables_are_frozen(kind, freeze):
    for lib in (volta, torch):
        layer = getattr(lib.nn, kind).from_pretrained(lib.ones(3, 2), freeze)
        assert layer.weight.requires_grad is not freeze and layer(lib.tensor([[1]])).requires_grad is not freeze


def test_capsules_share():
    t = volta.arange(4)
    volta.from_dlpack(volta.to_dlpack(t))[0] = -9
    assert t.tolist() == [-9, 1, 2, 3]


def test_unpacked_sequences_are_dense():
    def strides(lib, rnn):
        x, n = lib.tensor(np.arange(24.0).reshape(2, 3, 4)), lib.tensor([3, 2])
        packed = rnn.pack_padded_sequence(x, n, batch_first=True)
        return [t.stride() for t in (rnn.pad_packed_sequence(packed, True)[0], rnn.pad_packed_sequence(packed)[0],
                                     *rnn.unpack_sequence(packed), *rnn.unpad_sequence(x.transpose(0, 1), n))]
    assert strides(volta, rnn) == strides(torch, torch.nn.utils.rnn)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD"])
def test_optimizers_print_alike(name):
    def made(lib):
        return getattr(lib.optim, name)([lib.nn.Parameter(lib.ones(2))])

    def keys(lib):
        return list(made(lib).param_groups[0]), list(made(lib).state_dict()["param_groups"][0])
    same_text(made)
    if name in ("Adam", "AdamW"):
        assert keys(volta) == keys(torch)


def test_kept_gradients_can_be_written_to():
    for lib in (volta, torch):
        y = leaf(lib) * 3
        y.retain_grad()
        y.sum().backward()
        assert y.grad.mul_(2).tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize("make", [
    lambda d, lib: d.MultivariateNormal(lib.zeros(2), lib.eye(2)), lambda d, lib: d.MultivariateNormal(lib.zeros(2), scale_tril=lib.eye(2)),
    lambda d, lib: d.MultivariateNormal(lib.zeros(2), precision_matrix=lib.eye(2)),
    lambda d, lib: d.transforms.ComposeTransform([d.ExpTransform(), d.AffineTransform(0.0, 1.0)])])
def test_distributions_print_alike(make):
    same_text(lambda lib: make(lib.distributions, lib))


def test_text_of_a_traced_graph():
    def traced(lib, trace):
        made = trace(lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU()))
        return made.code, str(made)
    assert traced(volta, volta.fx.symbolic_trace) == traced(torch, torch.fx.symbolic_trace)


def test_lists_of_arrays_hold_samples():
    def batches(lib, load):
        return [b.tolist() for samples in ([np.ones(2), np.zeros(2), np.ones(2)], [lib.ones(2), lib.zeros(2), lib.ones(2)])
                for b in load(samples, batch_size=2)]
    assert batches(volta, volta.data.DataLoader) == batches(torch, torch.utils.data.DataLoader) == [[[1, 1], [0, 0]], [[1, 1]]] * 2


def test_unknown_names_of_a_functional_call():
    for lib in (volta, torch):
        layer = lib.nn.Linear(2, 2)
        given = {"nope": lib.ones(1), "weight": lib.ones(2, 2), "bias": lib.zeros(2)}
        assert lib.func.functional_call(layer, given, lib.ones(1, 2)).tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_signatures_name_what_programs_look_for(name):
    import inspect
    for lib in (volta, torch):
        assert {"fused", "foreach", "differentiable", "maximize"} <= set(inspect.signature(getattr(lib.optim, name)).parameters)


def test_what_steps_have_saved():
    for lib in (volta, torch):
        x, y = leaf(lib), leaf(lib)
        product, power = x * y, x.pow(2)
        assert product.grad_fn._saved_self.equal(x) and product.grad_fn._saved_other.equal(y) and power.grad_fn._saved_exponent == 2
        assert x.exp().grad_fn._saved_result.equal(x.exp()) and not hasattr(product.grad_fn, "_saved_nothing")
        product.sum().backward()
        with pytest.raises(RuntimeError, match="freed"):
            _ = product.grad_fn._saved_self
