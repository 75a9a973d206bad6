"""CPU kernels. Imports of this package's modules resolve to the best instruction set that the running CPU has.

The loop modules lie in `baseline/`, `avx2/` and `avx512/`; the chosen folder is put on this package's path, so that
`from volta._kernels.cpu import elementwise` (and one loop module's cimport of another) finds that variant and no other.
The environment variable VOLTA_CPU forces a lower one.

OpenMP's workers are told to sleep while there is no loop for them, unless the user has set how they wait. By default
they spin, and fight for the cores with other libraries' threads, such as those of NumPy's BLAS: with two cores, a step of matmul,
add and exp was measured at 0.6 ms with sleeping workers and at 24 to 105 ms with spinning ones. (Where PyTorch has been
imported before, its OpenMP library serves; set OMP_WAIT_POLICY=passive in the environment then.)
"""
import importlib
import os

from volta._kernels.core import threads

LEVELS = ("baseline", "avx2", "avx512")


def _choose() -> str:
    """Name of the variant to use: VOLTA_CPU, else the best that is built and that the CPU supports."""
    here = os.path.dirname(__file__)
    supported = LEVELS[: threads.instruction_level() + 1]
    usable = [level for level in supported if os.path.isdir(os.path.join(here, level))]
    wanted = os.environ.get("VOLTA_CPU")
    if wanted is None:
        return usable[-1] if usable else "baseline"
    if wanted not in usable:
        raise ImportError(f"VOLTA_CPU={wanted}: this CPU and build have {', '.join(usable) or 'no variant'}; "
                          "unset VOLTA_CPU to take the best")
    return wanted


def _load_openmp() -> None:
    """Load the first loop module, and the OpenMP library with it, which reads the environment only then."""
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        importlib.import_module("volta._kernels.cpu.copy")
    finally:
        del os.environ["OMP_WAIT_POLICY"]


variant = _choose()
__path__.append(os.path.join(os.path.dirname(__file__), variant))
_load_openmp()
