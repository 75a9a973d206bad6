"""CPU kernels. Imports of this package's modules resolve to the best instruction set that the running CPU has.

The loop modules lie in `baseline/`, `avx2/` and `avx512/`; the chosen folder is put on this package's path, so that
`from volta._kernels.cpu import elementwise` (and one loop module's cimport of another) finds that variant and no other. Modules that gain
nothing by AVX-512 are compiled for AVX2 alone (`AS_AVX2` in setup.py), whose folder follows AVX-512's for them.
The environment variable VOLTA_CPU forces a lower one.

OpenMP's workers wait for the next loop in a spin of 0.1 to 0.5 ms, unless the user has set how they wait, and sleep then. That is longer
than the pauses between loops, and about what waking them costs: 50 us with 2 threads, 200 us with 16, where a loop that finds them awake
starts in 1 to 4 us. By default GCC's spin for 10 ms and more, in which they fight for the cores with other libraries' threads, such as
those of NumPy's BLAS. (Where PyTorch has been imported before, its OpenMP library serves; set GOMP_SPINCOUNT in the environment then.)
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
    os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        importlib.import_module("volta._kernels.cpu.copy")
    finally:
        del os.environ["GOMP_SPINCOUNT"]


variant = _choose()
_folders = [os.path.join(os.path.dirname(__file__), folder) for folder in ((variant, "avx2") if variant == "avx512" else (variant,))]
__path__ += [folder for folder in _folders if os.path.isdir(folder)]            # a build of AVX-512 alone has all modules there
_load_openmp()
