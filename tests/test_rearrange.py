"""`volta.func.rearrange` against PyTorch's."""
import numpy as np
import pytest

import volta

PATTERNS = [("a b c -> c b a", {}), ("a b c -> (a b) c", {}), ("a b c -> (a b c)", {}), ("a (b d) c -> a b d c", {"b": 1}),
            ("a (b d) c -> (d a) (c b)", {"d": 3}), ("a ... -> ... a", {}), ("a ... -> (...) a", {}), ("a b c -> a 1 b c", {}),
            ("a b c -> a () b (c 1)", {}), ("a b c->a b c", {"a": 2}), ("... -> ...", {}), ("a b (h w) -> a h w b", {"h": 2}),
            ("... c -> c ...", {}), ("... c -> (c ...)", {}), ("a ... b c -> (a c) ... b", {}), ("x_1 b c1 -> c1 x_1 b", {})]


@pytest.mark.parametrize("pattern, sizes", PATTERNS)
def test_rearranged_as_in_pytorch(pattern, sizes, device):
    torch = pytest.importorskip("torch")
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    theirs = torch.func.rearrange(torch.from_numpy(x), pattern, **sizes)
    ours = volta.func.rearrange(volta.tensor(x, device=device), pattern, **sizes)
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride() and ours.tolist() == theirs.tolist()


def test_several_are_stacked_and_gradients_flow():
    x = volta.arange(6.0).reshape(2, 3).requires_grad_()
    out = volta.func.rearrange([x, x], "n a b -> a (n b)")
    assert out.shape == (2, 6) and out[1].tolist() == [3.0, 4.0, 5.0] * 2
    (out * volta.arange(6.0)).sum().backward()
    assert x.grad.tolist() == [[3.0, 5.0, 7.0]] * 2


@pytest.mark.parametrize("pattern, sizes", [
    ("a (b d) c -> a b d c", {}), ("a b c -> a b", {}), ("a b -> a b", {}), ("a b c -> a b c c", {}), ("a a c -> a c", {}), ("a b c", {}),
    ("a b c -> a (b c", {}), ("a b c -> a b c", {"d": 3}), ("a (b d) c -> a b d c", {"b": 2}), ("a b 4 -> a b", {}),
    ("a (b (c)) d -> a b c d", {}), ("... ... -> ...", {}), ("a b -c -> a b c", {}), ("a b c -> ... a b c", {}),
    ("a b c -> a b c", {"a": 5}), ("a 1 c -> a c", {}), ("a b c -> a b) c", {}), ("a (...) -> a ...", {}), ("a b .. -> a b", {}),
    ("_a b c -> b c _a", {}),
    ("a (b d) c -> a b d c", {"b": 0})])
def test_what_says_nothing_clear_is_refused(pattern, sizes):
    with pytest.raises(ValueError, match="rearrange"):
        volta.func.rearrange(volta.zeros(2, 3, 4), pattern, **sizes)
