"""Builds Volta's Cython extensions; everything else about the package is in pyproject.toml.

Every `volta/_kernels/*/*.pyx` becomes an extension, and every `*.pyx.in` first passes through Cython's Tempita. The folder
says how often it is compiled: those of `cpu/` are loops, compiled once per instruction set from the same C file into
`cpu/<variant>/`, of which `cpu/__init__.py` takes the best that the running CPU has (but no time goes to AVX-512 where it gains nothing:
`AS_AVX2`); all others once. Then `docs/make.py` asks what was built for its public names, and writes the type stubs.

Environment:
    VOLTA_BOUNDSCHECK=1   index checks, and a check that every view lies inside its storage (slow; for tests)
    VOLTA_VARIANTS=a,b    build only these instruction sets (`baseline`, `avx2`, `avx512`), for quick rebuilds
"""
from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, LinkError

KERNELS = Path("volta/_kernels")
GENERATED = Path("build/cython")
VARIED = KERNELS / "cpu"
SHARED = "volta._kernels.shared"        # Cython's own functions that do not depend on the module: compiled once, taken by all
CHECKED = os.environ.get("VOLTA_BOUNDSCHECK", "") not in ("", "0")
# What has been compiled, by all that changes the result but the sources.
SWITCHES = [str(CHECKED), *(os.environ.get(name, "") for name in ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "ARCHFLAGS"))]
KEPT = Path("build/kept", f"{zlib.crc32(repr(SWITCHES).encode()):08x}")

# The instruction sets of x86-64: name -> (flags of GCC and Clang, flags of MSVC). Other machines have `baseline` only. The kernels for
# AVX-512 are written in vectors of GCC and Clang, which MSVC has not.
VARIANTS = {
    "baseline": ([], []),
    "avx2": (["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2"], ["/arch:AVX2"]),
    "avx512": (["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq",
                "-mavx512vl", "-mprefer-vector-width=512"], []),
}
# Not -ffast-math: NaN and infinity must behave. No errno and no traps let the compiler vectorise sqrt and comparisons.
# No contraction: an element's value must not depend on whether the vector part of a loop or its rest computes it.
# Python's own flags ask for all warnings, of which Cython's C and macros whose names not every form needs give thousands; what compilers
# warn of unasked stays.
UNIX_FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv",
              "-g0", "-Wno-all", "-Wno-sign-compare"]
# How hard the compiler tries. Loops over numbers gain from -O3; those that move elements (and a few others) are as fast, or up to a
# fifth faster, without what it adds to -O2 but vectors; and x86-64's baseline, for processors older than 2013, is not worth a third of
# the time of a build: with vectors, less than -O2 is as fast. Checks are run once by a few tests, in less time than more than -O1 takes
# to compile.
VECTORS = ["-ftree-vectorize", "-fvect-cost-model=dynamic"]
LOOPS, MOVES, OLD, OTHERS, CHECKS = ["-O3"], ["-O2", *VECTORS], ["-O1", *VECTORS], ["-O2"], ["-O1"]
# What -O3 does to loops alone, without inlining and unrolling more: as fast for these modules, in a sixth less time. (Of others some loops
# are slower, and in reflect_blocks one reads ahead what nobody wrote.)
PLAIN = [*MOVES, "-fipa-cp-clone", "-floop-interchange", "-floop-unroll-and-jam", "-fpredictive-commoning", "-fsplit-loops",
         "-ftree-loop-distribution", "-funswitch-loops", "-fversion-loops-for-strides"]
PLAINLY = {"attention", "distance", "elementwise_activation", "elementwise_arithmetic", "elementwise_comparison", "elementwise_driver",
           "elementwise_unary", "exponential", "folds", "loss", "median", "norm", "recurrent", "row_norm"}
MOVING = {"bag", "conv", "conv_depthwise", "conv_pixels", "conv_product", "conv_weight", "ctc", "glu", "index", "join", "scatter",
          "scatter_halves", "search", "update", "windowed"}
