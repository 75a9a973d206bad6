"""What PyTorch has and Volta has not: the error says what is missing, why, and what there is instead; packages that only ask go on."""
import torch
from torch import nn
from torch.ao.quantization import FakeQuantizeBase
from torch.ao.quantization.observer import ObserverBase
from torch.distributed.fsdp.api import MixedPrecision
from torch.library import Library
from torch.quantization import QConfig
from torch.quantization.qconfig import QConfig as SameQConfig
from torch.utils.cpp_extension import CUDA_HOME, load
from torchvision.datasets.utils import download_url

x = torch.ones(2)
assert CUDA_HOME is None and not hasattr(torch, "stft") and not hasattr(torch.linalg, "eig") and not hasattr(torch, "nested")
assert torch._C._get_accelerator().type == ("cuda" if torch.cuda.is_available() else "cpu")
assert x._cdata == x._cdata != torch.ones(2)._cdata
assert not isinstance(nn.Linear(1, 1), (FakeQuantizeBase, ObserverBase, nn.CrossMapLRN2d)) and QConfig.__name__ == SameQConfig.__name__
assert torch.backends.opt_einsum.set_flags(False) == (False, None)
assert torch.device("mps") == torch.device("mps") != x.device

for call, error, text in (
        (lambda: x * 1j, TypeError, "1j is complex, and there are no complex tensors; keep real and imaginary parts in tensors"),
        (lambda: 2j + x, TypeError, "2j is complex, and there are no complex tensors"),
        (lambda: torch.zeros(2, dtype=torch.complex64), TypeError, "zeros: dtype must be a dtype, got torch.complex64, of which there"),
        (lambda: nn.Linear(2, 2, dtype=torch.float8_e5m2), TypeError, "got torch.float8_e5m2, of which there are no tensors"),
        (lambda: torch.stft(x, 2), AttributeError, "torch.stft does not exist in Volta: there is no complex dtype; docs/coverage.md"),
        (lambda: torch.linalg.eig(torch.eye(2)), AttributeError, "torch.linalg.eig does not exist in Volta: there is no complex dtype"),
        (lambda: torch.fft.rfft(x), Exception, "torch.fft.rfft cannot be used in Volta: there is no complex dtype"),
        (lambda: torch.ao.quantization.QuantStub(), Exception, "torch.ao.quantization.QuantStub cannot be used in Volta: there are no q"),
        (lambda: torch.ao.nn, AttributeError, "torch.ao.nn does not exist in Volta: there are no quantized dtypes; bfloat16"),
        (lambda: torch.ao.quantization.FakeQuantize, AttributeError, "torch.ao.quantization.FakeQuantize does not exist in Volta"),
        (lambda: __import__("torch.ao.nn.quantized"), ImportError, "torch.ao.nn does not exist in Volta: there are no"),
        (lambda: torch.quantize_per_tensor(x, 1, 0, None), AttributeError, "there are no quantized dtypes; bfloat16"),
        (lambda: torch.complex(x, x), Exception, "torch.complex cannot be used in Volta: there is no complex dtype"),
        (lambda: torch.lobpcg(torch.eye(2)), Exception, "torch.linalg.eigh finds all eigenvalues of a symmetric matrix"),
        (lambda: Library("own", "DEF"), Exception, "operations are declared by torch.library.custom_op"),
        (lambda: nn.CrossMapLRN2d(3), Exception, "torch.nn.LocalResponseNorm is what it was to be"),
        (lambda: MixedPrecision(param_dtype=None), Exception, "MixedPrecision cannot be used in Volta: Volta trains in one process"),
        (lambda: download_url("a", "b"), Exception, "the datasets of volta.vision fetch their own files"),
        (lambda: torch.backends.opt_einsum.set_flags(True), ValueError, "einsum multiplies from the left"),
        (lambda: torch.nested.nested_tensor([x]), AttributeError, "torch.nested does not exist in Volta: pad the sequences by nn.utils"),
        (lambda: torch.export.export(nn.Linear(2, 2), (x,)), AttributeError, "nothing is compiled or exported but to ONNX: volta.onnx"),
        (lambda: load("name", ["file.cpp"]), Exception, "kernels of a program's own are written in WGSL: volta.kernel"),
        (lambda: x.to("mps"), Exception, "there is no device 'mps' here; a GPU of any maker is 'gpu'")):
    try:
        call()
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError(text)
print("done")
