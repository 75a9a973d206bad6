"""Prints which of PyTorch's public functions and methods Volta has, and why it lacks the others.

    python docs/coverage.py            # a summary, and the names without a reason
    python docs/coverage.py --write    # docs/coverage.md as well

Needs PyTorch. Its names are those of its functions in torch, Tensor, nn.functional, linalg and special, and of its functions and classes
in the modules of MODULES; OTHERS says in words what there is of the rest.
"""
from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import volta
import volta.nn.functional
from volta.compat.modules import place

# Patterns of names that Volta lacks, and why. What no pattern fits is simply not there yet.
REASONS = (
    (r".*(complex|conj|imag|^real$|^view_as_real$|^angle$|^polar$|cfloat|cdouble|chalf).*|^is_neg$|resolve_neg",
     "there is no complex dtype"),
    (r"to_padded_tensor", "there are no nested tensors"),
    (r".*(quantiz|fake_quant|fbgemm|int_repr|qscheme|q_per_channel|q_scale|q_zero|choose_qparams|fused_moving_avg).*",
     "there is no quantised dtype"),
    (r".*(sparse|coo|csr|csc|bsr|bsc|crow_ind|ccol_ind|col_indices|row_indices|coalesce|to_dense|dense_dim|spmm|hspmm|hsmm|dsmm|saddmm|"
     r"sspaddmm|^smm$|^indices|^values).*", "sparse tensors are by coordinates alone: volta.sparse"),
    (r".*(cudnn|miopen|mkldnn|mtia|ipu|xpu|xla|maia|vulkan|cuda|cudagraph|cxx11).*", "of one vendor's library or device"),
    (r".*(stft|istft|^fft).*", "Fourier transforms are not built"),
    (r"hash_tensor", "there is no uint64, in which it is"),
    (r"grouped_mm|scaled_mm|scaled_grouped_mm", "of element types that Volta has not: float8"),
    (r"set_default_tensor_type|resize|resize_as", "deprecated: set_default_dtype and set_default_device, resize_ and resize_as_ are here"),
    (r"^sym_.*|.*(jit|import_ir|parse_|unify_type|merge_type|fork|^wait$|^cond$|while_loop|classproperty|thread_safe|handle_torch_function|"
     r"has_torch_function|assert_int|boolean_dispatch|Optional|is_storage|module_load|^index$|profiler_).*",
     "PyTorch's own machinery"),
    (r"autocast_.*|.*autocast_cpu.*|set_autocast_gpu.*|.*deterministic.*|.*warn_always.*|.*(num_interop|init_num_threads|flush_denormal|matmul_precision).*",
     "a setting that Volta has no use for: its results are deterministic, its arithmetic is float32's"),
    (r"(?!index_copy).*_copy$|.*_with_indices$|.*batch_norm_.*|^native_.*|.*_cell$|^convolution$|.*grid_sampler.*|affine_grid_generator|"
     r"empty_(quantized|permuted)|segment_reduce|slice_inverse|sym_constrain.*|.*embedding_renorm.*|^conv_tbc$|norm_except_dim|"
     r"(nuclear|frobenius)_norm",
     "an inner form of a function that is here under its public name"),
    (r"^(const_data_ptr|storage.*|untyped_storage|set_|share_memory_|is_shared|pin_memory|record_stream|"
     r"prepare_multiprocessing.*|get_file_path|is_distributed|storage_type|dim_order|output_nr)$",
     "memory is not shown as addresses, nor pinned: transfers take any"),
    (r"^(eig|eigvals)$", "eigenvalues of matrices that are not symmetric are complex"),
    (r"^(symeig|solve|lstsq|matrix_rank)$", "removed from PyTorch: these names only raise, and linalg has their functions"),
    (r"^lobpcg$", "rare: the largest eigenvalues of sparse matrices"),
    (r"^(reinforce|reinforce_|compile)$", "of tracing, or of modes that change nothing here"),
)
# Modules whose classes count too, and reasons for names in one of them.
MODULES = """nn nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.prune nn.grad optim optim.lr_scheduler optim.swa_utils
    utils utils.data utils.checkpoint utils.weak utils.benchmark autograd autograd.functional autograd.forward_ad autograd.graph func
    distributions amp random quasirandom testing signal.windows profiler""".split()