# As fast where functions of headers are inlined only up to the size of -O2, which a fifth of its time goes to.
APART = [*LOOPS, "--param=max-inline-insns-single=70"]
LEVELS = dict.fromkeys(MOVING, MOVES) | dict.fromkeys(PLAINLY, PLAIN) | {"lu": APART}
OF_GCC = {*PLAIN, *APART} - {"-O2", "-O3"}
# Modules that AVX-512 makes less than a tenth faster, or whose functions few programs call and PyTorch takes at least twice as long for:
# where it runs, these are AVX2's.
AS_AVX2 = {"bidiagonal", "ctc", "elementwise_higher", "fold", "index", "join", "resample", "sample", "scatter", "scatter_halves",
           "tridiagonal", "update"}
UNROLLED = (".gemm", ".multiply")
MSVC_FLAGS = ["/O2", "/fp:precise"]
LIBOMP = "/opt/homebrew/opt/libomp", "/usr/local/opt/libomp"        # where Homebrew puts it on Apple's processors, and on Intel's
# What most modules include, and takes longer to read than many of them to compile: GCC reads it once for each set of flags.
HEADERS = '#define PY_SSIZE_T_CLEAN\n#include "Python.h"\n'
# From which section of Cython's C on GCC optimises how: what fills a module runs once (tables of loops are long straight lines, which took
# up to a half of their modules' time), and Cython's own functions in modules of loops are no loops; of these what imports and raises runs
# rarely. (In other modules they are what calls are made of: at O1 an operation took a fifth longer.)
SECTIONS = {"init_module": 'push_options\n#pragma GCC optimize ("O0")', "utility_code_pragmas": "pop_options"}
HELPERS = '\n#pragma GCC optimize ("O1")'
RARE = re.compile(r"^/\* (?:Raise\w+|\w*Import\w*|\w*Export\w*|AddModuleRef|AddTraceback|ArgTypeTestError|CheckBinaryVersion"
                  r"|CLineInTraceback|CodeObjectCache|Decompress\w+|Fetch\w+|FormatTypeName|GetRuntimeVersion|IgnoreException|MergeVTables"
                  r"|MultiPhaseInit\w+|NewCodeObj|PyType_Ready|ReleaseUnknownGil|SetupReduce|SetVTable|UnpackUnboundCMethod_impl"
                  r"|ValidateBasesTuple)"
                  r"(?: \(used by \w+\))? \*/\n.*?(?=^/\* \w+(?: \(used by \w+\))? \*/\n|^/\* ####)", re.MULTILINE | re.DOTALL)
