"""Names of PyTorch that packages import, write in annotations and ask `isinstance` about, and that nothing here is an instance of.

They can be imported and inherited; what uses one raises. Functions are among them where packages import them beside what they use.
"""
from __future__ import annotations

from typing import Any

from volta.compat.modules import WHERE
from volta.errors import UnsupportedError

_PROFILES = "it marks parts of a program for another vendor's profiler; volta.profiler measures kernels"
_MODES = "what runs is watched by volta._kernels.core.call.Observer"
_MEMORY = "memory is not shown as addresses"
_GRAPHS = "the names of CUDA here are those of any GPU, which has no graphs of CUDA"
_FAKES = "shapes are found by tensors on the device 'meta'"
_COMPLEX = "there is no complex dtype"
_COMPILER = "nothing is compiled"
_PROCESSES = "Volta trains in one process"
_WORKERS = "an iterator of a DataLoader is of one kind, whoever fetches the samples"
_QUANTIZED = "there are no quantized dtypes; bfloat16 and float16 take half the memory of float32"
# The names by module, and why they are not here.
_REASONS = {
    "torch": {"PyTorchFileReader TypedStorage": _MEMORY, "complex": _COMPLEX,
              "lobpcg": "torch.linalg.eigh finds all eigenvalues of a symmetric matrix", "SymBool SymFloat SymInt": _COMPILER,
              "AggregationType AnyType Argument AwaitType Block BoolType ClassType ComplexType ConcreteModuleType DeviceObjType DictType "
              "EnumType FloatType FutureType Graph InferredType IntType InterfaceType ListType Node NoneType NumberType OptionalType "
              "PyObjectType RRefType StreamObjType StringType SymBoolType SymIntType TensorType TupleType Type UnionType Value": _COMPILER},
    "torch._C": {"Block Graph Node ScriptMethod Value": _COMPILER},
    "torch._ops": {"HigherOrderOperator OpOverload OpOverloadPacket": _COMPILER},
    "torch._dynamo": {"OptimizedModule": _COMPILER},
    "torch._dynamo.eval_frame": {"OptimizedModule": _COMPILER},
    "torch.autograd.profiler": {"emit_itt emit_nvtx": _PROFILES},
    "torch.cuda": {"CUDAGraph StreamContext graph make_graphed_callables": _GRAPHS},
    "torch._higher_order_ops.associative_scan": {"associative_scan": _COMPILER},
    "torch.distributed": {"Backend ProcessGroup Store Work": _PROCESSES},
    "torch.distributed.autograd": {"context": _PROCESSES},
    "torch.distributed.device_mesh": {"DeviceMesh init_device_mesh": _PROCESSES},
    "torch.distributed.nn": {"all_gather all_reduce broadcast reduce": _PROCESSES},
    "torch.distributed.rpc": {"BackendType PyRRef RRef RpcBackendOptions WorkerInfo": _PROCESSES},
    "torch.distributed.optim": {"ZeroRedundancyOptimizer": _PROCESSES},
    **dict.fromkeys(("torch.distributed.tensor", "torch.distributed._tensor"), {"DTensor Replicate Shard": _PROCESSES}),
    **dict.fromkeys(("torch.distributed.fsdp", "torch.distributed.fsdp.api", "torch.distributed.fsdp.fully_sharded_data_parallel"), {
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel "
        "LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OptimStateDictConfig "
        "ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings StateDictType "
        "fully_shard": _PROCESSES}),
    "torch.distributed._tensor.experimental": {"implicit_replication": _PROCESSES},
    "torch.distributed._composable": {"checkpoint fully_shard replicate": _PROCESSES},
    "torch.distributed._composable.fsdp": {"FSDPModule MixedPrecisionPolicy fully_shard": _PROCESSES},
    "torch.fft": {"fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq "
                  "rfftn": _COMPLEX},
    "torch._tensor_str": {"PRINT_OPTS _tensor_str": "tensors print by volta.printing"},
    "torch.jit": {"_get_trace_graph": _COMPILER},
    "torch.nn.parallel.scatter_gather": {"gather scatter scatter_kwargs": _PROCESSES},
    "torch.fx.experimental.proxy_tensor": {"make_fx": _COMPILER},
    "torch._subclasses": {"FakeTensor FakeTensorMode": _FAKES},
    "torch._subclasses.fake_tensor": {"FakeTensor FakeTensorMode": _FAKES},
    "torch.storage": {"TypedStorage": _MEMORY},
    "torch.utils._python_dispatch": {"TorchDispatchMode": _MODES},
    "torch.utils.data._utils.worker": {"_generate_state": _WORKERS},
    **dict.fromkeys(("torch.ao.quantization", "torch.quantization"), {
        "DeQuantStub FakeQuantizeBase ObserverBase QConfig QuantStub convert default_qconfig fuse_modules get_default_qconfig prepare "
        "prepare_qat quantize_dynamic": _QUANTIZED}),
    **dict.fromkeys(("torch.ao.quantization.observer", "torch.quantization.observer"), {
        "HistogramObserver MinMaxObserver MovingAverageMinMaxObserver ObserverBase PerChannelMinMaxObserver": _QUANTIZED}),
    **dict.fromkeys(("torch.ao.quantization.qconfig", "torch.quantization.qconfig"), {"QConfig": _QUANTIZED}),
    **dict.fromkeys(("torch.nn", "torch.nn.modules", "torch.nn.modules.normalization"), {
        "CrossMapLRN2d": "torch.nn.LocalResponseNorm is what it was to be: it does not leave out the first channel again"}),
    "torch.library": {"Library triton_op wrap_triton": "operations are declared by torch.library.custom_op"},
    "torch.autograd.functional": {"_as_tuple _construct_standard_basis_for _grad_postprocess _tuple_postprocess":
                                  "a step of PyTorch's own jacobian; torch.func and torch.autograd.functional have whole ones"},
    "torchvision.datasets.utils": {"check_integrity download_and_extract_archive download_file_from_google_drive download_url "
                                   "extract_archive": "the datasets of volta.vision fetch their own files"},
    "torchvision.models.vision_transformer": {"ConvStemConfig": "patches are cut by one convolution"},
    "torch.utils.cpp_extension": {"BuildExtension CUDAExtension CppExtension load load_inline": "kernels of a program's own are written in "
                                                                                               "WGSL: volta.kernel"},
}


