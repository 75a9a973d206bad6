"""Names that scripts take from the package itself, and facts of tensors, against PyTorch."""
import threading

import pytest

import volta
from volta.errors import ArgumentError, AutogradError, DeviceError, DTypeError

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
both = pytest.mark.parametrize("library", [volta, torch], ids=["volta", "torch"])
FACTS = ("is_cpu", "retains_grad", "output_nr", "name", "is_nested", "is_mkldnn", "is_sparse_csr", "is_xla", "is_ipu", "is_maia", "is_mtia",
         "is_vulkan")
METHODS = ("is_conj", "is_neg", "is_distributed", "is_shared", "dim_order", "dense_dim", "sparse_dim")


def facts(library):
    x = library.ones(2, 3, requires_grad=True)
    kept = x * 2
    kept.retain_grad()
    tensors = x, x * 2, kept, x.detach(), x[0], library.tensor(1), kept.t()
    return [[getattr(t, name) for name in FACTS] + [getattr(t, name)() for name in METHODS] + [t.real is t] for t in tensors]


def test_facts_of_tensors():
    assert facts(volta) == facts(torch)
    for name in ("is_conj", "is_neg", "is_distributed"):
        assert getattr(volta, name)(volta.ones(2)) is getattr(torch, name)(torch.ones(2)) is False
    x = volta.ones(2)
    assert volta.real(x) is x
    with pytest.raises(DTypeError, match="imag: .* only complex tensors have an imaginary part"):
        print(x.imag)


def test_is_cpu_of_a_device(device):
    assert volta.ones(2, device=device).is_cpu is (device == "cpu")


def layouts(library):
    x = library.zeros(2, 3, 4, 5)
    return [x, x.permute(3, 1, 0, 2), x.to(memory_format=library.channels_last), x[:, :, ::2, 1:3], x[0, 0, 0].expand(3, 5), x[:, :0],
            x[0, 0, 0, 0]]


def test_order_of_dimensions():
    assert [x.dim_order() for x in layouts(volta)] == [x.dim_order() for x in layouts(torch)]
    for ours, theirs in zip(layouts(volta), layouts(torch)):
        try:
            expected = theirs.dim_order(ambiguity_check=True)
        except RuntimeError:
            with pytest.raises(ArgumentError, match="dim_order: .* have several orders"):
                ours.dim_order(ambiguity_check=True)
        else:
            assert ours.dim_order(ambiguity_check=True) == expected
    with pytest.raises(DTypeError, match="dim_order: ambiguity_check must be a bool or a list of memory formats, got 'x'"):
        volta.ones(2).dim_order(ambiguity_check="x")