# The functions of loop modules that Python calls: they read arguments and call loops. Some modules' loops are slower by it.
CALLED = re.compile(r"^static PyObject \*__pyx_p[wf]_\w+\([^;{}]*\) \{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
LOOPING = re.compile(r"for \(__pyx_t|while \(|#pragma omp")
UNSPARED = {"copy", "qr", "resample", "row_norm", "scatter"}
# The type stubs, where the package can be imported; else exit status 2, or what the processor ends it with.
STUBS = """
import runpy, sys
try:
    import volta.io
except Exception as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(2)
runpy.run_path("docs/make.py", run_name="__main__")
"""
GCC = "#if defined(__GNUC__) && !defined(__clang__)\n#pragma GCC {}\n#endif\n"
DIRECTIVES = {"language_level": 3, "boundscheck": CHECKED, "wraparound": False, "initializedcheck": CHECKED,
              "cdivision": True, "auto_pickle": False,
              "warn.multiple_declarators": False}       # of pointers beside values, but also of any two prototypes on a line


def variants() -> list[str]:
    """The instruction sets that this build makes."""
    platform = sysconfig.get_platform()
    arch_flags = os.environ.get("ARCHFLAGS", "")
    if not platform.endswith(("x86_64", "amd64")) or "arm64" in arch_flags:
        return ["baseline"]
    known = [name for name in VARIANTS if name != "avx512" or not platform.startswith("win")]
    wanted = os.environ.get("VOLTA_VARIANTS")
    names = wanted.split(",") if wanted else known
    if unknown := set(names) - set(known):
        raise SystemExit(f"setup.py: VOLTA_VARIANTS has {sorted(unknown)}, known are {known}")
    return names


def module_sources() -> dict[str, Path]:
    """Name of each extension module within `volta._kernels`, such as `cpu.copy`, and its source, `.pyx` or `.pyx.in`."""
    paths = sorted(p for pattern in ("*/*.pyx", "*/*.pyx.in") for p in KERNELS.glob(pattern))
    return {f"{path.parent.name}.{path.name.split('.')[0]}": path for path in paths}


def is_varied(source: Path) -> bool:
    """Whether a module is compiled once per instruction set."""
    return source.parent == VARIED


def variants_of(source: Path) -> list[str]:
    """The instruction sets for which a module is compiled, of those that this build makes."""
    names = variants() if is_varied(source) else []
    return [name for name in names if name != "avx512" or "avx2" not in names or source.name.split(".")[0] not in AS_AVX2]


def pyx_path(source: Path) -> Path:
    """Where the Cython source of a module is, for a template after its expansion."""
    return source.parent / "generated" / source.name.removesuffix(".in") if source.name.endswith(".in") else source


def c_path(source: Path) -> Path:
    """The C file that Cython writes for a module."""
    return GENERATED / pyx_path(source).with_suffix(".c")


def variant_c_path(source: Path, variant: str) -> Path:
    """The file that includes the common C file, so that each instruction set has an object file of its own."""
    return GENERATED / variant / f"{source.name.split('.')[0]}.c"


def extensions() -> list[Extension]:
    """One extension per module, or per module and variant. The C files appear when `build_ext` runs."""
    result = [Extension(SHARED, [str(GENERATED / KERNELS / "shared.c")])]
    for name, source in module_sources().items():
        common = str(c_path(source))
        if not is_varied(source):
            result.append(Extension(f"volta._kernels.{name}", [common]))
            continue
        for variant in variants_of(source):
            own = str(variant_c_path(source, variant))
            result.append(Extension(f"volta._kernels.cpu.{variant}.{name.split('.')[1]}", [own], depends=[common]))
    return result


def write_if_changed(path: Path, text: str) -> None:
    """Write a file only where its text differs, so that time stamps tell what has to be rebuilt."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def template(path: Path):
    """A Tempita template; others of its folder may be inherited by it, by name."""
    from Cython.Tempita import Template

    return Template(path.read_text(encoding="utf-8"), name=str(path), get_template=lambda name, parent: template(path.with_name(name)))


def spared(text: str, level: str) -> str:
    """Some functions' C at another level of optimisation."""
    return GCC.format(f'push_options\n#pragma GCC optimize ("{level}")') + text + GCC.format("pop_options")


def spare_glue(source: Path) -> None:
    """Write into a module's C what is no loop, for GCC."""
    path = c_path(source)
    text = path.read_text(encoding="utf-8")
    if "#pragma GCC push_options" in text:
        return
    for section, pragma in SECTIONS.items():
        head = f"/* #### Code section: {section} ### */\n"
        pragma += HELPERS if is_varied(source) and section == "utility_code_pragmas" else ""
        text = text.replace(head, head + GCC.format(pragma))
    if is_varied(source):
        code, head, helpers = text.partition("/* #### Code section: utility_code_def ### */\n")
        if source.name.split(".")[0] not in UNSPARED:
            code = CALLED.sub(lambda function: function[0] if LOOPING.search(function[0]) else spared(function[0], "O1"), code)
        text = code + head + RARE.sub(lambda function: spared(function[0], "O0"), helpers)
    path.write_text(text, encoding="utf-8")


def generate_c(parallel: int) -> None:
    """Expand the templates, run Cython, and write for each variant a file that includes the common C file."""
    import Cython.Compiler.ParseTreeTransforms  # noqa: F401  it takes a second, here for all processes
    from Cython.Build import Dependencies, cythonize
    from Cython.Compiler import Options

    Options.emit_code_comments = False          # they are half of the C
    # Cython 3.3 looks for the modules of `from package cimport module` at the beginning of a line, and misses them: what takes a header so
    # would not be translated anew after a change of that. This finds them.
    Dependencies.dependency_after_from_regex = re.compile(r"\s*\(([^()]*)\)|[ \t]+([\w., \t]*)")
    modules = {True: [], False: [Extension(SHARED, [str(KERNELS / "shared.c")])]}
    for name, source in module_sources().items():
        path = pyx_path(source)
        if path != source:
            write_if_changed(path, template(source).substitute())
        modules[is_varied(source)].append(Extension(f"volta._kernels.{name}", [str(path)]))
        for variant in variants_of(source):
            include = Path("..", c_path(source).relative_to(GENERATED)).as_posix()
            write_if_changed(variant_c_path(source, variant), f'#include "{include}"\n')
    # A change of mode, or of how Cython is told to translate, has to translate everything anew.
    stamp, made_by = GENERATED / "made_by", f"{CHECKED} {zlib.crc32(Path(__file__).read_bytes()):08x}"
    anew = not stamp.exists() or stamp.read_text() != made_by
    gc.disable()        # a sixth of the time goes to looking for garbage in syntax trees; without, all of them take 1.5 GB
    # Where processes start by other ways than forking, they would run this file again.
    processes = parallel if multiprocessing.get_start_method() == "fork" else 0
    for varied, some in modules.items():        # without what only introspection of kernels needs, there is a tenth less to compile
        cythonize(some, compiler_directives={**DIRECTIVES, "binding": not varied}, include_path=["."], build_dir=str(GENERATED), quiet=True,
                  force=anew, nthreads=processes, shared_utility_qualified_name=SHARED,
                  shared_utility_features_disabled=["MemoryView"])
    for source in module_sources().values():
        spare_glue(source)
    gc.enable()
    stamp.write_text(made_by)


def write_stubs(root: Path) -> None:
    """Write the type stubs of the package in `root`. Modules that do not run here, as those for another machine, are left without."""
    path = os.pathsep.join([str(root.absolute()), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    reason = f"there is no package in {root}"
    if (root / "volta" / "__init__.py").exists():
        made = subprocess.run([sys.executable, "-P", "-c", STUBS], env=environment, stderr=subprocess.PIPE, text=True)
        if made.returncode == 0:
            return
        if made.returncode == 1:
            raise CompileError(f"docs/make.py:\n{made.stderr}")
        reason = (made.stderr.strip().splitlines() or [f"exit status {made.returncode}"])[-1]
    print(f"volta: no type stubs written, since the package cannot be imported here: {reason}")


class BuildExt(build_ext):
    """Generates the C files, compiles them with the flags of compiler, variant and build mode, and writes the type stubs."""

    def run(self) -> None:
        super().run()
        write_stubs(Path("." if self.inplace else self.build_lib))

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = max(2, os.cpu_count() or 1)

    def get_source_files(self) -> list[str]:
        return [str(path) for path in module_sources().values()]

    def build_extensions(self) -> None:
        generate_c(self.parallel)
        openmp = self.openmp_flags()
        self.of_gcc = self.accepts("int main(void) { return 0; }\n", sorted(OF_GCC), [])
        for extension in self.extensions:
            parts = extension.name.split(".")
            self.set_flags(extension, parts[3] if len(parts) == 5 else None, openmp)
        # The largest files first, so that processors finish together; but for what macros unroll, which takes longer than its size.
        self.extensions.sort(key=lambda e: (not e.name.endswith(UNROLLED), -Path((e.depends or e.sources)[0]).stat().st_size))
        self.missing = {extension.name: extension for extension in self.extensions if not self.take_kept(extension)}
        kinds = Counter(tuple(extension.extra_compile_args) for extension in self.missing.values())
        kinds = [flags for flags, count in kinds.items() if count > 1]
        with ThreadPoolExecutor(self.parallel) as pool:
            headers = dict(zip(kinds, pool.map(self.precompile, kinds)))
        for extension in self.missing.values():
            extension.extra_compile_args += headers.get(tuple(extension.extra_compile_args), [])
        super().build_extensions()

    def places(self, extension: Extension) -> tuple[Path, Path, Path]:
        """Where an extension is built, where it is kept, and the file that says of what it was made."""
        kept = KEPT / self.get_ext_filename(extension.name)
        return Path(self.get_ext_fullpath(extension.name)), kept, kept.with_suffix(".sources")

    def take_kept(self, extension: Extension) -> bool:
        """Take what was compiled before, if it was: pip builds in new temporary folders, with a Cython that seems new."""
        built, kept, stamp = self.places(extension)
        sources = b"".join(Path(path).read_bytes() for path in (*extension.sources, *extension.depends, __file__))
        extension.digest = hashlib.sha256(sources).hexdigest()
        built.parent.mkdir(parents=True, exist_ok=True)
        built.unlink(missing_ok=True)           # setuptools would go by its time
        found = kept.exists() and stamp.exists() and stamp.read_text() == extension.digest
        if found:
            shutil.copyfile(kept, built)
        return found

    def build_extension(self, extension: Extension) -> None:
        if extension.name not in self.missing:
            return
        super().build_extension(extension)
        built, kept, stamp = self.places(extension)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built, kept)
        stamp.write_text(extension.digest)

    def precompile(self, flags: tuple[str, ...]) -> list[str]:
        """Flags by which what is compiled with these takes HEADERS as GCC has read them; none for another compiler."""
        header = GENERATED / "headers" / f"{zlib.crc32(repr(flags).encode()):08x}.h"
        read = header.with_suffix(".h.gch")
        write_if_changed(header, HEADERS + ("#include <immintrin.h>\n" if "-mavx2" in flags else ""))
        read.unlink(missing_ok=True)
        if self.compiler.compiler_type != "unix" or sys.platform == "darwin":
            return []
        places = [f"-I{folder}" for folder in self.compiler.include_dirs]
        command = [*self.compiler.compiler_so, *places, *flags, "-x", "c-header", str(header), "-o", str(read)]
        failed = subprocess.run(command, stderr=subprocess.DEVNULL).returncode
        if not failed and read.read_bytes()[:4] == b"gpch":
            return ["-include", str(header)]
        read.unlink(missing_ok=True)
        return []

    def copy_extensions_to_source(self) -> None:
        for variant in variants():
            known = {name.partition(".")[2] for name, source in module_sources().items() if variant in variants_of(source)}
            (VARIED / variant).mkdir(exist_ok=True)
            for path in (VARIED / variant).iterdir():       # of modules that there are no longer
                if path.is_file() and path.name.split(".")[0] not in known:
                    path.unlink()
        super().copy_extensions_to_source()

    def set_flags(self, extension: Extension, variant: str | None, openmp: tuple[list[str], list[str]]) -> None:
        msvc = self.compiler.compiler_type == "msvc"
        flags = list(MSVC_FLAGS if msvc else UNIX_FLAGS)
        if variant:
            flags += VARIANTS[variant][msvc]
        if not msvc:
            name, old = extension.name.rpartition(".")[2], variant == "baseline" and "avx2" in variants()
            flags += CHECKS if CHECKED else OTHERS if variant is None else OLD if old else LEVELS.get(name, LOOPS)
            flags = [flag for flag in flags if self.of_gcc or flag not in OF_GCC]
        if variant or extension.name == "volta._kernels.core.threads":
            flags += openmp[0]
            extension.extra_link_args = list(openmp[1])
        if not msvc:
            extension.libraries = ["m"]
        if CHECKED:
            extension.define_macros = [("VOLTA_BOUNDSCHECK", "1")]
        extension.extra_compile_args = flags

    def openmp_flags(self) -> tuple[list[str], list[str]]:
        """The switches for OpenMP, of compiler and linker; nothing where these cannot make a program with it. Apple's Clang has the pragmas
        alone, Homebrew the library (`brew install libomp`)."""
        ways = [(["/openmp"], [])] if self.compiler.compiler_type == "msvc" else [(["-fopenmp"], ["-fopenmp"])]
        if sys.platform == "darwin":
            ways += [(["-Xpreprocessor", "-fopenmp", f"-I{place}/include"], [f"-L{place}/lib", "-lomp"]) for place in LIBOMP]
        for way in ways:
            if self.accepts("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n", *way):
                return way
        print("volta: this compiler has no OpenMP; CPU kernels will run on one thread")
        return [], []

    def accepts(self, program: str, compiling: list[str], linking: list[str]) -> bool:
        """Whether compiler and linker make the program with these flags."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text(program)
            try:
                objects = self.compiler.compile([str(source)], output_dir=folder, extra_postargs=compiling)
                self.compiler.link_executable(objects, "probe", output_dir=folder, extra_postargs=linking)
            except (CompileError, LinkError):
                return False
        return True


class BuildPy(build_py):
    """Ships shaders/ as volta/shaders. (Declared as a package it would break editable installs.)"""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, target in self.shader_files():
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        shaders = [] if self.editable_mode else [target for _, target in self.shader_files()]
        return super().get_outputs(include_bytecode) + shaders

    def shader_files(self) -> list[tuple[str, str]]:
        target = Path(self.build_lib, "volta", "shaders")
        return [(str(path), str(target / path.relative_to("shaders"))) for path in sorted(Path("shaders").rglob("*.wgsl"))]


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt, "build_py": BuildPy})
