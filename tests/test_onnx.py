"""The export to ONNX: every layer and whole models, loaded by onnxruntime and compared; what is refused."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_layers import LAYERS, NOT, Labels, Signs, Unit

import volta
from volta import nn
from volta.compat.modules import place
from volta.errors import ArgumentError, ONNXExportError

NAMES = [name for name in nn.__all__ if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), (nn.Module, type(None)))]


def _sample(kind, batch=None, to=None):
    """A tensor of a kind (nested in tuples), dimension `batch` of size `to`."""
    if isinstance(kind, tuple) and kind and isinstance(kind[0], tuple):
        return tuple(_sample(each, batch, to) for each in kind)
    shape = tuple(getattr(kind, "shape", kind))
    if to is not None and batch is not None:
        shape = tuple(to if d == batch else n for d, n in enumerate(shape))
    if isinstance(kind, Labels):
        return volta.randint(0, kind.high, shape)
    if isinstance(kind, Unit):
        return volta.rand(shape) * 0.9 + 0.05
    x = volta.randn(shape)
    return x.sign() if isinstance(kind, Signs) else x


def _flat(x):
    return [t for each in x for t in _flat(each)] if isinstance(x, (tuple, list)) else [x]


def _compare(program, model, inputs, rtol=1e-5):
    """onnxruntime and the model give the same of the same inputs."""
    with volta.no_grad():
        expected = [t for t in _flat(model(*inputs)) if t is not None]
    found = program(*_flat(inputs))
    assert len(found) == len(expected)
    for theirs, mine in zip(found, expected):
        mine = mine.cpu().numpy()
        assert theirs.shape == mine.shape and theirs.dtype == mine.dtype
        np.testing.assert_allclose(theirs, mine, rtol=rtol, atol=rtol * max(1.0, np.abs(mine[np.isfinite(mine)]).max(initial=0.0)))


def _export(model, inputs, axes=None, **options):
    """The program, its inputs named x0, x1 and so on, with this dynamic dimension by input."""
    names = [f"x{i}" for i in range(len(_flat(inputs)))]
    given = {name: {axis: "batch"} for name, axis in zip(names, axes or ()) if axis is not None}
    return volta.onnx.export(model, tuple(inputs), input_names=names, dynamic_axes=given, **options)


def test_every_layer_is_in_the_table():
    assert not [name for name in NAMES if name not in LAYERS and name not in NOT]


@pytest.mark.parametrize(("name", "index"), [(name, i) for name in LAYERS for i in range(len(LAYERS[name]))])
def test_layer(name, index):
    layer = LAYERS[name][index]
    model = layer.make().eval()
    inputs = [_sample(kind) for kind in layer.inputs]
    _compare(_export(model, inputs), model, [_sample(kind) for kind in layer.inputs])
    if any(axis is not None for axis in layer.batch):
        axes = [axis for axis, x in zip(layer.batch, inputs) for _ in _flat(x)]
        program = _export(model, inputs, axes)
        for size in (2, 7):
            _compare(program, model, [_sample(kind, axis, size) for kind, axis in zip(layer.inputs, layer.batch)])


@pytest.mark.parametrize("opset", [19, 23])
def test_layers_of_newer_opsets(opset):
    for name in ("LSTM", "GRU", "RNN", "LayerNorm", "GroupNorm", "AvgPool2d", "Upsample", "Embedding", "CrossEntropyLoss", "ConstantPad2d"):
        layer = LAYERS[name][0]
        model, inputs = layer.make().eval(), [_sample(kind) for kind in layer.inputs]
        program = _export(model, inputs, opset_version=opset)
        assert program.model_proto.opset_import[0].version == opset
        _compare(program, model, inputs)


def test_layers_without_a_graph():
    with pytest.raises(ONNXExportError, match="the model reads the values of a tensor that depends on its inputs, after "):
        volta.onnx.export(nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3]), (volta.randn(2, 4), volta.tensor([1, 5])))


# ---------------------------------------------------------------- models
class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)) if stride > 1 else None

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.down is None else self.down(x)
        return self.relu(out)


def _resnet():
    return nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
                         Residual(8, 8, 1), Residual(8, 16, 2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(16, 10))


class GPT(nn.Module):
    """Of at most 16 tokens; the head's weight is that of the embedding."""
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 16), nn.Embedding(16, 16)
        self.norm1, self.qkv, self.proj, self.norm2 = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.mlp, self.head = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16), nn.Dropout(0.1)), nn.Linear(16, 20, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("seen", volta.tril(volta.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, index):
        batch, time = index.shape
        assert time <= 16
        x = self.tokens(index) + self.places(volta.arange(time, device=index.device))
        q, k, v = (t.view(batch, time, 2, 8).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(16, dim=2))
        fused = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.transpose(-2, -1) / k.size(-1) ** 0.5).masked_fill(self.seen[:, :, :time, :time] == 0, float("-inf"))
        y = (fused + scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(batch, time, 16)
        x = x + self.proj(y)
        return self.head(x + self.mlp(self.norm2(x)))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(20, 8), nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), nn.Linear(12, 5)

    def forward(self, index, state):
        out, (hidden, cell) = self.lstm(self.words(index), state)
        return self.head(out), hidden, cell


def test_a_residual_network(device, tmp_path):
    model = _resnet().to(device)
    for t in model.buffers():
        if t.dtype.is_floating_point:
            t.uniform_(0.5, 1.5)
    x = volta.randn(1, 3, 32, 32, device=device)
    path = tmp_path / "resnet.onnx"
    program = volta.onnx.export(model, (x,), path, input_names=["image"], output_names=["scores"], verify=True,
                                dynamic_axes={"image": {0: "batch"}, "scores": {0: "batch"}})
    assert model.training and all(m.training for m in model.modules())
    operators = {node.op_type for node in program.model_proto.graph.node}
    assert operators == {"Conv", "BatchNormalization", "Relu", "MaxPool", "Add", "ReduceMean", "Reshape", "Gemm"}
    assert {"0.weight", "4.bn1.running_mean", "8.bias"} <= {t.name for t in program.model_proto.graph.initializer}
    model.eval()
    _compare(program, model, [volta.randn(4, 3, 32, 32, device=device)])
    onnx.checker.check_model(str(path), full_check=True)


def test_a_gpt_of_any_batch_and_length(device):
    model = GPT().to(device).eval()
    program = volta.onnx.export(model, (volta.randint(0, 20, (1, 16), device=device),), input_names=["index"],
                                dynamic_axes={"index": {0: "batch", 1: "time"}})
    shown = [dim.dim_param or dim.dim_value for dim in program.model_proto.graph.output[0].type.tensor_type.shape.dim]
    assert shown == ["batch", "time", 20]
    for shape in ((1, 16), (3, 5), (2, 1)):
        _compare(program, model, [volta.randint(0, 20, shape, device=device)])


def test_an_lstm_of_any_batch_and_length():
    model = Tagger().eval()

    def inputs(batch, time):
        return volta.randint(0, 20, (batch, time)), (volta.randn(4, batch, 6), volta.randn(4, batch, 6))
    program = volta.onnx.export(model, inputs(2, 6), input_names=["index", "hidden", "cell"], dynamic_axes={
        "index": {0: "batch", 1: "time"}, "hidden": {1: "batch"}, "cell": {1: "batch"}})
    assert [node.op_type for node in program.model_proto.graph.node].count("LSTM") == 4
    for size in ((2, 6), (5, 9), (1, 1)):
        _compare(program, model, inputs(*size))


# ---------------------------------------------------------------- what a trace must see
class Function(nn.Module):
    """A function of the inputs, with a parameter and a buffer."""
    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(volta.randn(3, 3))
        self.register_buffer("table", volta.arange(12.0).reshape(3, 4))

    def forward(self, *inputs):
        return self.function(self, *inputs)


def _in_place(m, x):
    y = x * 2
    row = y[0]
    y.add_(1)
    row.mul_(3)
    y[:, 1] = y[:, 2] * 2
    y[1:, 0] += 5
    return y.relu_() + row


def _into_a_buffer(m, x):
    m.table[1] = x[0].sum()
    return m.table * 2 + volta.cat([x, x[:, :1]], 1)


def _part_by_part(m, x):
    out = volta.zeros(3, 3)
    for i in range(3):
        out[i] = x[:, i].cumsum(0)
    return out


def _written_at(m, x, index):
    y = x.clone()
    y[index] = 7.0
    y[y > 6] = -1.0
    return y


TRACED = {
    "in_place": (_in_place,), "into_a_buffer": (_into_a_buffer,), "part_by_part": (_part_by_part,), "written_at": (_written_at, 1),
    "index": (lambda m, x, i: x[i] + m.table[i, :3] + x[:, i].sum() + x[i, i].mean(), 1), "an_index": (lambda m, x, i: x[i[0]], 1),
    "views": (lambda m, x: volta.as_strided(x * 2, (2, 2), (1, 2), 1) + (x * 3).data.t().reshape(-1)[2:6].view(2, 2),),
    "diagonals": (lambda m, x: x.diagonal() + x.trace(),), "statistics": (lambda m, x: x.std(0) + x.norm() + volta.logsumexp(x, 1),),
    "order": (lambda m, x: x.topk(2)[0] + x.sort(descending=True)[0][:, :2] + x.argmax(1, keepdim=True),),
    "choice": (lambda m, x: volta.where(x > 0, 1.0, x).clamp(-1, 0.5) + (x != x.floor()).any(1) + (x > -9).all(),),
    "integers": (lambda m, x: (x * 9).long() // 2 + (x * 9).int() % 3 - ((x * 9).long() << 1),),
    "weight": (lambda m, x: volta.einsum("ij,kj->ik", x, m.weight) + m.weight.t() @ x.flip(0).roll(1, 0),),
    "nested": (lambda m, x: {"a": x + 1, "b": [x, None, m.weight + 0]}["b"][0] * 2,),
    "scattered": (lambda m, x, i: volta.zeros(3, 3).scatter_add(0, i[:, None].expand(2, 3), x[:2]) + nn.functional.one_hot(i, 3).sum(), 1)}


@pytest.mark.parametrize("name", TRACED)
def test_traced(name):
    function, *indices = TRACED[name]
    model = Function(function).eval()
    table = model.table.clone()
    program = volta.onnx.export(model, (volta.randn(3, 3), *[volta.tensor([0, 2]) for _ in indices]))
    assert volta.equal(model.table, table)              # tracing leaves the buffers as they were
    _compare(program, model, [volta.randn(3, 3), *[volta.tensor([1, 1]) for _ in indices]])


@pytest.mark.parametrize("function", [
    lambda m, x: x * volta.arange(x.shape[0])[:, None] + volta.full((len(x), 1), 2.0) + x.shape[0],
    lambda m, x: x[-1] + x[:-1].sum(0) + x[::2].sum(0),
    lambda m, x: volta.cat([x, x * 2]).chunk(2)[1].repeat(2, 1), lambda m, x: (x[None] * x[:, None]).sum((0, 2)) + x.var(0).sum(),
    lambda m, x: x.masked_fill(volta.tril(volta.ones(len(x), len(x)))[:, :3] == 0, -9.0)])
def test_sizes(function):
    model = Function(function).eval()
    program = _export(model, [volta.randn(4, 3)], [0])
    for size in (3, 4, 9):
        _compare(program, model, [volta.randn(size, 3)])


@pytest.mark.parametrize("dtype", [volta.int8, volta.int16], ids=lambda d: d.name)
def test_small_integers(dtype):
    """They wrap as in Volta, through int32: few operators of ONNX take them."""
    x = volta.tensor([[100, -7], [3, 127]], dtype=dtype)
    for function in (lambda m, x: x * x + 3, lambda m, x: x @ x - x.t(), lambda m, x: x.tril().clamp(-5, 90), lambda m, x: x ** 3,
                     lambda m, x: volta.where(x > 0, x, 5) // 3, lambda m, x: x.sum(0) + x.amax(), lambda m, x: x.float().char() << 2,
                     lambda m, x: volta.cat([x, x.sort(1)[0]]).short() * 400, lambda m, x: nn.functional.pad(x[1:], (1, 1)) % 4):
        model = Function(function).eval()
        wanted = model(x).numpy()
        (found,) = volta.onnx.export(model, (x,))(x)
        assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()


# ---------------------------------------------------------------- what is refused
def _swallowed(m, x):
    try:
        return x if x.sum() > 0 else -x
    except RuntimeError:
        return x + 1


@pytest.mark.parametrize("function", [
    lambda m, x: x * x.sum().item(), lambda m, x: x if x.sum() > 0 else -x, lambda m, x: x[x > 0], lambda m, x: x.nonzero(), _swallowed,
    lambda m, x: x * float(x[0, 0]), lambda m, x: volta.tensor(x.tolist()), lambda m, x: volta.from_numpy(x.numpy() + 1)])
def test_values_are_not_made_constants(function):
    with pytest.raises(ONNXExportError, match="the model reads the values of a tensor that depends on its inputs"):
        volta.onnx.export(Function(function), (volta.randn(3, 3),))


@pytest.mark.parametrize(("function", "text"), [
    (lambda m, x: x.lgamma(), "ONNX has no operator for lgamma"), (lambda m, x: x.cumprod(0), "ONNX has no operator for cumprod"),
    (lambda m, x: x + 1 if len(x) > 4 else x * 2, "other operations run at another size of a dynamic axis"),
    (lambda m, x: x * volta.tensor([1.0] * len(x))[:, None], "that was made of the size of a dynamic axis"),
    (lambda m, x: x * (1 / len(x)), "a parameter of mul depends on the size of a dynamic axis"),
    (lambda m, x: x.expand(len(x), 3)[:len(x) // 2], "is no sum of products of them")])
def test_refused_operations(function, text):
    with pytest.raises(ONNXExportError, match=text):
        _export(Function(function), [volta.randn(4, 3)], [0])


def test_what_keeps_a_model_from_other_sizes_is_told():
    with pytest.raises(ONNXExportError, match="does not run at other sizes of the dynamic axis 'batch' than 4; leave it out") as raised:
        _export(Function(lambda m, x: x.reshape(4, 3)), [volta.ones(4, 3)], [0])
    assert "reshape" in str(raised.value.__cause__)


def test_what_is_not_needed_is_not_translated():
    program = volta.onnx.export(Function(lambda m, x: (x.lgamma(), x + 1)[1]), (volta.randn(3, 3),))
    assert [node.op_type for node in program.model_proto.graph.node] == ["Add"]


@pytest.mark.parametrize("options", [{"report": True}, {"opset_version": 9}, {"dynamic_shapes": {}}, {"custom_opsets": {"a": 1}},
                                     {"export_params": False}, {"input_names": ["a", "b"]}, {"output_names": ["a", "b"]},
                                     {"dynamic_axes": {"input": {5: "n"}}}, {"operator_export_type": 3}])
def test_refused_arguments(options):
    with pytest.raises(ValueError, match="^onnx.export: |OperatorExportTypes"):
        volta.onnx.export(nn.ReLU(), (volta.ones(2, 2),), **options)


def test_scripts_find_it_as_torch_onnx():
    assert place("torch.onnx") == "volta.onnx"


def test_a_function_is_refused():
    with pytest.raises(ArgumentError, match="model must be a volta.nn.Module, got function"):
        volta.onnx.export(lambda x: x, (volta.ones(2),))


# ---------------------------------------------------------------- files and forms of the call
def test_files(tmp_path):
    model, x = nn.Linear(30, 20), volta.randn(2, 30)
    assert volta.onnx.export(model, x, tmp_path / "one.onnx", dynamo=False) is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.onnx"]
    volta.onnx.export(model, (x,), tmp_path / "two.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.onnx", "two.onnx", "two.onnx.data"]
    for name in ("one.onnx", "two.onnx"):
        loaded = onnx.load(str(tmp_path / name))
        onnx.checker.check_model(loaded)
        weight = next(t for t in loaded.graph.initializer if t.name == "weight")
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(weight), model.weight.detach().numpy())


def test_training_modes():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3)).eval()
    before = model[1].running_mean.clone()
    program = volta.onnx.export(model, (volta.randn(4, 3),), training=volta.onnx.TrainingMode.TRAINING)
    assert program.model_proto.graph.node[0].op_type == "Dropout" and not model.training and volta.equal(model[1].running_mean, before)
    program = volta.onnx.export(model, (volta.randn(4, 3),), training=volta.onnx.TrainingMode.PRESERVE)
    assert [node.op_type for node in program.model_proto.graph.node] == ["BatchNormalization"]


def test_keyword_arguments_and_names():
    class Named(nn.Module):
        def forward(self, x, scale=2, *, other=None):
            assert volta.onnx.is_in_onnx_export()
            return x * scale + other
    x, other = volta.randn(3), volta.randn(3)
    program = volta.onnx.export(Named(), (x, 3), kwargs={"other": other}, keep_initializers_as_inputs=True)
    assert [i.name for i in program.model_proto.graph.input][:2] == ["x", "other"] and not volta.onnx.is_in_onnx_export()
    np.testing.assert_allclose(program(x, other)[0], (x * 3 + other).numpy(), rtol=1e-6)