# Names that do not exist, so that packages which ask do without, but whose absence has a reason.
_PADDED = "pad the sequences by nn.utils.rnn.pad_sequence, and mask the padding"
_PROGRAMS = "nothing is compiled or exported but to ONNX: volta.onnx.export; weights are saved as a state_dict"
ABSENT = {f"{module}.{name}": reason for module, names, reason in (
    ("torch", "istft polar stft view_as_complex view_as_real", _COMPLEX), ("torch.linalg", "eig eigvals", _COMPLEX),
    ("torch", "quantize_per_channel quantize_per_tensor", _QUANTIZED),
    ("torch.ao", "nn ns pruning", _QUANTIZED), ("torch.quantization", "FakeQuantize", _QUANTIZED),
    ("torch.nn", "intrinsic qat quantizable quantized", _QUANTIZED), ("torch", "nested", _PADDED), ("torch", "export package", _PROGRAMS))
    for name in names.split()}


class Refused(type):
    """The type of these classes."""
    name: str
    reason: str

    def __getitem__(cls, kinds: Any) -> Refused:
        """The class itself: annotations name what it holds."""
        return cls

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        raise UnsupportedError(f"{cls.name} cannot be used in Volta: {cls.reason}; {WHERE}")

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(f"{cls.name}.{name} does not exist in Volta: {cls.reason}; {WHERE}", name=name)


NAMES = {module: {name: Refused(name, (), {"name": f"{module}.{name}", "reason": reason, "__module__": module})
                  for names, reason in reasons.items() for name in names.split()} for module, reasons in _REASONS.items()}
