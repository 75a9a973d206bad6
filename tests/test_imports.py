"""The import graph of the package, read from the sources: no cycles, no imports inside functions, no layer that reaches up.

Python files are parsed; of Cython files the import lines are read. What stands under `if TYPE_CHECKING:` does not count, nor does
that importing a module runs the packages above it first.
"""
import ast
import re
import sys
from pathlib import Path

import pytest

import volta

ROOT = Path(volta.__file__).parent

# Layers from the lowest; a module belongs to the longest name that fits. A module knows its own layer and those below.
LAYERS = (
    ("errors", ("volta.errors", "volta.late")),
    ("core", ("volta._kernels.core",)),
    ("types", ("volta.types", "volta.dtypes", "volta.layout", "volta.shapes", "volta.node_names", "volta.random", "volta.random_states",
               "volta.printing", "volta.autograd", "volta.custom", "volta.saved", "volta.storage", "volta.results")),
    ("kernels", ("volta._kernels", "volta.gpu")),
    ("device", ("volta.device",)),
    ("table", ("volta.ops.table", "volta.ops.checks", "volta.ops.old_forms", "volta.ops.operands", "volta.ops.particular",
               "volta.ops.without_out")),
    ("records", ("volta.ops.records",)),
    ("devices", ("volta.devices",)),        # they bind kernels to the records
    ("ops", ("volta.ops",)),
    ("tensor", ("volta.tensor", "volta.copying", "volta.facts", "volta.methods", "volta.subclasses", "volta.typed")),
    ("user", ("volta.amp", "volta.nn", "volta.optim", "volta.data", "volta.io", "volta.func", "volta.utils", "volta.linalg", "volta.cuda",
              "volta.accelerator", "volta.backends", "volta.forward_ad", "volta.batching", "volta.batching_functions",
              "volta.batching_rules", "volta.batching_writes",
              "volta.derivatives",
              "volta.distributed", "volta.distributions", "volta.fx", "volta.hub", "volta.jit",
              "volta.multiprocessing", "volta.onnx", "volta.profiler", "volta.quasirandom", "volta.rearranging", "volta.sharing",
              "volta.signal", "volta.sparse", "volta.special", "volta.trees", "volta.vision")),
    ("package", ("volta",)),
    ("compat", ("volta.compat",)),
    ("testing", ("volta.testing", "volta.selftest", "volta.utils.benchmark", "volta.utils.collect_env", "volta.own_kernel",
                 "volta.__main__")),
)

OPTIONAL = {"PIL", "wgpu", "matplotlib", "onnx", "onnxruntime", "tqdm"}
# (importing module, imported module or package): why it waits until a function is called.
LATE = {
    ("volta.devices", "volta.devices.gpu.kernels"): "of use with the optional wgpu only, and a fifth of the time of `import volta`",
    ("volta.gpu", "volta.gpu.runtime"): "of use with the optional wgpu only, and a tenth of the time of `import volta`",
    ("volta.gpu", "volta.gpu.adapters"): "the same",
    ("volta.gpu", "volta._kernels.gpu"): "the same",
}


def _may_be_late(source: str, target: str) -> bool:
    return any(source == above and _is_in(target, below) for above, below in LATE)


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


class Import:
    """One import statement: the module that has it, the one that it names, its line, and whether it is inside a function."""

    def __init__(self, source: str, target: str, line: int, late: bool, path: Path) -> None:
        self.source, self.target, self.line, self.late, self.path = source, target, line, late, path

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT.parent)}:{self.line} imports {self.target}"


def _module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT.parent).parts)
    parts[-1] = parts[-1].split(".")[0]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _sources() -> list[Path]:
    """Python and Cython files; not what the build generates."""
    return sorted(p for p in ROOT.rglob("*") if p.name.endswith((".py", ".pyx", ".pyx.in", ".pxd", ".pxi"))
                  and "generated" not in p.parts)


MODULES = {_module_name(path) for path in _sources() if path.suffix != ".pxi"}


def _python_imports(path: Path) -> list[Import]:
    source, found = _module_name(path), []

    def add(name, node, late):
        found.append(Import(source, name, node.lineno, late, path))

    def visit(node, late):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                visit(child, late)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                add(alias.name, node, late)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; the package uses full names"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                add(inner if inner in MODULES else node.module, node, late)
        inside = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


