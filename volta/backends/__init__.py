"""Settings under the names of torch.backends. They choose among kernels of one vendor's libraries, which are not used here: no setting
changes a result or forbids anything, and results are deterministic at any. They are kept, so that scripts can read what they set."""
from volta.backends import attention, cpu, cuda, cudnn, mha, mkl, mkldnn, mps, openmp

__all__ = ["attention", "cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp"]
