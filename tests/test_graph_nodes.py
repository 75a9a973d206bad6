"""Nodes, edges and hooks of the graph, as programs see them, beside PyTorch's."""
from collections import OrderedDict

import pytest

import volta
from volta import node_names
from volta.autograd import graph
from volta.errors import ArgumentError, AutogradError
from volta.ops import subscript, table

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")


def _plain(value):
    """Tensors as lists, whatever they are nested in."""
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _both(run):
    """What a function of the package noted, for both packages."""
    ours, theirs = [], []
    run(volta, ours)
    run(torch, theirs)
    assert _plain(ours) == _plain(theirs)
    return ours


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_hook_on_several_gradients(mode):
    def run(lib, seen):
        a, b = (lib.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [3.0, 4.0]))
        c = a * b
        d = c * b
        e = a + 1
        handle = lib.autograd.graph.register_multi_grad_hook((a, b, c), seen.append, mode=mode)
        d.sum().backward(retain_graph=True)
        d.sum().backward(retain_graph=True)
        c.sum().backward(retain_graph=True)
        e.sum().backward(retain_graph=True)                     # of one of them alone
        d.sum().backward(inputs=(a,), retain_graph=True)
        handle.remove()
        d.sum().backward()
    assert len(_both(run)) == 5


def test_a_hook_on_several_gradients_inside_another_backward():
    def run(lib, seen):
        a, b = (lib.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [3.0, 4.0]))
        lib.autograd.graph.register_multi_grad_hook((a, b), lambda found: seen.append(("outer", found)))
        inner = lib.tensor([1.0], requires_grad=True)
        a.register_hook(lambda g: lib.enable_grad()(lambda: (inner * 2).sum().backward())())
        (a * b).sum().backward()
        seen.append(inner.grad)
    _both(run)


def test_hooks_that_are_refused():
    with pytest.raises(ArgumentError, match="register_multi_grad_hook: mode must be 'all' or 'any', got 'each'"):
        graph.register_multi_grad_hook([volta.ones(2, requires_grad=True)], print, mode="each")
    with pytest.raises(AutogradError, match="get_gradient_edge: the tensor does not require grad"):
        graph.register_multi_grad_hook([volta.ones(2)], print)


def test_edges_stand_for_tensors():
    def run(lib, seen):
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        b = a * 3
        edge, leaf = lib.autograd.graph.get_gradient_edge(b), lib.autograd.graph.get_gradient_edge(a)
        seen.append(edge.output_nr)
        seen.append(lib.autograd.grad((b * b).sum(), edge, retain_graph=True))
        seen.append(lib.autograd.grad((b * b).sum(), (leaf, edge), retain_graph=True))
        seen.append(lib.autograd.grad(edge, a, lib.ones(2), retain_graph=True))
        lib.autograd.backward(edge, lib.tensor([5.0, 7.0]), retain_graph=True)
        seen.append(a.grad)
        (b * b).sum().backward(inputs=leaf)
        seen.append(a.grad)
        seen.append(leaf.node.variable is a)
    _both(run)


def test_edges_that_are_refused():
    x = volta.ones(2, requires_grad=True)
    edge = graph.get_gradient_edge(x * 2)
    with pytest.raises(AutogradError, match="grad: at a GradientEdge the gradient must be given as a tensor, got NoneType"):
        volta.autograd.grad(edge, x)
    with pytest.raises(ArgumentError, match="backward: only tensors have a .grad to add to"):
        (x * 2).sum().backward(inputs=[edge])
    with pytest.raises(AutogradError, match="get_gradient_edge: the tensor does not require grad"):
        graph.get_gradient_edge(volta.ones(2))


def test_hooks_of_nodes():
    def run(lib, seen):
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        b = lib.tensor([[3.0], [4.0]], requires_grad=True)
        c = a * b
        node = c.grad_fn
        before = node.register_prehook(lambda g: seen.append(("before", g)) or (g[0] * 2,))
        after = node.register_hook(lambda found, g: seen.append(("after", found, g)) or (found[0] + 1, found[1]))
        c.sum().backward(retain_graph=True)
        seen.append([a.grad, b.grad])
        before.remove()
        after.remove()
        c.sum().backward(retain_graph=True)
        seen.append([a.grad, b.grad])
        node.metadata["note"] = 1
        seen.append(node.metadata)
    _both(run)


def test_hooks_of_a_node_without_all_gradients():
    def run(lib, seen):
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        c = a * lib.tensor([3.0, 4.0])
        c.grad_fn.register_hook(lambda found, g: seen.append((found, g)))
        c.sum().backward()
    _both(run)