_CYTHON = re.compile(r"^([ \t]*)(?:from[ \t]+([\w.]+)[ \t]+(c?import)[ \t]+(.*)|import[ \t]+([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*).*)$",
                     re.MULTILINE)


def _cython_imports(path: Path) -> list[Import]:
    """Import lines of a Cython file. `cimport`s count like imports; an indented line is inside a function."""
    text = re.sub(r'"""(?:.|\n)*?"""', lambda m: "\n" * m.group().count("\n"), path.read_text(encoding="utf-8"))
    source, found = _module_name(path), []
    for match in _CYTHON.finditer(text):
        indent, module, kind, names, plain = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if plain:
            targets = re.split(r"[ \t]*,[ \t]*", plain)
        else:
            names = text[match.start(4):].split(")")[0] if names.strip().startswith("(") else names.split("#")[0]
            inner = [f"{module}.{name.split(' as ')[0].strip()}" for name in re.split(r"[,\n]", names.strip("() "))]
            targets = [name if name in MODULES else module for name in inner]
        # C declarations of a type that another module has already: only imports run code, cimports order the building of C.
        found += [Import(source, target, line, bool(indent) and kind != "cimport", path) for target in dict.fromkeys(targets)]
    return found


def test_the_reader_sees_every_form(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    python, cython = tmp_path / "a.py", tmp_path / "b.pyx"
    python.write_text("import os, volta.io\nfrom volta import nn\nif TYPE_CHECKING:\n    import re\nelse:\n    import json\n"
                      "def f():\n    from volta._kernels.core import graph, view\nclass A:\n    import abc\n")
    cython.write_text('"""\nfrom not import this\n"""\nimport os, sys\nfrom volta._kernels.core cimport graph\n'
                      "from volta.errors import (\n    A,\n    B)\ncdef f():\n    from volta import io as x, nn\n")
    assert [(i.target, i.line, i.late) for i in _python_imports(python)] == [
        ("os", 1, False), ("volta.io", 1, False), ("volta.nn", 2, False), ("json", 6, False), ("volta._kernels.core.graph", 8, True),
        ("volta._kernels.core", 8, True), ("abc", 10, False)]
    assert [(i.target, i.line, i.late) for i in _cython_imports(cython)] == [
        ("os", 4, False), ("sys", 4, False), ("volta._kernels.core.graph", 5, False), ("volta.errors", 6, False),
        ("volta.io", 10, True), ("volta.nn", 10, True)]


def test_the_search_finds_each_cycle_once():
    def edges(*pairs):
        table = {}
        for a, b in pairs:
            table.setdefault(a, {})[b] = Import(a, b, 1, False, ROOT)
        return table
    assert _cycles(edges("ab", "bc", "ac", "da")) == []
    found = _cycles(edges("ab", "bc", "ca", "cd", "de", "ed", "bx"))
    assert [[i.source for i in cycle] for cycle in found] == [["d", "e"], ["a", "b", "c"]]


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    found = [i for path in _sources() for i in (_python_imports if path.suffix == ".py" else _cython_imports)(path)]
    assert len(found) > 300 and any(i.path.suffix == ".pyx" for i in found)
    return found


def _within(imports):
    return [i for i in imports if i.target.split(".")[0] == "volta" and i.target != i.source]


def _cycles(edges: dict[str, dict[str, Import]]) -> list[list[Import]]:
    """One shortest cycle through each module that is on any; each cycle once."""
    found = {}
    for start in edges:
        paths, queue = {start: []}, [start]
        for module in queue:
            for target, statement in edges.get(module, {}).items():
                if target == start:
                    cycle = [*paths[module], statement]
                    found.setdefault(frozenset(i.source for i in cycle), cycle)
                    queue = []
                    break
                if target not in paths:
                    paths[target] = [*paths[module], statement]
                    queue.append(target)
            else:
                continue
            break
    return sorted(found.values(), key=len)


def test_no_cycles(imports):
    """Imports inside functions count too: they only hide a cycle."""
    edges: dict[str, dict[str, Import]] = {}
    for i in _within(imports):
        if not (i.late and _may_be_late(i.source, i.target)):
            edges.setdefault(i.source, {}).setdefault(i.target, i)
    cycles = _cycles(edges)
    assert not cycles, f"{len(cycles)} cycles:\n\n" + "\n\n".join("\n".join(f"  {i}" for i in cycle) for cycle in cycles[:10])


def test_no_imports_inside_functions(imports):
    late = [i for i in imports if i.late and i.target.split(".")[0] not in OPTIONAL and not _may_be_late(i.source, i.target)]
    assert not late, f"{len(late)} imports inside functions; move them to the top of the file:\n" + "\n".join(f"  {i}" for i in late)


def test_the_table_of_late_imports_is_true(imports):
    unused = [pair for pair in LATE if not any(i.late and i.source == pair[0] and _is_in(i.target, pair[1]) for i in imports)]
    assert not unused, f"LATE names imports that are not there: {unused}"


def test_only_c_switches_the_grad_mode():
    """Between a call of set_grad_mode and the `try` after it an interrupt can come: Python code uses `with no_grad():`."""
    found = [f"{path.relative_to(ROOT.parent)}:{number}" for path in _sources() if path.suffix == ".py"
             for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if "set_grad_mode" in line]
    assert not found, f"write `with no_grad():` instead of set_grad_mode in {found}"


def _layer(module: str) -> int:
    """The layer with the longest name that fits."""
    fits = [(len(name), number) for number, (_, names) in enumerate(LAYERS) for name in names
            if _is_in(module, name)]
    return max(fits)[1]


def test_kernels_take_only_what_both_gcc_and_clang_have():
    """Apple's compiler is Clang."""
    both = {"expect", "constant_p", "unreachable", "shufflevector", "fma", "fmaf", "prefetch", "ctzll", "popcount",
            "cpu_is", "cpu_supports"}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "_kernels").glob("*/*") if path.suffix in (".pxd", ".pyx", ".in")]
    found = {name for text in texts for name in re.findall(r"\b__builtin_(\w+)", text)}
    assert both >= found > {"shufflevector"}


