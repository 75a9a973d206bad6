"""`volta.onnx.export`: a model and sample inputs as an ONNX model, with PyTorch's arguments."""
from __future__ import annotations

import enum
import inspect
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any

import numpy as np

from volta._kernels.core import TensorBase
from volta.autograd import no_grad
from volta.errors import ArgumentError, ONNXExportError
from volta.io import files
from volta.nn.module import Module
from volta.onnx import elementwise, recurrent, reduce, shapes, windows  # noqa: F401  (they enter their translations)
from volta.onnx.graph import TRANSLATIONS, TYPES, Graph
from volta.onnx.sizes import Axes, Size, array, merged, resized
from volta.onnx.trace import Tape, Value
from volta.ops.creation import arange
from volta.tensor import Tensor

OPSET, NEWEST = 18, 23
_exporting = False


class TrainingMode(enum.IntEnum):
    """The mode in which a model is exported."""
    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Which operators the graph may have: ONNX's."""
    ONNX = 0


def is_in_onnx_export() -> bool:
    """Whether a model is being traced for an export."""
    return _exporting


class ONNXProgram:
    """An exported model: `model_proto` is ONNX's object."""

    def __init__(self, model_proto: Any, keep_external: bool) -> None:
        self.model_proto, self._external = model_proto, keep_external

    def save(self, destination: str | os.PathLike[str] | IO[bytes], *, external_data: bool | None = None) -> None:
        """Write the model. With `external_data` tensors above 1 KiB stand in a file beside it, "<destination>.data"."""
        import onnx
        external = self._external if external_data is None else external_data
        model = self.model_proto
        if hasattr(destination, "write"):
            destination.write(model.SerializeToString())
            return
        path = files.as_path("onnx.export", destination)
        if external:
            beside = path.with_name(path.name + ".data")
            model = onnx.ModelProto()
            model.CopyFrom(self.model_proto)
            data = io.BytesIO()
            for tensor in model.graph.initializer:
                if len(tensor.raw_data) > 1024:
                    data.write(bytes(-data.tell() % 64))
                    onnx.external_data_helper.set_external_data(tensor, beside.name, data.tell(), len(tensor.raw_data))
                    data.write(tensor.raw_data)
                    tensor.ClearField("raw_data")
                    tensor.data_location = onnx.TensorProto.EXTERNAL
            if data.tell():
                files.write(beside, lambda file: file.write(data.getbuffer()))
        files.write(path, lambda file: file.write(model.SerializeToString()))

    def __call__(self, *inputs: Any) -> list[np.ndarray]:
        """What onnxruntime computes of tensors or arrays."""
        import onnxruntime
        session = onnxruntime.InferenceSession(self.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
        given = [array(x) if isinstance(x, TensorBase) else np.asarray(x) for x in inputs]
        return session.run(None, dict(zip([i.name for i in session.get_inputs()], given)))


def export(model: Module, args: tuple[Any, ...] | Tensor = (), f: str | os.PathLike[str] | IO[bytes] | None = None, *,
           kwargs: dict[str, Any] | None = None, verbose: bool | None = None, input_names: Sequence[str] | None = None,
           output_names: Sequence[str] | None = None, opset_version: int | None = None, dynamo: bool = True, external_data: bool = True,
           dynamic_shapes: None = None, custom_translation_table: None = None, report: bool = False, optimize: bool = True,
           verify: bool = False, profile: bool = False, dump_exported_program: bool = False, artifacts_dir: str | os.PathLike[str] = ".",
           export_params: bool = True, keep_initializers_as_inputs: bool = False,
           dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None, training: TrainingMode = TrainingMode.EVAL,
           operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX, do_constant_folding: bool = True,
           custom_opsets: None = None, export_modules_as_functions: bool = False, autograd_inlining: bool = True) -> ONNXProgram | None:
    """An ONNX model of what `model(*args, **kwargs)` computes, written to `f` where it is given. The model runs, in evaluation mode, and
    what runs is recorded. Tensors among the arguments are the inputs of the graph, in order, with those of nested tuples, lists and
    dicts; anything else is part of it.

    `dynamic_axes` names the axes of inputs and outputs whose size may differ: the model then runs at several sizes, and what depends on
    them is computed in the graph. With `verify` onnxruntime must give the model's results. `dynamo=False` chooses PyTorch's older way to be
    called: a dict at the end of args are the kwargs, there is one file, and the result is None.

    Raises: ONNXExportError, naming the operation, for what the graph cannot express; ArgumentError for arguments that have no meaning here.

    >>> program = volta.onnx.export(volta.nn.Linear(3, 2), (volta.ones(1, 3),))
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Gemm']
    """
    _refuse(dynamic_shapes=dynamic_shapes, custom_translation_table=custom_translation_table, report=report, profile=profile,
            dump_exported_program=dump_exported_program, custom_opsets=custom_opsets, verbose=verbose,
            export_modules_as_functions=export_modules_as_functions, artifacts_dir=None if artifacts_dir == "." else artifacts_dir,
            **{f"{name}=False": None if value else value for name, value in (
                ("do_constant_folding", do_constant_folding), ("autograd_inlining", autograd_inlining), ("optimize", optimize),
                ("export_params", export_params))})
    opset = OPSET if opset_version is None else opset_version
    if not OPSET <= opset <= NEWEST:
        raise ArgumentError(f"onnx.export: opset_version must be {OPSET} to {NEWEST}, got {opset_version}")
    if not isinstance(model, Module):
        raise ArgumentError(f"onnx.export: model must be a volta.nn.Module, got {type(model).__name__}")
    args, kwargs = args if isinstance(args, tuple) else (args,), dict(kwargs or {})
    if not dynamo and args and isinstance(args[-1], dict) and not kwargs:
        args, kwargs = args[:-1], args[-1]
    call = _Call(model, args, kwargs, input_names, dynamic_axes or {})
    OperatorExportTypes(operator_export_type)
    with _mode(model, TrainingMode(training)):
        graph, outputs = _graph(call, opset)
        program = ONNXProgram(_model(graph, call, outputs, output_names, keep_initializers_as_inputs), external_data and dynamo)
        if verify:
            _verify(program, call)
    if f is not None:
        program.save(f)
    return program if dynamo else None


def _refuse(**options):
    """Raise for arguments that only PyTorch's exporter has a use for, unless they are None or switched off."""
    for name, value in options.items():
        if value is not None and value is not False or name.endswith("=False") and value is not None:
            advice = "name the axes by dynamic_axes={'input': {0: 'batch'}}" if name == "dynamic_shapes" else "leave it out"
            raise ArgumentError(f"onnx.export: {name.removesuffix('=False')}={value!r} is not supported; {advice}")


class _mode:
    """The model in its mode for the export, and back."""

    def __init__(self, model: Module, wanted: TrainingMode) -> None:
        self.before = [(module, module.training) for module in model.modules()]
        self.model, self.wanted = model, wanted

    def __enter__(self) -> None:
        global _exporting
        _exporting = True
        if self.wanted != TrainingMode.PRESERVE:
            self.model.train(self.wanted == TrainingMode.TRAINING)

    def __exit__(self, *exc: object) -> None:
        global _exporting
        _exporting = False
        for module, mode in self.before:
            module.training = mode


# ---------------------------------------------------------------- the call
def _flat(x, name):
    """(name, tensor) of the tensors in nested tuples, lists and dicts."""
    if isinstance(x, TensorBase):
        return [(name, x)]
    if isinstance(x, Mapping):
        return [pair for key, each in x.items() for pair in _flat(each, f"{name}_{key}")]
    return [pair for i, each in enumerate(x) for pair in _flat(each, f"{name}_{i}")] if isinstance(x, (tuple, list)) else []


def _with(x, tensors):
    """x with its tensors replaced by those of an iterator."""
    if isinstance(x, TensorBase):
        return next(tensors)
    if isinstance(x, Mapping):
        return type(x)((key, _with(each, tensors)) for key, each in x.items())
    if isinstance(x, (tuple, list)):
        found = [_with(each, tensors) for each in x]
        return type(x)(*found) if hasattr(x, "_fields") else type(x)(found)
    return x


class _Call:
    """A model with its arguments; the tensors among them by name, and which of their axes are dynamic."""

    def __init__(self, model: Module, args: tuple, kwargs: dict, names: Sequence[str] | None, dynamic: Mapping) -> None:
        self.model, self.args, self.kwargs, self.dynamic = model, args, kwargs, dynamic
        bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments
        tensors = {id(t): name for each, x in bound.items() for name, t in _flat(x, each)}
        given = [t for x in (*args, *kwargs.values()) for _, t in _flat(x, "")]
        self.tensors = given
        self.names = [tensors.get(id(t), f"input_{i}") for i, t in enumerate(given)]
        if names is not None:
            if len(names) > len(given):
                raise ArgumentError(f"onnx.export: {len(names)} input_names for {len(given)} tensors among the arguments")
            self.names[:len(names)] = names
        if len(set(self.names)) != len(self.names):
            self.names = [name if self.names.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(self.names)]
        self.axes = {}                                      # name -> [(input, dimension)]
        for i, name in enumerate(self.names):
            for dim, axis in _axes(dynamic.get(name, {}), name, given[i].ndim).items():
                self.axes.setdefault(axis, []).append((i, dim))

    def run(self, sizes: Mapping[str, int]) -> tuple[Tape, list[Value]]:
        """(tape, values of the results) of the model at these sizes of the dynamic axes."""
        per_input = [{} for _ in self.tensors]
        for axis, places in self.axes.items():
            for i, dim in places:
                per_input[i][dim] = sizes[axis]
        with no_grad():
            tensors = [resized(t.detach(), wanted, arange).clone() for t, wanted in zip(self.tensors, per_input)]
        named = {**dict(self.model.named_buffers()), **dict(self.model.named_parameters())}
        tape = Tape(tensors, named, windows.WHOLE, TRANSLATIONS)
        return tape, tape.finish(self.results(tensors, tape))

    def results(self, tensors: Sequence[TensorBase], watched: AbstractContextManager) -> list[Tensor]:
        """What the model gives of these inputs, flat. Its buffers stay as they are."""
        given, before = iter(tensors), [(t, t.storage.version, t.clone()) for t in self.model.buffers()]
        args, kwargs = _with(self.args, given), _with(self.kwargs, given)
        try:
            with no_grad(), watched:
                return [t for _, t in _flat(self.model(*args, **kwargs), "")]
        finally:
            with no_grad():
                for t, version, values in before:
                    if t.storage.version != version:
                        t.copy_(values)


def _axes(given, name, rank):
    """{dimension: name of the axis} of an entry of dynamic_axes."""
    if not isinstance(given, Mapping):
        given = {dim: f"{name}_dynamic_axes_{k}" for k, dim in enumerate(given, 1)}
    for dim in given:
        if not isinstance(dim, int) or not -rank <= dim < rank:
            raise ArgumentError(f"onnx.export: dynamic_axes names dimension {dim!r} of {name}, which has {rank}")
    return {dim % rank: str(axis) for dim, axis in given.items()}


# ---------------------------------------------------------------- the graph
def _graph(call, opset):
    """(graph, values of the outputs)."""
    sizes = {axis: call.tensors[places[0][0]].shape[places[0][1]] for axis, places in call.axes.items()}
    axes = Axes(sizes, call.run)
    tapes, outputs = zip(*axes.traces)
    if not outputs[0]:
        raise ONNXExportError("onnx.export: the model gives no tensor")
    entries, values = merged(tapes, outputs)
    graph = Graph(opset, axes)
    graph.names = {id(value): name for value, name in zip(tapes[0].inputs, call.names)}
    graph.lengths = {axis: (call.names[places[0][0]], places[0][1]) for axis, places in call.axes.items()}
    for entry in entries:
        graph.add(entry, [id(v) in tapes[0].needed for v in entry.outputs])
    return graph, values


def _model(graph, call, values, output_names, initializers_as_inputs):
    """ONNX's object."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"onnx.export: the package onnx cannot be imported ({error}); install it by pip install volta[onnx]") from None
    names = list(output_names or ())
    if len(names) > len(values):
        raise ArgumentError(f"onnx.export: {len(names)} output_names for {len(values)} results")
    names += [("output" if len(values) == 1 else f"output_{i}") for i in range(len(names), len(values))]
    for name, value in zip(names, values):
        graph.nodes.append(("Identity", (graph.name(value),), (name,), {}))
    graph.drop_unused(names)
    nodes = [onnx.helper.make_node(op, inputs, results, name=f"{op}_{i}", **attributes)
             for i, (op, inputs, results, attributes) in enumerate(_direct(graph.nodes, names, call.names))]
    tensors = [onnx.numpy_helper.from_array(data, name) for name, data in graph.initializers.items()]
    shown = [_info(onnx, name, TYPES[t.dtype], t.shape, {dim: axis for axis, places in call.axes.items() for k, dim in places if k == i})
             for i, (name, t) in enumerate(zip(call.names, call.tensors))]
    if initializers_as_inputs:
        shown += [onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    results = []
    for name, value in zip(names, values):
        labels = _axes(call.dynamic.get(name, {}), name, len(value.shape))
        of_axis = {axis: tuple(p[i] for p in graph.axes.points) for i, axis in enumerate(graph.axes.names)}
        for dim, n in enumerate(value.shape):
            if isinstance(n, Size):
                labels.setdefault(dim, next((a for a, sizes in of_axis.items() if sizes == n.values), f"{name}_dim_{dim}"))
        results.append(_info(onnx, name, TYPES[value.dtype], value.shape, labels))
    made = onnx.helper.make_graph(nodes, "main_graph", shown, results, tensors)
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", graph.opset)], producer_name="volta",
                                   ir_version={18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}[graph.opset])
    onnx.checker.check_model(model)
    return model


def _direct(nodes, outputs, inputs):
    """The nodes, those that name a result of another node as an output being merged with it."""
    renamed, taken = {}, set()
    for _, (source,), (name,), _ in nodes[len(nodes) - len(outputs):]:
        made = any(source in results for _, _, results, _ in nodes[:len(nodes) - len(outputs)])
        if made and source not in renamed:
            renamed[source] = name
            taken.add(name)
    for op, given, results, attributes in nodes:
        if op == "Identity" and results[0] in taken and renamed.get(given[0]) == results[0]:
            continue
        yield op, [renamed.get(x, x) for x in given], [renamed.get(x, x) for x in results], attributes


def _info(onnx, name, code, shape, labels):
    return onnx.helper.make_tensor_value_info(name, code, [labels.get(d, n if isinstance(n, int) else None) for d, n in enumerate(shape)])


def _verify(program, call):
    """Raise unless onnxruntime gives what the model gives."""
    found = program(*call.tensors)
    for i, (mine, theirs) in enumerate(zip(call.results([t.detach().clone() for t in call.tensors], nullcontext()), found)):
        if not np.allclose(array(mine), theirs, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise ONNXExportError(f"onnx.export: output {i} of onnxruntime differs from the model's by up to "
                                  f"{np.abs(array(mine) - theirs).max()}")
