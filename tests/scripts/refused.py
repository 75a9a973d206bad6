"""What PyTorch has and Volta has not: the error says what is missing, why, and what there is instead; packages that only ask go on."""
import torch
from torch import nn
from torch.utils.cpp_extension import CUDA_HOME, load

x = torch.ones(2)
assert CUDA_HOME is None and not hasattr(torch, "stft") and not hasattr(torch.linalg, "eig") and not hasattr(torch, "nested")
assert torch._C._get_accelerator().type == ("cuda" if torch.cuda.is_available() else "cpu")
assert x._cdata == x._cdata != torch.ones(2)._cdata
assert torch.device("mps") == torch.device("mps") != x.device

for call, error, text in (
        (lambda: x * 1j, TypeError, "1j is complex, and there are no complex tensors; keep real and imaginary parts in tensors"),
        (lambda: 2j + x, TypeError, "2j is complex, and there are no complex tensors"),
        (lambda: torch.zeros(2, dtype=torch.complex64), TypeError, "zeros: dtype must be a dtype, got torch.complex64, of which there"),
        (lambda: nn.Linear(2, 2, dtype=torch.float8_e5m2), TypeError, "got torch.float8_e5m2, of which there are no tensors"),
        (lambda: torch.stft(x, 2), AttributeError, "torch.stft does not exist in Volta: there is no complex dtype; docs/coverage.md"),
        (lambda: torch.linalg.eig(torch.eye(2)), AttributeError, "torch.linalg.eig does not exist in Volta: there is no complex dtype"),
        (lambda: torch.fft.rfft(x), Exception, "torch.fft.rfft cannot be used in Volta: there is no complex dtype"),
        (lambda: torch.ao.quantization, AttributeError, "torch.ao does not exist in Volta: there are no quantized dtypes; bfloat16"),
        (lambda: __import__("torch.ao.quantization"), ImportError, "torch.ao does not exist in Volta: there are no quantized dtypes"),
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