REASONS_BY_MODULE = {
    "nn": ((r"Container|factory_kwargs", "PyTorch's own machinery"), (r"CrossMapLRN2d", "LocalResponseNorm is here")),
    "utils": ((r"ThroughputBenchmark|.*privateuse1.*|get_cpp_backtrace|set_module", "of PyTorch's own library"),),
    "utils.data": ((r".*(DataPipe|DFIter|DataChunk|datapipe|validation|non_deterministic).*", "pipes of data are deprecated"),),
    "utils.checkpoint": ((r"CheckpointPolicy|Selective.*|create_selective_.*|SAC_.*|CheckpointFunction|DefaultDeviceType|"
                          r"GraphExecGroup", "of its own operators: which of them are kept"),),
    "utils.benchmark": ((r".*(Callgrind|FunctionCount|Fuzz|ParameterAlias|Language|Colorize|set_torch).*",
                         "of Valgrind, C++ and PyTorch's own tests"),),
    "autograd": ((r"NestedIOFunction|enforce_grad_.*|set_multithreading_enabled|variable|grad_mode", "of PyTorch's own engine"),),
    "autograd.graph": ((r"set_.*|region_.*", "of PyTorch's own engine"),),
    "optim": ((r"swap_in_optimizer_params_and_state", "of PyTorch's own machinery"),),
    "profiler": ((r"ExecutionTraceObserver|register_optimizer.*|itt.*|DeviceType|RecordScope", "of PyTorch's own library"),),
    "random": ((r"thread_safe_generator", "of PyTorch's own compiler"),), "testing": ((r"FileCheck", "of TorchScript"),),
}
# What there is of the others: few of their names are functions of tensors.
OTHERS = {
    "accelerator": "GPUs under names that do not say whose they are.",
    "ao, nn.quantized, quantization": "not here, as there is no quantised dtype.",
    "autograd.profiler": "the older form of `profiler`.",
    "backends": "settings, which choose among libraries of vendors: they are kept, and change nothing.",
    "compiler": "`compile` gives its function back: every operation runs by a kernel that is compiled already.",
    "cpu, mps, xpu": "the names that programs ask them by; a GPU is `gpu`, whoever made it.",
    "cuda": "devices, memory, seeds, streams and events, of any GPU; no graphs of CUDA.",
    "distributed": "a group of one process; several are refused. `distributed.fsdp`, `rpc` and `checkpoint` are not here.",
    "export, package": "not here; `onnx` writes trained models, `save` and `load` their weights.",
    "fft": "not here, as there is no complex dtype.",
    "fx": "graphs of modules: traced, changed, written as Python.",
    "hub": "published files of weights, and repositories on this machine.",
    "jit": "what would be compiled runs as the Python that it is.",
    "library": "operations that a program declares.",
    "masked, nested": "not here.",
    "multiprocessing": "Python's; tensors that are sent are copied.",
    "nn.attention": "choices among kernels, of which there is one; `flex_attention` and causal masks.",
    "nn.parallel": "the wrappers, around one device.",
    "onnx": "`export`.",
    "overrides": "`__torch_function__` and its modes.",
    "sparse": "tensors by coordinates, and their products.",
    "utils.cpp_extension": "not here; `volta.kernel` makes operations of WGSL and NumPy or Cython.",
    "utils.tensorboard": "`SummaryWriter`.",
}
GROUPS = {
    "torch": (torch, volta), "Tensor": (torch.Tensor, volta.Tensor), "nn.functional": (torch.nn.functional, volta.nn.functional),
    "linalg": (torch.linalg, getattr(volta, "linalg", None)), "special": (torch.special, getattr(volta, "special", None)),
}


def _modules(name: str) -> tuple[object, object]:
    """PyTorch's module of this name, and the one here."""
    theirs = f"torch.{name}"
    return importlib.import_module(theirs), importlib.import_module(place(theirs))


GROUPS.update((name, _modules(name)) for name in MODULES)


def names(space: object) -> list[str]:
    """The public functions of a module, with its classes where these count, or methods of a class."""
    if getattr(space, "__name__", "").removeprefix("torch.") in MODULES:
        public = getattr(space, "__all__", None) or [n for n in dir(space)
                                                     if (getattr(getattr(space, n), "__module__", None) or "").startswith("torch")]
        return sorted(n for n in public if not n.startswith("_") and callable(getattr(space, n)))

    def wanted(value):
        return isinstance(value, Callable) if inspect.isclass(space) else inspect.isbuiltin(value) or inspect.isfunction(value)
    return sorted(name for name in dir(space) if not name.startswith("_") and wanted(getattr(space, name)))


def reason(name: str, group: str) -> str:
    """Why there is no such name; "" where nothing says so."""
    reasons = REASONS_BY_MODULE.get(group, ()) if group in MODULES else REASONS
    return next((why for pattern, why in reasons if re.fullmatch(pattern, name)), "")


def table() -> dict[str, tuple[list[str], dict[str, str]]]:
    """By group: the names that are here, and the reasons of those that are not."""
    return {group: ([n for n in names(theirs) if hasattr(ours, n)], {n: reason(n, group) for n in names(theirs) if not hasattr(ours, n)})
            for group, (theirs, ours) in GROUPS.items()}


def text() -> str:
    """The table as Markdown."""
    lines = ["# PyTorch's names in Volta", "",
             f"Written by `python docs/coverage.py --write` with PyTorch {torch.__version__.split('+')[0]}.",
             "`python docs/make.py --reference` writes what each one does.", "",
             "## Modules beside those below", "",
             *(f"* {', '.join(f'`{name}`' for name in names.split(', '))}: {what}" for names, what in OTHERS.items()), ""]
    for group, (present, missing) in table().items():
        lines += [f"## {group}: {len(present)} of {len(present) + len(missing)}", "",
                  "Present: " + ", ".join(f"`{n}`" for n in present) + ".", ""]
        for why in sorted(set(missing.values()), key=lambda why: (not why, why)):
            found = ", ".join(f"`{n}`" for n, w in missing.items() if w == why)
            lines += [f"Missing, {why or 'not built yet'}: {found}.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    for group, (present, missing) in table().items():
        open_ = [n for n, why in missing.items() if not why]
        print(f"{group:14} {len(present):4} present, {len(missing) - len(open_):4} missing for a reason, {len(open_):4} not built yet")
        if open_:
            print("    " + " ".join(open_))
    if "--write" in sys.argv:
        Path(__file__).with_name("coverage.md").write_text(text(), encoding="utf-8")
