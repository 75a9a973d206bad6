"""Files are short, and so are the lines of Cython and WGSL, which the linter does not read (it looks at Python's)."""
from pathlib import Path

import volta

ROOT = Path(volta.__file__).parent
SHADERS = next(folder for folder in (ROOT / "shaders", ROOT.parent / "shaders") if folder.is_dir())
LINES, COLUMNS = 500, 140


def _texts(*patterns, folders=(ROOT, Path(__file__).parent)):
    """(file, its lines) of all sources of the package and the tests."""
    found = [path for folder in folders for pattern in patterns for path in folder.rglob(pattern)]
    assert found
    return [(path, path.read_text(encoding="utf-8").split("\n")) for path in sorted(found) if path.parent.name != "generated"]


def test_files_are_short():
    texts = _texts("*.py", "*.pyx", "*.pxd", "*.pyx.in") + _texts("*.wgsl", folders=(SHADERS,))
    long = [f"{path}: {len(lines) - 1} lines" for path, lines in texts if len(lines) - 1 > LINES]
    assert not long, f"more than {LINES} lines, move a part that belongs together to a file of its own:\n" + "\n".join(long)


def _check_columns(texts):
    long = [f"{path}:{number}: {len(line)} characters" for path, lines in texts
            for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
    assert not long, f"more than {COLUMNS} characters in a line:\n" + "\n".join(long)


def test_lines_of_cython_are_short():
    _check_columns(_texts("*.pyx", "*.pxd", "*.pyx.in"))


def test_lines_of_shaders_are_short():
    _check_columns((path, lines) for path, lines in _texts("*.wgsl", folders=(SHADERS,))
                   if path.name != "functions.wgsl")                    # of one line each, whatever they compute