def test_adding_to_leaves_is_a_node():
    def run(lib, seen):
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        b = a.view_as(a)
        node, place = b.grad_fn.next_functions[0]
        seen.extend([node.name().endswith("AccumulateGrad"), place, node.variable is a, node is (a * 2).grad_fn.next_functions[0][0]])
        seen.append([isinstance(node, lib.autograd.graph.Node), isinstance(b.grad_fn, lib.autograd.graph.Node), node.next_functions])
        node.register_prehook(lambda g: seen.append(("before", g)))
        handle = node.register_hook(lambda found, g: seen.append((found, g, a.grad.clone())))
        (b * 3).sum().backward()
        (a * 3).sum().backward()
        handle.remove()
        (a * 3).sum().backward()
    _both(run)


def test_leaves_call_their_hooks_where_grad_asks():
    def run(lib, seen):
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        a.register_hook(lambda g: seen.append(g) or g * 10)
        a.register_post_accumulate_grad_hook(lambda t: seen.append("added"))
        seen.append(lib.autograd.grad((a * a).sum(), a))
    _both(run)


def test_saved_tensors_may_change():
    def run(lib, seen):
        with lib.autograd.graph.allow_mutation_on_saved_tensors():
            a = lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float64, requires_grad=True)
            b = a.clone()
            out = (b ** 2).sum()
            b.sin_()
            row = b[0]
            more = (row * row).sum() + b.exp().sum()
            row.mul_(5)
            b.zero_()
            (out + more).backward()
            seen.append(a.grad.mul(1e9).round())
    _both(run)