def test_no_layer_reaches_up(imports):
    wrong = [f"  {LAYERS[_layer(i.source)][0]} reaches up to {LAYERS[_layer(i.target)][0]}: {i}" for i in _within(imports)
             if _layer(i.target) > _layer(i.source) and not (i.late and _may_be_late(i.source, i.target))]
    assert not wrong, f"{len(wrong)} imports of a higher layer:\n" + "\n".join(wrong)


def test_every_module_has_a_layer_of_its_own():
    """A new file directly under volta/ must be entered above, not fall into "package"."""
    strays = [m for m in MODULES if m != "volta" and LAYERS[_layer(m)][0] == "package"]
    assert not strays, f"enter these in LAYERS: {strays}"


@pytest.mark.parametrize("name", ["volta", "volta.autograd", "volta.data", "volta.device", "volta.dtypes", "volta.gpu", "volta.io",
                                  "volta.linalg", "volta.nn", "volta.nn.functional", "volta.nn.init", "volta.nn.utils", "volta.optim",
                                  "volta.optim.lr_scheduler", "volta.random", "volta.special", "volta.testing"])
def test_modules_that_users_complete_on_list_their_names(name):
    """`__all__` holds every public name that a module defines, and none that is missing."""
    __import__(name)
    module = sys.modules[name]
    listed = getattr(module, "__all__", None)
    assert listed is not None, f"{name} has no __all__"
    assert len(set(listed)) == len(listed) and not [n for n in listed if not hasattr(module, n)]
    defined = {n for n, value in vars(module).items() if not n.startswith("_") and getattr(value, "__module__", None) == name
               and (isinstance(value, type) or callable(value))}
    internal = {"volta.autograd": {"F", "check_hook", "checked_hook"}, "volta.nn.functional": {"reduction_of"},
                "volta.nn.init": {"default_", "fans", "number"}, "volta.random": {"bits", "block", "configure", "unit"},
                "volta.device": {"beyond_gpu", "configure"}}
    missing = defined - set(listed) - internal.get(name, set())
    assert not missing, f"{name}.__all__ lacks {sorted(missing)}"
