"""Custom functions: several inputs and outputs, saved tensors, wrong ones; and what gradcheck notices."""
import pytest

import volta
import volta.testing
from volta.errors import ArgumentError, AutogradError, DTypeError
from volta.testing import check_gradients, check_gradients_simple, gradcheck, gradgradcheck


def leaf(*values, device="cpu", dtype=volta.float32):
    return volta.tensor(list(values), dtype=dtype, device=device, requires_grad=True)


class Polar(volta.autograd.Function):
    """(x, y) -> (radius times scale, x / y, sector); the sector is not differentiable."""

    @staticmethod
    def forward(ctx, x, y, scale=1.0):
        radius = volta.sqrt(x * x + y * y) * scale
        ctx.save_for_backward(x, y, radius)
        ctx.scale = scale
        sector = (x > 0).long()
        ctx.mark_non_differentiable(sector)
        return radius, x / y, sector

    @staticmethod
    def backward(ctx, g_radius, g_ratio, g_sector=None):
        x, y, radius = ctx.saved_tensors
        gx = gy = 0.0
        if g_radius is not None:
            factor = g_radius * ctx.scale * ctx.scale / radius
            gx, gy = gx + factor * x, gy + factor * y
        if g_ratio is not None:
            gx, gy = gx + g_ratio / y, gy - g_ratio * x / (y * y)
        return gx, gy, None


def test_custom_function(device):
    x, y = leaf(3.0, -1.0, device=device), leaf(4.0, 2.0, device=device)
    radius, ratio, sector = Polar.apply(x, y, 2.0)
    assert radius.tolist() == pytest.approx([10.0, 2 * 5 ** 0.5]) and sector.tolist() == [1, 0]
    assert radius.requires_grad and ratio.requires_grad and not sector.requires_grad
    (radius.sum() + 3 * ratio.sum()).backward()
    assert x.grad.tolist() == pytest.approx([2 * 0.6 + 0.75, -2 / 5 ** 0.5 + 1.5])
    assert y.grad.tolist() == pytest.approx([2 * 0.8 - 9 / 16, 4 / 5 ** 0.5 + 0.75])


def test_custom_function_with_one_output_used():
    x, y = leaf(3.0), leaf(4.0)
    Polar.apply(x, y)[1].sum().backward()
    assert x.grad.tolist() == [0.25] and y.grad.tolist() == [-3 / 16]


def test_custom_function_against_finite_differences():
    x = volta.tensor([1.0, -2.0], dtype=volta.float64, requires_grad=True)
    y = volta.tensor([0.5, 1.5], dtype=volta.float64, requires_grad=True)
    assert gradcheck(lambda a, b: Polar.apply(a, b, 1.5)[:2], [x, y])
    assert gradgradcheck(lambda a, b: Polar.apply(a, b, 1.5)[:2], [x, y])


def test_custom_function_saved_tensors():
    x, y = leaf(3.0), leaf(4.0)
    out = Polar.apply(x, y)[0].sum()
    with volta.no_grad():
        y.add_(1.0)
    with pytest.raises(AutogradError, match=r"Polar: a saved tensor of shape \(1,\) was changed in place before backward"):
        out.backward()
    out = Polar.apply(x, y)[0].sum()
    out.backward()
    with pytest.raises(AutogradError, match="already been freed"):
        out.backward()


