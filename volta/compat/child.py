"""What a process that multiprocessing starts anew imports as its main module, in the place of a PyTorch script: Volta's hook, then the
script."""
import os
import runpy

from volta import compat

if __name__ == "__mp_main__":
    compat.install()
    _kind, _, _name = os.environ[compat.SCRIPT].partition(":")
    globals().update({"module": runpy.run_module, "path": runpy.run_path}[_kind](_name, run_name="__mp_main__"))