@both
def test_set(library):
    a, b = library.arange(6.0), library.zeros(2)
    assert b.set_(a) is b and b.is_set_to(a)
    b[0] = 9.0
    assert a[0] == 9.0 and b.set_().shape == (0,)
    assert b.set_(a.untyped_storage()).tolist() == a.tolist()
    assert b.set_(a.untyped_storage(), 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    assert b.set_(a, 3, (2,)).tolist() == [3, 4]
    with pytest.raises(RuntimeError):
        b.set_(library.arange(3))
    with pytest.raises(RuntimeError):
        library.zeros(2, requires_grad=True).set_(a)


def test_set_refuses_what_it_cannot_show(device):
    a = volta.arange(6.0, device=device)
    b = volta.zeros(2, device=device)
    with pytest.raises(ArgumentError, match="the storage has 6"):
        b.set_(a.untyped_storage(), 4, (3,), (1,))
    assert b.tolist() == [0, 0] and b.set_(a, 2, (2,), (2,)).tolist() == [2, 4]
    with pytest.raises(ArgumentError, match="set_: source must be a tensor or what untyped_storage"):
        b.set_(3)
    if device != "cpu":
        with pytest.raises(DeviceError, match="set_: the tensor is on gpu"):
            b.set_(a.cpu())


@both
def test_set_is_seen_by_backward(library):
    x = library.ones(3, requires_grad=True)
    factor = library.full((3,), 2.0)
    y = x * factor
    factor.set_(library.zeros(3))
    with pytest.raises(RuntimeError):
        y.sum().backward()


@both
def test_inference_mode_is_told(library):
    def state():
        return library.is_inference_mode_enabled(), library.is_grad_enabled()

    seen = [state()]
    mode = library.inference_mode()
    with mode:
        seen.append(state())
        with library.inference_mode(False):
            seen.append(state())
        with library.enable_grad():
            seen.append(state())
        other = threading.Thread(target=lambda: seen.append(state()))
        other.start()
        other.join()
        with pytest.raises(KeyError), library.inference_mode():
            raise KeyError
        seen.append(state())
    seen += [state(), library.inference_mode()(state)(), library.inference_mode(state)(), library.inference_mode(False)(state)(), state()]
    assert seen == [(False, True), (True, False), (False, True), (True, True), (False, True), (True, False), (False, True), (True, False),
                    (True, False), (False, True), (False, True)]


@both
def test_deterministic_modes(library):
    def state():
        return (library.are_deterministic_algorithms_enabled(), library.is_deterministic_algorithms_warn_only_enabled(),
                library.get_deterministic_debug_mode())
    try:
        seen = [state()]
        for mode in ("warn", 2, 0, "error", "default"):
            library.set_deterministic_debug_mode(mode)
            seen.append(state())
        library.use_deterministic_algorithms(True, warn_only=True)
        seen.append(state())
        library.use_deterministic_algorithms(True)
        seen.append(state())
    finally:
        library.use_deterministic_algorithms(False)
    assert seen == [(False, False, 0), (True, True, 1), (True, False, 2), (False, False, 0), (True, False, 2), (False, False, 0),
                    (True, True, 1), (True, False, 2)]
    for bad in (5, "x", 1.5):
        with pytest.raises((RuntimeError, TypeError)):
            library.set_deterministic_debug_mode(bad)
    for bad in ("x", 1):
        with pytest.raises(TypeError):
            library.use_deterministic_algorithms(bad)


@both
def test_settings_refuse_other_types(library):
    with pytest.raises(RuntimeError):
        library.set_num_interop_threads(0)
    for call, bad in ((library.set_num_interop_threads, 1.5), (library.set_flush_denormal, 1), (library.set_warn_always, 1)):
        with pytest.raises(RuntimeError):
            call(bad)
    assert library.is_warn_always_enabled() is False and library.get_num_interop_threads() >= 1


def test_compile_gives_the_function_and_refuses_what_it_would_ignore():
    assert volta.compile(abs) is abs and volta.compile(mode="max-autotune", fullgraph=True)(abs) is abs
    with pytest.raises(ArgumentError, match="compile: nothing is traced for a backend"):
        volta.compile(abs, backend=lambda graph, inputs: graph)
    with pytest.raises(ArgumentError, match="compile: mode must be one of default, lite"):
        volta.compile(abs, mode="fast")
    with pytest.raises(ArgumentError, match="give mode or options, not both"):
        volta.compile(abs, mode="default", options={})
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        volta.compile(abs, speed=1)


def decisions(library):
    x = library.tensor([1.0, 2.0])
    choose = [library.cond(p, lambda a: a + 1, lambda a: a - 1, (x,)).tolist() for p in (True, library.tensor(False))]
    return [*choose, [library.sym_int(v) for v in (2.6, -2.6, 3)], library.sym_float(2), library.sym_not(1 > 2), library.sym_sqrt(4.0),
            *((v, type(v)) for v in (library.sym_max(1, 2.0), library.sym_min(1, 2.0), library.sym_max(1, 2))), library.sym_ite(True, 1, 2),
            library.sym_sum([1, 2, 3]), library.sym_sum(1, 2, 3), library.is_storage(x.untyped_storage()), library.is_storage(x)]


def test_decisions():
    assert decisions(volta) == decisions(torch)
    n, x = volta.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (volta.tensor(0), volta.ones(2)))
    assert n == 3 and x.tolist() == [8, 8]
    with pytest.raises(ArgumentError, match="while_loop: body_fn gave 1 values for 2 inputs"):
        volta.while_loop(lambda n, x: n < 3, lambda n, x: n, (0, 1))
    with pytest.raises(ArgumentError, match="cond: operands must be a tuple"):
        volta.cond(True, abs, abs, 1)
    with pytest.raises(AutogradError):
        volta.ones(2, requires_grad=True).set_(volta.ones(2))


