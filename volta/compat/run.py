"""`python -m volta run train.py`: a PyTorch script on Volta, unchanged."""
from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

from volta import compat
from volta.compat.modules import ROOTS, WHERE
from volta.errors import VoltaError


def main(arguments: Sequence[str]) -> int:
    """Run a script, or with -m a module, whose `import torch` gives Volta. Gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m volta run", description=main.__doc__,
                                     usage="python -m volta run [-h] (SCRIPT | -m MODULE) [ARGUMENT ...]")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help="the script; what follows are its arguments")
    own = 2 if arguments[:1] == ["-m"] else 1
    options, rest = parser.parse_args(arguments[:own]), arguments[own:]
    if not options.module and not options.script:
        parser.error("which script? give its path, or -m MODULE")
    try:
        compat.install()
    except VoltaError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        if options.module:
            sys.argv = [options.module, *rest]
            sys.path[0] = os.getcwd()
            runpy.run_module(options.module, run_name="__main__", alter_sys=True)
        else:
            script = options.script
            if not os.path.exists(script):
                parser.error(f"there is no file {script!r}")
            sys.argv = [script, *rest]
            sys.path[0] = os.path.dirname(os.path.abspath(script))
            runpy.run_path(script, run_name="__main__")
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ROOTS:
            error.add_note(f"`torch` is Volta here; {WHERE}")
        raise
    return 0
