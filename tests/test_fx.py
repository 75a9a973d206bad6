"""volta.fx: graphs of functions and modules, what changes them, and modules made of them."""
import copy
import math
import operator
import pickle

import pytest

import volta
import volta.nn.functional as F
from volta import fx, nn
from volta.errors import ArgumentError
from volta.fx.passes.shape_prop import ShapeProp
from volta.fx.proxy import TraceError


class Net(nn.Module):
    """Uses what a tracer must see: parameters, buffers, plain tensors, methods, keywords, slices, results of several parts."""

    def __init__(self):
        super().__init__()
        self.scale, self.linear = nn.Parameter(volta.full((4,), 0.5)), nn.Linear(4, 6)
        self.deep = nn.Sequential(nn.ReLU(), nn.Linear(6, 6))
        self.register_buffer("shift", volta.ones(6))
        self.plain = volta.ones(6)

    def forward(self, x, y=None, *, power=2):
        a, b = self.linear(x * self.scale).clamp(min=-1.0, max=1.0).chunk(2, dim=-1)
        a = F.relu(volta.cat([a, b], dim=1), inplace=False) * self.plain + self.shift
        a = volta.ones(6) + self.deep(a) ** 2 - 3 / (2 + a.abs())
        values, _ = volta.max(a, 1)
        return {"a": a, "pair": (values, -a.mean()), "rows": a.shape[0], "some": a[:, None, 1:3].view(a.size(0), -1)}


NAMES = ("x y power scale mul linear clamp chunk getitem getitem_1 cat relu shift plain mul_1 add _tensor_constant0 deep_0 deep_1 pow_1 "
         "add_1 abs_1 add_2 truediv sub max_1 getitem_2 getitem_3 mean neg getattr_1 getitem_4 getitem_5 size view output")


def equal(found, wanted):
    assert volta.equal(found["a"], wanted["a"]) and volta.equal(found["some"], wanted["some"]) and found["rows"] == wanted["rows"]
    assert all(map(volta.equal, found["pair"], wanted["pair"]))


@pytest.fixture
def place(device):
    """The device, which is also where tensors are made."""
    with volta.device(device):
        yield device


def test_a_module_and_its_graph_are_alike(place):
    net, x = Net().to(place), volta.randn(3, 4)
    traced = fx.symbolic_trace(net)
    assert sorted(node.name for node in traced.graph.nodes) == sorted(NAMES.split())
    traced.graph.lint()
    equal(traced(x), net(x))
    equal(fx.Interpreter(traced).run(x), net(x))
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced.cpu())).to(place), fx.symbolic_trace(traced.to(place))):
        assert other.graph is not traced.graph and list(other.state_dict()) == list(traced.state_dict())
        equal(other(x), net(x))
    traced(x)["a"].sum().backward()
    assert traced.scale.grad is not None and traced.scale is net.scale


def test_text_of_a_graph(capsys):
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Flatten()))
    assert traced.code == ('\n\n\ndef forward(self, input):\n    input_1 = input\n    _0 = getattr(self, "0")(input_1);  input_1 = None\n'
                           '    _1 = getattr(self, "1")(_0);  _0 = None\n    return _1\n    ')
    assert str(traced).startswith("Sequential(\n  (0): Linear") and traced.code in str(traced)
    graph = fx.symbolic_trace(lambda x: volta.sum(F.relu(x[0], inplace=True), dim=-1) @ x.to(volta.float32)).graph
    assert str(graph).splitlines()[3:5] == [
        "    %relu : [num_users=1] = call_function[target=volta.nn.functional.relu](args = (%getitem,), kwargs = {inplace: True})",
        "    %sum_1 : [num_users=1] = call_function[target=volta.sum](args = (%relu,), kwargs = {dim: -1})"]
    assert "sum_1 @ to" in graph.python_code().src and "x.to(volta.float32)" in graph.python_code().src
    graph.print_tabular()
    assert capsys.readouterr().out.splitlines()[0].split() == ["opcode", "name", "target", "args", "kwargs"]


def test_changing_a_graph():
    traced, x = fx.symbolic_trace(lambda x: volta.exp(x) + volta.exp(x * 2)), volta.randn(3)
    for node in traced.graph.find_nodes(op="call_function", target=volta.exp):
        with traced.graph.inserting_after(node):
            new = traced.graph.call_function(volta.relu, node.args)
            node.replace_all_uses_with(new)
        traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    assert volta.equal(traced(x), x.relu() + (x * 2).relu())
    unused = traced.graph.call_method("cos", (next(iter(traced.graph.nodes)),))
    traced.graph.output_node().prepend(unused)
    assert traced.graph.eliminate_dead_code() and "cos" not in str(traced.graph)
    first = next(iter(traced.graph.nodes))
    with pytest.raises(RuntimeError, match="still had 2 users"):
        traced.graph.erase_node(first)
    traced.graph.output_node().append(first)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        traced.graph.lint()
    with pytest.raises(ArgumentError, match="into a different Graph"):
        first.prepend(fx.Graph().placeholder("x"))


def test_a_graph_by_hand():
    graph = fx.Graph()
    x = graph.placeholder("x", default_value=None)
    y = graph.call_module("layer.0", (x,))
    graph.output((y, graph.get_attr("weight")))
    module = fx.GraphModule({"layer.0": nn.ReLU(), "weight": nn.Parameter(volta.ones(2))}, graph, "Mine")
    assert [n for n, _ in module.named_parameters()] == ["weight"] and repr(module).startswith("Mine(")
    assert module(volta.tensor([-1.0]))[0].tolist() == [0]
    module.add_submodule("layer.1", nn.Tanh())
    module.delete_all_unused_submodules()
    assert [name for name, _ in module.named_modules()] == ["", "layer", "layer.0"] and not module.delete_submodule("layer.7")
    with pytest.raises(RuntimeError, match="was not provided"):
        fx.GraphModule({}, graph)
    copied = fx.Graph()
    copied.output(copied.graph_copy(graph, {}))
    assert str(copied) == str(graph)