def test_saved_tensors_that_may_change_are_copied_only_then():
    x = volta.ones(3, requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 2
        z = y * y
        kept = z.grad_fn.saved_tensors[0]
        assert volta._kernels.core.same_memory(kept, y)
        y.add_(1)
        assert not volta._kernels.core.same_memory(z.grad_fn.saved_tensors[0], y) and z.grad_fn.saved_tensors[0].tolist() == [2.0] * 3
    with pytest.raises(AutogradError, match="the graph was recorded inside allow_mutation_on_saved_tensors, whose block has ended"):
        z.sum().backward()
    with pytest.raises(AutogradError, match="one such block cannot be inside another one"), graph.allow_mutation_on_saved_tensors(), \
            graph.allow_mutation_on_saved_tensors():
        pass


def test_handles_of_tables_of_a_program():
    def run(lib, seen):
        handles = lib.utils.hooks if lib is torch else volta.autograd
        table, more = OrderedDict(), OrderedDict()
        handle = handles.RemovableHandle(table, extra_dict=more)
        table[handle.id] = more[handle.id] = 1
        with handle:
            seen.append([len(table), len(more)])
        seen.append([len(table), len(more)])
        handle.remove()
    _both(run)


def test_graph_can_be_looked_at():
    x = volta.tensor([2.0], requires_grad=True)
    y = (x * 3.0).exp()
    (product, index), = y.grad_fn.next_functions
    leaf_node, _ = product.next_functions[0]
    assert y.grad_fn.op == "exp" and y.grad_fn.name() == "ExpBackward0" and repr(y.grad_fn).startswith("<ExpBackward0 object at 0x")
    assert product.name() == "MulBackward0" and index == 0 and leaf_node.variable is x and leaf_node.next_functions == ()
    assert leaf_node.name() == "torch::autograd::AccumulateGrad" and leaf_node in {product.next_functions[0][0]}
    assert x.grad_fn is None and x.is_leaf
    y.sum().backward()
    assert y.grad_fn.saved_tensors is None


NAMES = """x+1 x+x 1-x 2/x 2**x x**2 x**x x@x x@v v@x v@v m.addmm(x,x,x) m.bmm(x[None],x[None]) x.sum() x.sum(0) x.mean(0) x.max()
x.max(0)[0]
x.std()
x.median(0)[0] x.clamp(0,1) x.t() x.T x.mT x.H x.transpose(0,1) x.permute(1,0) x.unsqueeze(0) x.squeeze() x.squeeze(0) x.view(-1)
x.repeat(2,1) x.tril() x.flip(0) x.roll(1) x.split(1)[0] x.split([1,2])[0] x.chunk(3)[0] x.unbind()[0] x[0] x[0:2] x[:,0] x[0,1:] x[1:,0]
x[None] x[[0,1]] x[x>0] x.masked_fill(x>0,0) x.masked_fill(x>0,v.sum()) x.scatter(0,i,x) x.scatter(0,i,1.) x.gather(0,i) m.cat([x,x])
m.stack([x,x])
x.sort()[0] x.topk(1)[0] F.relu(x) F.celu(x) F.prelu(x,v[:1]) F.softmax(x,0) F.linear(x,x) F.linear(x,x,v) F.linear(x[None],x)
F.conv1d(x[None],x[None])
F.max_pool1d(x[None],2) F.pad(x,(1,1)) F.pad(x[None],(1,1),mode='reflect') F.mse_loss(x,x) F.embedding(i,x)
F.cross_entropy(x,i[0])
F.cross_entropy(x,x.softmax(1)) F.interpolate(x[None],scale_factor=2)
F.layer_norm(x,(3,)) F.dropout(x)
(x*1).add_(1) (x*1).relu_() x.to(m.float64) x.clone() x.expand(2,3,3) x.diag() v.diag() m.where(x>0,x,0.) m.einsum('ij,jk->ik',x,x)"""


@pytest.mark.parametrize("text", NAMES.split())
def test_nodes_are_called_as_in_pytorch(text):
    def run(lib, seen):
        x = (lib.arange(9.0).reshape(3, 3) / 10 + 0.1).requires_grad_()
        values = {"m": lib, "F": lib.nn.functional, "x": x, "v": lib.ones(3, requires_grad=True), "i": lib.zeros(3, 3, dtype=lib.int64)}
        node = eval(text, values).grad_fn
        seen.append((node.name(), type(node).__name__, isinstance(node, lib.autograd.graph.Node)))
    _both(run)


def test_the_class_of_a_node_is_that_of_all_of_its_name():
    a, b = (volta.ones(2, requires_grad=True) * 2 for _ in range(2))
    assert type(a.grad_fn) is type(b.grad_fn) is not type((a + 1).grad_fn)
    assert a.grad_fn is a.grad_fn and a.grad_fn in {a.grad_fn}
    (a + 1).sum().backward(retain_graph=True)
    assert [type(node).__name__ for node, _ in (a + 1).grad_fn.next_functions if node is not None] == ["MulBackward0"]
    x = volta.ones(2, requires_grad=True)
    for _ in range(5000):                   # whose deallocation goes through their class
        x = x + 1
        type(x.grad_fn)
    del x


def test_nodes_of_custom_functions_are_their_contexts():
    def run(lib, seen):
        class Twice(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.number, ctx.needed = n, ctx.needs_input_grad
                ctx.save_for_backward(x)
                return x * n

            @staticmethod
            def backward(ctx, g):
                return g * ctx.number, None

        node = Twice.apply(lib.ones(2, requires_grad=True), 3).grad_fn
        seen.append((node.name(), type(node).__name__, node.number, node.needed, node.saved_tensors[0], hasattr(node, "other")))

        class Wrong(Twice):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)
        for call in (lambda: Wrong.apply(lib.ones(2, requires_grad=True)), lambda: _hooked(lib)):
            with pytest.raises(TypeError):
                call()
    _both(run)


def _hooked(lib):
    x = lib.ones(2, requires_grad=True)
    x.register_hook(lambda g: 3)
    x.sum().backward()


def test_a_custom_node_has_an_edge_for_each_tensor_alone():
    class Scaled(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x, k, y, z):
            return x * k + y

        @staticmethod
        def backward(ctx, g):
            return g, None, g, None

    x = volta.ones(2, requires_grad=True)
    node = Scaled.apply(x, 3, x * 2, None).grad_fn
    assert [edge[0].name() for edge in node.next_functions] == ["torch::autograd::AccumulateGrad", "MulBackward0"]
    assert Scaled.apply(x, 3, volta.ones(2), None).grad_fn.next_functions[1] == (None, 0)


def test_outputs_have_numbers():
    def run(lib, seen):
        x = lib.ones(4, 2, requires_grad=True)
        several = (*x.unbind(), *x.split(3), *x.chunk(2, 1), *x.max(0), *lib.var_mean(x, 0), x.exp(), x)
        seen.append([y.output_nr for y in several])
        views = x.unbind()
        edge = lib.autograd.graph.get_gradient_edge(views[2])
        seen.append(lib.autograd.grad(views[2].sum(), edge))
    _both(run)


def test_parameters_that_nodes_keep():
    def run(lib, seen):
        x = lib.ones(4, 2, requires_grad=True)
        seen.append([x.softmax(1).grad_fn._saved_dim, x.cumsum(0).grad_fn._saved_dim, x.sum(0, keepdim=True).grad_fn._saved_keepdim])
        seen.append(hasattr(x.exp().grad_fn, "_saved_dim"))
    _both(run)


def test_what_has_a_name_is_there():
    """Steps are records, or classes of derivatives; labels are of public functions."""
    assert not [name for name in node_names.STEPS if name not in table.RECORDS and not hasattr(subscript, name)]
    assert not node_names.LABELS.keys() - {op.name for op in table.FUNCTIONS.values()}