def test_custom_function_wrong_number_of_gradients():
    class Wrong(volta.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(AutogradError,
                       match="Wrong: backward gave 1 gradients for 2 inputs of forward; return None for those without"):
        Wrong.apply(leaf(1.0), leaf(2.0)).sum().backward()


def test_custom_function_without_grad():
    assert Polar.apply(volta.ones(2), volta.ones(2))[0].grad_fn is None
    with volta.no_grad():
        assert not Polar.apply(leaf(1.0), leaf(1.0))[0].requires_grad


def test_gradcheck_notices_a_wrong_derivative():
    class Off(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 1.9

    x = volta.tensor([1.0, 2.0], dtype=volta.float64, requires_grad=True)
    with pytest.raises(volta.testing.GradcheckError, match=r"gradcheck: input 0: 2 of 2 elements differ"):
        gradcheck(Off.apply, [x])
    with pytest.raises(DTypeError, match="finite differences need float64, input 0 is volta.float32"):
        gradcheck(Off.apply, [leaf(1.0)])
    with pytest.raises(ArgumentError, match="gradcheck: no input requires grad"):
        gradcheck(Off.apply, [volta.ones(2)])


@pytest.mark.parametrize("given, text", [
    (1.0, "must be a tensor or None, got float"), ("a", ".*got str"), ([1.0], ".*got list"),
    (volta.ones(5), r"has shape \(5,\), the tensor that it belongs to \(3,\)"), (volta.ones(()), r"has shape \(\)")])
def test_backward_that_gives_no_fitting_gradient(given, text):
    class Wrong(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return given

    for x in (leaf(1.0, 2.0, 3.0), leaf(1.0, 2.0, 3.0) * 1):
        with pytest.raises(AutogradError, match=f"Wrong: gradient 0 of backward {text}"):
            Wrong.apply(x).sum().backward()
        assert x.is_leaf is False or x.grad is None


def test_backward_may_give_a_wider_shape_or_another_dtype():
    class Wide(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return volta.ones(2, 3, dtype=volta.float64)

    x = leaf(1.0, 2.0, 3.0)
    Wide.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3 and x.grad.dtype is volta.float32


@pytest.mark.parametrize("given", [None, 1.5, [1], (None, 3)])
def test_forward_that_gives_no_tensor(given):
    class Other(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return given

    assert Other.apply(leaf(1.0)) == given


def test_check_gradients_on_any_device(device):
    x = volta.tensor([[0.5, -1.0, 2.0]], device=device, requires_grad=True)
    w = volta.tensor([[1.0], [0.3], [-0.7]], device=device, requires_grad=True)
    report = check_gradients(lambda a, b, n: (a @ b).tanh() * n, [x, w, 2.0])
    assert report and report.text == "" and report.absolute[2] is report.relative[2] is None
    assert all(0 <= e < 2e-3 for e in (*report.absolute[:2], *report.relative[:2]))
    assert check_gradients_simple(volta.sin, x) and not x.grad
    wrong = check_gradients(lambda a: a * a.detach(), [x])              # half of the derivative
    assert not wrong and not check_gradients_simple(lambda a: a * a.detach(), x)
    assert abs(wrong.relative[0] - 0.5) < 0.01 and wrong.text.startswith("input 0: 3 of 3 elements differ")
    if device == "cpu":
        assert max(check_gradients(volta.exp, [x.detach().double().requires_grad_()]).absolute) < 1e-7
    with pytest.raises(ArgumentError, match="check_gradients: no input requires grad"):
        check_gradients(volta.exp, [x.detach()])
    with pytest.raises(DTypeError, match="check_gradients: finite differences need float64 or float32"):
        check_gradients(volta.exp, [volta.ones(2, dtype=volta.float16, requires_grad=True)])


class Scaled(volta.autograd.Function):
    """A cube times a number, in the two parts that PyTorch's newer form has, with outputs that are no tensors."""

    @staticmethod
    def forward(x, factor):
        return x ** 3 * factor, x.shape[0], None

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, g, *others):
        assert others == (None, None)
        return 3 * ctx.saved_tensors[0] ** 2 * ctx.factor * g, None


def test_forward_without_context_and_outputs_that_are_no_tensors():
    x = volta.tensor([1.0, 2.0], requires_grad=True)
    y, count, nothing = Scaled.apply(x, 2.0)
    y.sum().backward()
    assert (count, nothing) == (2, None) and x.grad.tolist() == [6.0, 24.0]


class Rectified(volta.autograd.Function):
    """relu in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        ctx.save_for_backward(x.clamp_(min=0))
        return x

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0] > 0)


def test_an_input_that_forward_changes_gets_the_history():
    x = volta.tensor([1.0, -2.0, 3.0], requires_grad=True)
    h = x * 2
    assert Rectified.apply(h) is h
    (h * h).sum().backward()
    assert x.grad.tolist() == [8.0, 0.0, 24.0]
    x.grad, h = None, x * 2
    Rectified.apply(h[1:])
    (h * h).sum().backward()
    assert h.tolist() == [2.0, 0.0, 6.0] and x.grad.tolist() == [8.0, 0.0, 24.0]
    with pytest.raises(AutogradError, match="leaf tensor that requires grad"):
        Rectified.apply(x)


def test_defaults_and_names():
    """setup_context is given the defaults of forward, and what was given by name in its place, as in PyTorch."""
    seen = []

    class Scaled(volta.autograd.Function):
        @staticmethod
        def forward(x, factor=2.0, shift=0.0):
            return x * factor + shift

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.factor, shift = inputs
            seen.append((ctx.factor, shift, len(ctx.needs_input_grad)))

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None

    class Power(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x, exponent=2):
            ctx.given = len(ctx.needs_input_grad)
            ctx.save_for_backward(x)
            ctx.exponent = exponent
            return x ** exponent

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return (g * ctx.exponent * x ** (ctx.exponent - 1), None)[:ctx.given]

    x = volta.tensor([1.0, 3.0], requires_grad=True)
    for call, value in ((lambda a: Scaled.apply(a), 2.0), (lambda a: Scaled.apply(a, 4.0), 4.0),
                        (lambda a: Scaled.apply(a, shift=1.0), 2.0), (lambda a: Scaled.apply(x=a, factor=5.0), 5.0)):
        assert volta.autograd.grad(call(x).sum(), x)[0].tolist() == [value] * 2
        assert volta.autograd.grad(volta.vmap(call)(x).sum(), x)[0].tolist() == [value] * 2
    assert seen[::2] == [(2.0, 0.0, 3), (4.0, 0.0, 3), (2.0, 1.0, 3), (5.0, 0.0, 3)]
    for call, value in ((lambda a: Power.apply(a), 6.0), (lambda a: Power.apply(a, 3), 27.0), (lambda a: Power.apply(a, exponent=3), 27.0)):
        assert volta.autograd.grad(call(x).sum(), x)[0][1].item() == value
    with pytest.raises(TypeError, match="Scaled.apply.*size"):
        Scaled.apply(x, size=1)


def test_once_differentiable_is_refused_where_it_is_differentiated_again():
    class Square(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @volta.autograd.once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]
    x, y = volta.tensor([3.0], requires_grad=True), volta.tensor([2.0], requires_grad=True)
    assert volta.autograd.grad(Square.apply(x), x, create_graph=True)[0].tolist() == [6]            # a constant, as in PyTorch
    once, again = volta.autograd.grad((Square.apply(x) * y).sum() + (y * y).sum(), (x, y), create_graph=True)
    assert once.requires_grad and volta.autograd.grad(again.sum(), y, retain_graph=True)[0].tolist() == [2]
    with pytest.raises(AutogradError, match="once_differentiable"):
        once.sum().backward()


def test_derivatives_beyond_what_is_asked_for_are_not_called():
    called = []

    class Double(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            called.append(g.tolist())
            return g * 2
    x = volta.tensor([3.0], requires_grad=True)
    middle = Double.apply(x)
    out = Double.apply(middle)
    assert volta.autograd.grad(out, middle, retain_graph=True)[0].tolist() == [2] and called == [[1]]
    out.backward(inputs=[middle], retain_graph=True)
    assert middle.grad.tolist() == [2] and x.grad is None and called == [[1]] * 2
    assert [g.tolist() for g in volta.autograd.grad(out, (middle, x))] == [[2], [4]] and called[2:] == [[1], [2]]   # both: on through it
    called.clear()
    assert volta.autograd.functional.jacobian(Double.apply, Double.apply(x)).tolist() == [[2]]
    assert called and all(g == [1] or g == [[1]] for g in called)           # the history of an input has no part in it


def test_what_is_marked_must_be_tensors_that_forward_gives_back():
    class Marked(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x, foreign):
            if foreign:
                ctx.mark_dirty(foreign[0])
            else:
                ctx.mark_non_differentiable(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, None

    x = volta.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="must give back everything that it marks dirty"):
        Marked.apply(x, [volta.ones(1)])
    with pytest.raises(TypeError, match="mark_non_differentiable: needs tensors, got int"):
        Marked.apply(x, None)
