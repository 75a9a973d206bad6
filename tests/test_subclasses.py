"""Classes of tensors of a program's own, and modes, beside what PyTorch makes of them: each text runs with both libraries."""
import copy
import pickle
import threading

import pytest

import volta
from volta.compat import internal, overrides

torch = pytest.importorskip("torch")
torch_overrides = pytest.importorskip("torch.overrides")


class Ours(volta.Tensor):
    pass


def kinds(value):
    """The classes of the tensors of a result."""
    return [kinds(x) for x in value] if isinstance(value, (tuple, list)) else type(value).__name__


PROGRAMS = [
    "t + 1", "1 + t", "t * t", "t - m.ones(3)", "m.ones(3) - t", "t @ t.T", "t.exp()", "m.exp(t)", "m.cat([t, t])",
    "m.stack([m.ones(2, 3), t])", "t.max(1)", "m.max(t, 1).values", "t.split(1)", "list(t)", "reversed(t)", "t[0]", "t[:, None]",
    "t[t > 1]", "t.data", "t.detach()", "t.half()", "t.to(m.float64)", "t.type(m.float64)", "t.view(3, 2)", "t.shape", "t.T", "t.mT",
    "t.numpy()", "t.tolist()", "t.clone()", "copy.copy(t)", "t.add_(1)", "t.fill_(2)", "t.requires_grad_(False)",
    "m.nn.functional.linear(t, m.ones(4, 3))", "t > 1", "2 ** t", "-t", "~(t > 1)", "m.where(t > 1, t, 0.0)", "m.nn.Linear(3, 2)(t)",
    "t.new_zeros(2)", "m.zeros_like(t)", "m.einsum('ij,kj->ik', t, t)", "t.sort()", "t.argmax()", "m.add(t, 1, out=m.empty(2, 3))",
    "T([1.0, 2])", "m.Tensor._make_subclass(T, m.ones(2), True)", "m.meshgrid(t[0], t[1], indexing='ij')",
    "m.nn.functional.cross_entropy(t, m.tensor([0, 1]))", "m.linalg.norm(t)", "t.unique()", "m.nonzero(t, as_tuple=True)",
    "t.expand(2, 2, 3)", "repr(t)", "bool(t.sum())", "len(t)", "t.is_floating_point()", "m.is_tensor(t)", "t.where(t > 1, t)",
    "(t.requires_grad_() * 2).sum().backward()", "m.vmap(lambda x: x * 2)(t)", "m.func.grad(lambda x: (x * x).sum())(t)", "t.grad"]


@pytest.mark.parametrize("text", PROGRAMS)
def test_results_are_of_the_class(text):
    found = []
    for m in (torch, volta):
        T = type("T", (m.Tensor,), {})
        t = m.arange(6.0).reshape(2, 3).as_subclass(T)
        result = eval(text, {"m": m, "t": t, "T": T, "copy": copy})
        found.append((kinds(result), result if isinstance(result, str) else None))
    assert found[1] == found[0]


