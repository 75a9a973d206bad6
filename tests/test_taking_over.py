"""Objects that are no tensors and take functions over by `__torch_function__`, beside what PyTorch does with them."""
import pytest

import volta

torch = pytest.importorskip("torch")


class Plain:
    """Says what it was asked for."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.__name__, func.__name__, len(args), sorted(kwargs or ()), [kind.__name__ for kind in types]


class Narrow(Plain):
    pass


class Silent:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


CALLS = [
    lambda t, p: t.add(t.ones(2), p), lambda t, p: t.exp(p), lambda t, p: t.cat([t.ones(2), p]), lambda t, p: t.sum(p, dim=0),
    lambda t, p: t.sum(input=p), lambda t, p: t.nn.functional.softplus(p), lambda t, p: t.ones(2).matmul(p), lambda t, p: t.ones(2) * p,
    lambda t, p: t.mul(p, Narrow()), lambda t, p: t.where(t.ones(2) > 0, p, 0.0)]


@pytest.mark.parametrize("call", CALLS)
def test_what_takes_over_is_asked(call):
    assert call(volta, Plain()) == call(torch, Plain())


def test_functions_are_those_that_programs_name():
    seen = []

    class Kept:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return 1
    x = Kept()
    volta.add(volta.ones(1), x), volta.ones(1) + x, volta.linalg.cholesky(x), volta.ones(1).add(x)
    assert seen == [volta.add, volta.add, volta.linalg.cholesky, volta.Tensor.add]


def test_one_that_refuses():
    for module in (torch, volta):
        with pytest.raises(TypeError, match="implement"):
            module.exp(Silent())
        with pytest.raises(TypeError):
            module.ones(2) + Silent()


class Reflecting(Silent):
    def __radd__(self, other):
        return "reflected"


def test_its_reflected_operator_comes_after_it():
    assert volta.ones(2) + Reflecting() == torch.ones(2) + Reflecting() == "reflected"
    assert volta.ones(2) + Plain() == ("Plain", "add", 2, [], ["Plain"])
