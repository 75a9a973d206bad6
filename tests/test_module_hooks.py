"""Hooks of modules and of their state dicts, compared with PyTorch: the same program in both, the same log."""
import copy
import io

import pytest

import volta

torch = pytest.importorskip("torch", reason="compares with PyTorch")

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")


def plain(value):
    """Nested lists of what a hook was given."""
    return value.tolist() if hasattr(value, "tolist") else [plain(v) for v in value] if isinstance(value, (tuple, list)) else value


def same(program):
    logs = [[], []]
    for lib, log in zip((volta, torch), logs):
        program(lib, log)
    assert logs[0] == logs[1] and logs[0]


def linear(lib):
    layer = lib.nn.Linear(3, 2)
    layer.load_state_dict({"weight": lib.ones(2, 3), "bias": lib.zeros(2)})
    return layer


def test_backward_hooks():
    def program(lib, log):
        m = linear(lib)
        handle = m.register_full_backward_hook(lambda m, before, after: log.append(("hook", plain(before), plain(after))))
        m.register_full_backward_pre_hook(lambda m, after: (log.append(("pre", plain(after))), tuple(g * 2 for g in after))[1])
        for wants in (True, False):
            x = lib.ones(2, 3, requires_grad=wants)
            m(x).sum().backward()
            log.append((plain(x.grad), plain(m.weight.grad)))
        m.register_full_backward_hook(lambda m, before, after: tuple(g * 10 for g in before if g is not None) or None, prepend=True)
        x = lib.ones(2, 3, requires_grad=True)
        copy.deepcopy(m)(x).sum().backward()
        handle.remove()
        m(x).sum().backward()
        log.append(plain(x.grad))
        with lib.no_grad():
            m(x)
    same(program)


def test_backward_hooks_of_several_inputs_and_outputs():
    def program(lib, log):
        class Two(lib.nn.Module):
            def forward(self, a, b):
                return a * 2, b * 3

        m = Two()
        m.register_full_backward_hook(lambda m, before, after: log.append((plain(before), plain(after))))
        a, b = lib.ones(2, requires_grad=True), lib.ones(3, requires_grad=True)
        m(a, b)[0].sum().backward()
        (m(a, b)[1].sum() + m(a, b)[0].sum()).backward()
    same(program)


def test_forward_hooks_where_forward_raises():
    def program(lib, log):
        class Bad(lib.nn.Module):
            def forward(self, x):
                raise ValueError("no")

        m = Bad()
        m.register_forward_hook(lambda m, args, output: log.append(("always", args, output)), always_call=True)
        m.register_forward_hook(lambda m, args, output: log.append("never"))
        with pytest.raises(ValueError, match="no"):
            m(1)
    same(program)


def test_extra_state_and_hooks_of_state_dicts():
    def program(lib, log):
        class Counted(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 1
                self.register_buffer("b", lib.zeros(1))

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

        def net():
            return lib.nn.Sequential(Counted(), lib.nn.Linear(1, 1))

        m, other = net(), net()
        m[0].count = 7
        state = m.state_dict()
        log.append(other.load_state_dict({}, strict=False).missing_keys)
        log += [list(state), str(other.load_state_dict(state)), other[0].count]
        m.register_state_dict_pre_hook(lambda m, prefix, keep_vars: log.append((prefix, keep_vars)))
        m.register_state_dict_post_hook(lambda m, state, prefix, metadata: state.__setitem__(prefix + "new", lib.zeros(1)))
        log.append(list(m.state_dict(prefix="p.")))
        m.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.pop(prefix + "new", None))
        m.load_state_dict(m.state_dict())
        other.register_load_state_dict_post_hook(lambda m, keys: log.append(list(keys.missing_keys)))
        other.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
        state.pop("0.b")
        log.append(str(other.load_state_dict(state)))
        other.set_submodule("1", lib.nn.ReLU())
        with pytest.raises(AttributeError):
            other.set_submodule("5", lib.nn.ReLU(), strict=True)
        log.append(repr(other[1]))
    same(program)


def test_state_dicts_of_the_other_library_load():
    theirs, ours = torch.nn.Linear(3, 2), volta.nn.Linear(3, 2)
    ours.load_state_dict(theirs.state_dict())
    assert ours.weight.tolist() == theirs.weight.tolist()


def test_outputs_without_a_gradient_give_zeros_to_custom_functions():
    def program(lib, log):
        class Two(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b, zeros):
                ctx.set_materialize_grads(zeros)
                index = b.long()
                ctx.mark_non_differentiable(index)
                return a * 2, b * 3, index

            @staticmethod
            def backward(ctx, g, h, i):
                log.append(plain((g, h, i)))
                return g * 2, None if h is None else h * 3, None

        for zeros in (True, False):
            a, b = lib.ones(2, requires_grad=True), lib.ones(3, requires_grad=True)
            Two.apply(a, b, zeros)[0].sum().backward()
            log += [plain(a.grad), plain(b.grad)]
    same(program)