class Tanh(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return super().call_function(volta.tanh if target is volta.exp else target, args, kwargs)

    def call_method(self, target, args, kwargs):
        return args[0] if target == "neg" else super().call_method(target, args, kwargs)


def test_transformer_and_shapes():
    x = volta.randn(2, 3)
    traced = Tanh(fx.symbolic_trace(lambda x: volta.exp(x).neg().sum(0))).transform()
    assert volta.equal(traced(x), x.tanh().sum(0))
    ShapeProp(traced).propagate(x)
    assert [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes] == [(2, 3), (2, 3), (3,), (3,)]


def test_patterns():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return F.relu(self.a(x)) + F.relu(self.b(x)).sigmoid() + volta.cat([x, x], 1).sum()
    traced, x = fx.symbolic_trace(Layers()), volta.randn(3, 2)
    found = fx.replace_pattern(traced, lambda v: F.relu(v), lambda v: F.gelu(v) * 2)
    assert [str(match.anchor) for match in found] == ["relu", "relu_1"]
    found = fx.replace_pattern(traced, lambda a, b: volta.cat([a, b], 1).sum(), lambda a, b: a.sum() + b.sum())
    assert len(found) == 1 and not fx.replace_pattern(traced, lambda v: volta.tanh(v), lambda v: v.exp())
    volta.testing.assert_close(traced(x), F.gelu(traced.a(x)) * 2 + (F.gelu(traced.b(x)) * 2).sigmoid() + 2 * x.sum())
    shared = fx.symbolic_trace(lambda x: (x.exp() + 1) * x.exp().neg() + x.exp())
    assert len(fx.replace_pattern(shared, lambda v: v.exp() + 1, lambda v: v)) == 1
    inner = fx.symbolic_trace(lambda x: (lambda e: (e + 1) * e)(x.exp()))
    assert not fx.replace_pattern(inner, lambda v: v.exp() + 1, lambda v: v)         # what is inside is used elsewhere
    with pytest.raises(ArgumentError, match="has 1 inputs, the replacement 2"):
        fx.replace_pattern(inner, lambda v: v.exp(), lambda v, w: v)


@fx.wrap
def halved(x):
    return x / 2 if bool((x > 0).any()) else x


fx.wrap("len")


def test_what_is_not_traced_through():
    traced = fx.symbolic_trace(lambda x: halved(x) * len(x) + math.sqrt(x.shape[0]))
    assert {"halved", "len", "sqrt"} <= {getattr(node.target, "__name__", "") for node in traced.graph.nodes}
    x = volta.tensor([1.0, 2.0, 3.0, 4.0])
    assert volta.equal(traced(x), x / 2 * 4 + 2) and isinstance(halved(x), volta.Tensor)

    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True
    assert [node.op for node in Leaves().trace(nn.Sequential(nn.Sequential(nn.ReLU()))).nodes] == ["placeholder", "call_module", "output"]


@pytest.mark.parametrize("function, error, text", [
    (lambda x: x if x.sum() > 0 else -x, TraceError, "control flow"), (lambda x: [v + 1 for v in x], TraceError, "cannot be iterated"),
    (lambda x: int(x), TraceError, "not known"), (lambda x: nn.Linear(2, 2)(x), NameError, "not installed as a submodule"),
    (lambda x: F.linear(x, nn.Parameter(volta.ones(2, 2))), NameError, "not a member"),
    (lambda x: volta.add(x, {1}), NotImplementedError, "argument of type")])
def test_what_cannot_be_traced(function, error, text):
    with pytest.raises(error, match=text):
        fx.symbolic_trace(function)


def test_concrete_arguments():
    def either(x, flag, size=None):
        return x + 1 if flag and size is None else x - 1
    traced = fx.symbolic_trace(either, concrete_args={"flag": True, "size": None})
    assert traced(volta.ones(1), True).tolist() == [2] and operator.sub not in [node.target for node in traced.graph.nodes]
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(volta.ones(1), False)
    checked = fx.symbolic_trace(lambda x: (volta._assert(x.shape[0] == 2, "two"), x)[1])
    assert checked(volta.ones(2)).tolist() == [1, 1]
    with pytest.raises(AssertionError, match="two"):
        checked(volta.ones(3))


@pytest.mark.parametrize("given", [True, False])
def test_graphs_grow_by_proxies_outside_a_trace(given):
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph) if given else None
    x, w = (fx.Proxy(graph.placeholder(name), tracer) for name in "xw")
    y = volta.einsum("ij,kj->ik", x, w) + 1                             # functions, methods, records, lists of proxies, attributes
    z = F.softmax(volta.cat([y, volta.relu(-y)], 1).reshape(x.shape[0], -1).narrow(-1, 0, 3) * 2, -1)
    graph.output((z.node, volta.where(z > 0.3, z, x.new_zeros(3)).node))
    graph.lint()
    net, a, b = fx.GraphModule({}, graph, "mine"), volta.arange(6.0).reshape(2, 3), volta.arange(12.0).reshape(4, 3) * 0.01
    expected = F.softmax((volta.einsum("ij,kj->ik", a, b) + 1)[:, :3] * 2, -1)
    assert [found.allclose(true) for found, true in zip(net(a, b), (expected, volta.where(expected > 0.3, expected, 0.0)))] == [True, True]
    with pytest.raises(NotImplementedError, match="argument of type"):
        x + object()