def test_the_module_of_a_device(device):
    assert volta.get_device_module(device) is (volta.compat.cpu if device == "cpu" else volta.cuda)


def made_inside(library):
    with library.inference_mode():
        return library.ones(2) + 1, library.tensor([0, 1])


INPLACE = "Inplace update to inference tensor outside InferenceMode is not allowed"
SAVED = "Inference tensors cannot be saved for backward"


@both
@pytest.mark.parametrize("call, text", [
    *((call, INPLACE) for call in (
        lambda lib, x, i: x.add_(1), lambda lib, x, i: x.zero_(), lambda lib, x, i: x.fill_(2.0), lambda lib, x, i: x.copy_(lib.ones(2)),
        lambda lib, x, i: x.uniform_(), lambda lib, x, i: x.index_add_(0, i, lib.ones(2)), lambda lib, x, i: x.scatter_(0, i, 1.0),
        lambda lib, x, i: x.masked_fill_(i > 0, 0.0), lambda lib, x, i: x.__setitem__(0, 1.0),
        lambda lib, x, i: x.__setitem__(i, lib.ones(2)),
        lambda lib, x, i: x.unsqueeze_(0), lambda lib, x, i: x.resize_(3), lambda lib, x, i: x.set_(lib.ones(2)),
        lambda lib, x, i: x[:1].add_(1), lambda lib, x, i: lib.add(lib.ones(2), 1, out=x), lambda lib, x, i: lib.nn.init.ones_(x))),
    *((call, SAVED) for call in (
        lambda lib, x, i: lib.ones(2, requires_grad=True) * x, lambda lib, x, i: lib.ones(2, requires_grad=True)[i],
        lambda lib, x, i: lib.ones(2, requires_grad=True) @ x, lambda lib, x, i: lib.nn.Linear(2, 3)(x))),
    (lambda lib, x, i: x.requires_grad_(), "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"),
    (lambda lib, x, i: x._version, "Inference tensors do not track version counter"),
])
def test_tensors_made_in_inference_mode_are_for_no_derivative(library, call, text):
    with pytest.raises(RuntimeError, match=text):
        call(library, *made_inside(library))


@both
def test_what_else_is_made_of_tensors_made_in_inference_mode(library):
    x, _ = made_inside(library)
    w = library.ones(2, requires_grad=True)
    assert [t.is_inference() for t in (x, x[0], x.view(2, 1), x + 1, x.clone(), w)] == [True, True, True, False, False, False]
    (w + x).sum().backward()                        # of which nothing is saved
    assert w.grad.tolist() == [1, 1]
    x.detach().add_(1)
    assert x.tolist() == [3, 3] and x.clone().add_(1).tolist() == [4, 4]
    (w * x.clone()).sum().backward()
    with library.inference_mode():
        x.add_(1)
        shown = w[:1]
        made = library.nn.Linear(2, 1)
        assert not shown.is_inference() and not w.is_inference()
    assert x.tolist() == [4, 4] and made.weight.is_inference() and made.weight.requires_grad
    made.weight.data.fill_(2.0)
    assert made.weight.tolist() == [[2, 2]]


@both
def test_custom_functions_save_no_tensors_made_in_inference_mode(library):
    class Product(library.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x
    x, _ = made_inside(library)
    assert Product.apply(library.ones(2), x).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match=SAVED):
        Product.apply(library.ones(2, requires_grad=True), x)