def test_tables_hold_the_hooks_themselves():
    layer = volta.nn.Linear(2, 2)

    def before(module, args, kwargs=None):
        return None

    def after(module, args, *rest):
        return None

    handles = [layer.register_forward_pre_hook(before), layer.register_forward_pre_hook(before, with_kwargs=True),
               layer.register_forward_hook(after, with_kwargs=True, always_call=True)]
    assert list(layer._forward_pre_hooks.values()) == [before, before] and list(layer._forward_pre_hooks) == [h.id for h in handles[:2]]
    assert list(layer._forward_pre_hooks_with_kwargs) == [handles[1].id] and list(layer._forward_hooks_always_called) == [handles[2].id]
    assert layer._forward_hooks[handles[2].id] is after
    copied = copy.deepcopy(layer)
    assert list(copied._forward_hooks_with_kwargs) == list(copied._forward_hooks)
    for handle in handles:
        handle.remove()
    assert not any(value for name, value in vars(layer).items() if "_hooks" in name)


def test_a_handle_ends_with_its_block():
    layer, calls = volta.nn.Linear(2, 2), []
    with layer.register_forward_hook(lambda *args: calls.append(1)):
        layer(volta.ones(1, 2))
    layer(volta.ones(1, 2))
    assert calls == [1]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_hooks_of_the_last_node():
    def program(lib, log):
        def hook(module, grad_input, grad_output):
            log.append([type(module).__name__, plain(grad_input), plain(grad_output)])

        class Several(lib.nn.Module):
            def forward(self, x):
                return {"count": 3, "first": x.exp() * 2, "second": x}

        net = lib.nn.Sequential(linear(lib), lib.nn.ReLU())
        handles = [net.register_backward_hook(hook), net[1].register_backward_hook(hook)]
        net(lib.ones(2, 3)).sum().backward()
        handles[0].remove()
        net(lib.ones(1, 3)).sum().backward()
        with lib.no_grad():
            net(lib.ones(1, 3))
        several = Several()
        several.register_backward_hook(lambda module, given, out: log.append([plain(given[0]), plain(out)]))
        several(lib.ones(2, requires_grad=True))["first"].sum().backward()
        guided, x = lib.nn.ReLU(), lib.ones(2, requires_grad=True)
        guided.register_backward_hook(lambda module, given, out: (given[0] * 3,))
        guided(x).sum().backward()
        log.append(plain(x.grad))
        try:
            guided.register_full_backward_hook(hook)
        except RuntimeError:
            log.append("one kind alone")
        other = lib.nn.ReLU()
        other.register_full_backward_hook(hook)
        try:
            other.register_backward_hook(hook)
        except RuntimeError:
            log.append("one kind alone")
    same(program)


def test_hooks_of_the_last_node_warn():
    layer = volta.nn.ReLU()
    layer.register_backward_hook(lambda *given: None)
    layer(volta.ones(2))
    with pytest.warns(FutureWarning, match="register_backward_hook: its hooks see the last operation of a module alone"):
        layer(volta.ones(2, requires_grad=True))


def test_versions_of_classes_go_with_a_state_dict():
    seen = []

    class Own(volta.nn.Linear):
        _version = 3

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
            seen.append(local_metadata.get("version"))
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)
    ours = volta.nn.Sequential(Own(2, 2), volta.nn.BatchNorm1d(2), volta.nn.InstanceNorm1d(2))
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.InstanceNorm1d(2))
    ours.register_state_dict_post_hook(lambda module, state, prefix, local: local.update(more=1))
    state = ours.state_dict()
    versions, expected = ({k: v["version"] for k, v in each._metadata.items()} for each in (state, theirs.state_dict()))
    assert versions == {**expected, "0": 3}
    assert state._metadata[""] == {"version": 1, "more": 1}
    ours.load_state_dict(state)
    ours.load_state_dict(dict(state))
    assert seen == [3, None]
    buffer = io.BytesIO()
    volta.save(state, buffer)
    buffer.seek(0)
    assert volta.load(buffer)._metadata == state._metadata


def test_hooks_of_backward_see_none_for_what_is_no_tensor():
    def program(torch, log):
        class Scaled(torch.nn.Module):
            def forward(self, name, x, factor):
                return name, x * factor
        x, module = torch.ones(2, requires_grad=True), Scaled()
        module.register_full_backward_pre_hook(lambda module, grads: (grads[0], grads[1] * 2))
        module.register_full_backward_hook(lambda module, given, grads: log.append(plain([given, grads])))
        module.register_full_backward_hook(lambda module, given, grads: (None, given[1] * 5, None))
        module("a", x, 3.0)[1].sum().backward()
        log.append(x.grad.tolist())
    same(program)


def test_a_hook_after_loading_gives_nothing():
    for library in (volta, torch):
        module = library.nn.Linear(1, 1)
        module.register_load_state_dict_post_hook(lambda module, keys: keys)
        with pytest.raises(AssertionError):
            module.load_state_dict(module.state_dict())