def classes(m, log):
    class Logging(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((func.__name__.strip("_"), [kind.__name__ for kind in types], len(args), sorted(kwargs or {})))
            return super().__torch_function__(func, types, args, kwargs)

    class Narrow(Logging):
        pass

    class Silent(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    return [m.ones(2, 2).as_subclass(kind) for kind in (Logging, Narrow, Silent)]


CALLS = [
    "m.add(a, p)", "m.add(p, a, alpha=2)", "a.add(p)", "m.mul(a, b)", "m.cat([p, a, b])", "m.sum(a, dim=0)", "a.add_(1)", "a.detach()",
    "m.exp(o)", "m.add(a, o)", "o.exp()", "o + 1", "m.nn.functional.linear(a, p)", "m.matmul(a, b)", "m.where(p > 0, a, p)",
    "a.float()", "a.unbind()", "m.var_mean(a)", "a.new_ones(2)", "a.numpy()", "a.requires_grad_()"]


@pytest.mark.parametrize("text", CALLS)
def test_a_class_is_asked(text):
    found = []
    for m in (torch, volta):
        log = []
        a, b, o = classes(m, log)
        log.clear()
        try:
            result = type(eval(text, {"m": m, "a": a, "b": b, "o": o, "p": m.ones(2, 2)})).__name__
        except TypeError:
            result = "TypeError"
        found.append((result, log))
    assert found[1] == found[0]


@pytest.mark.parametrize("text", ["m.ones(2)", "p + 1", "m.add(p, p)", "p.exp()", "m.cat([p, p])", "p.add_(0)", "a.exp()",
                                  "m.nn.functional.silu(p)"])
def test_modes_are_asked_from_the_inmost(text):
    found = []
    for m, o in ((torch, torch_overrides), (volta, overrides)):
        log = []

        class Mode(o.TorchFunctionMode):
            def __init__(self, tag, log):
                self.tag, self.log = tag, log

            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.log.append((self.tag, func.__name__.strip("_")))
                return func(*args, **kwargs or {})
        scope = {"m": m, "p": m.ones(2, 2), "a": m.ones(2, 2).as_subclass(type("T", (m.Tensor,), {}))}
        with Mode("outer", log), Mode("inner", log):
            found.append((type(eval(text, scope)).__name__, log))
        assert len(log) == 2
        eval(text, scope)
        assert len(log) == 2                        # nobody asks after the end
    assert found[1] == found[0]


def test_modes_are_of_their_thread_and_end_with_errors():
    class Mode(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise LookupError
    x, found = volta.ones(2), []
    with pytest.raises(LookupError), Mode():
        thread = threading.Thread(target=lambda: found.append((x + 1).tolist()))
        thread.start()
        thread.join()
        assert overrides.has_torch_function((x,))
        x + 1
    assert found == [[2, 2]] and (x + 1).tolist() == [2, 2] and not overrides.has_torch_function((x,))


def test_gradients_flow_through_the_class(device):
    x = volta.ones(3, device=device, requires_grad=True)
    y = x.as_subclass(Ours)
    (y * y).sum().backward()
    assert type(y) is Ours and y.device == x.device and x.grad.tolist() == [2, 2, 2] and type(x.grad) is volta.Tensor
    t = Ours([1.0, 2.0]).to(device).requires_grad_()
    (t * 3).sum().backward()
    assert t.grad.tolist() == [3, 3]


def test_parameters_are_plain():
    class Own(volta.nn.Parameter):
        pass
    assert type(volta.nn.Parameter(volta.ones(2)) + 1) is type(Own(volta.ones(2)) + 1) is volta.Tensor
    assert type(volta.nn.Parameter(volta.ones(2)) * Ours([1.0, 2.0])) is Ours
    assert not overrides.has_torch_function((Own(volta.ones(2)),)) and overrides.has_torch_function((Ours([1.0]),))


def test_a_class_that_takes_nothing_over():
    class Unwrapped(volta.Tensor):
        __torch_function__ = internal._disabled_torch_function_impl
    assert type(Unwrapped([1.0]) + 1) is volta.Tensor
    with internal.DisableTorchFunctionSubclass():
        assert type(Ours([1.0]) + 1) is volta.Tensor
    assert type(Ours([1.0]) + 1) is Ours


def test_copies_and_pickles_keep_class_and_attributes():
    t = Ours([1.0, 2.0])
    t.label = "x"
    for other in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert type(other) is Ours and other.label == "x" and other.tolist() == [1, 2]
    buffer = copy.deepcopy(volta.nn.Buffer(volta.ones(2), persistent=False))
    assert type(buffer) is volta.nn.Buffer and not buffer.persistent


def test_methods_of_the_class_come_first():
    class Own(volta.Tensor):
        def detach(self):
            return "own"
    assert Own([1.0]).detach() == "own" and type(Own([1.0]).data) is Own


def test_as_subclass_refuses():
    for m in (torch, volta):
        for kind in (int, 3):
            with pytest.raises(TypeError):
                m.ones(2).as_subclass(kind)


@pytest.mark.parametrize("text", ["t[0]", "t[:, 1]", "t[i]", "t[None, ...]", "t.detach()", "t.T", "t.numpy()", "t.tolist()", "t.data",
                                  "t.requires_grad_()", "t.double()", "t[0, 1].item()", "exec('t[0] = 1.0', {'t': t})", "t[0][1]",
                                  "exec('t[i] = 2.0', {'t': t, 'i': i})"])
def test_modes_see_subscripts_and_methods(text):
    """Each mode that a thread is in, the inmost first."""
    found = []
    for m, o in ((torch, torch_overrides), (volta, overrides)):
        class Mode(o.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.seen.append((self.level, func.__name__))
                return func(*args, **(kwargs or {}))

        t, i, outer, inner = m.ones(2, 3), m.tensor([0]), Mode(), Mode()
        outer.level, inner.level, outer.seen = "outer", "inner", []
        inner.seen = outer.seen
        with outer, inner:
            eval(text, {"t": t, "i": i})
        found.append([(level, name.strip("_") if name == "__get__" else name) for level, name in outer.seen])
    assert found[1] == found[0]


def test_parameters_of_a_class_of_ones_own():
    found = []
    for m in (torch, volta):
        class Own(m.Tensor):
            pass
        t = m.ones(2, 2).as_subclass(Own)
        layer = m.nn.Linear(2, 2)
        layer.weight, layer.extra = m.nn.Parameter(t), m.nn.Buffer(t)
        layer(m.ones(1, 2)).sum().backward()
        m.optim.SGD(layer.parameters(), 0.5).step()
        found.append((kinds(list(layer.parameters())), kinds(list(layer.buffers())), kinds(list(layer.state_dict().values())),
                      kinds([m.tensor(t), m.nn.Parameter(t) + 1, m.nn.Parameter(m.nn.Parameter(m.ones(2)))]), layer.weight.tolist(),
                      isinstance(layer.weight, m.nn.Parameter), isinstance(layer.extra, m.nn.Parameter), isinstance(t, m.nn.Parameter),
                      isinstance(layer.extra, m.nn.Buffer), issubclass(Own, m.nn.Parameter)))
        layer.double().load_state_dict(layer.state_dict())
        found[-1] += (kinds(list(layer.parameters())), layer.weight.dtype.itemsize)
    assert found[0] == found[1]
