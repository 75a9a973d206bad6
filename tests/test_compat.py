"""`python -m volta run` and `volta.compat`: scripts written for PyTorch, each in a process of its own."""
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"


def run(*arguments, gpu=False, **environment):
    """Run Python with these arguments; without a GPU unless one is wanted."""
    environment = {**os.environ, **environment}
    if not gpu:
        environment.update(VOLTA_ADAPTER="no such adapter", VOLTA_REQUIRE_GPU="0")
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300)


def run_script(text, tmp_path, *arguments, **options):
    path = tmp_path / "script.py"
    path.write_text(text, encoding="utf-8")
    return run("-m", "volta", "run", str(path), *arguments, **options)


@pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.glob("*.py")))
def test_scripts_run_as_they_lie(script, device):
    done = run("-m", "volta", "run", str(SCRIPTS / script), gpu=device == "gpu")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "done", done.stdout + done.stderr


def test_arguments_and_exit_status_are_the_scripts(tmp_path):
    done = run_script("import sys, torch\nprint(sys.argv[1:], __name__, sys.path[0])\nsys.exit(3)", tmp_path, "--epochs", "2", "-m")
    assert done.returncode == 3 and done.stdout.strip() == f"['--epochs', '2', '-m'] __main__ {tmp_path}"


def test_a_module_runs(tmp_path):
    (tmp_path / "program.py").write_text("import sys, torch\nprint(torch.ones(2).sum().item(), sys.argv[1:])")
    done = subprocess.run([sys.executable, "-m", "volta", "run", "-m", "program", "-q", "a"], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])})
    assert done.stdout.strip() == "2.0 ['-q', 'a']", done.stderr


@pytest.mark.parametrize("line, named", [
    ("torch.fft.fft(torch.ones(2))", "torch.fft"), ("torch.fft.bogus", "torch.fft"), ("import torch.nested", "torch.nested"),
    ("from torch.optim import Bogus", "'Bogus' from 'torch.optim'"), ("torch.gpu", "torch.gpu"),
    ("torch.optim.Bogus", "torch.optim.Bogus"), ("import torchvision as t; t.transforms.Bogus", "torchvision.transforms.Bogus"),
    ("from torch.nn import Bogus", "'Bogus' from 'torch.nn'"), ("torch.nn.Bogus", "torch.nn.Bogus"),
    ("torch.nn.functional.bogus", "torch.nn.functional.bogus"), ("import torchvision.bogus", "torchvision"),
    ("torch.backends.cudnn.bogus", "torch.backends.cudnn.bogus")])
def test_missing_names_are_named(tmp_path, line, named):
    done = run_script(f"import torch\n{line}", tmp_path)
    assert done.returncode == 1 and named in done.stderr and "docs/coverage.md" in done.stderr


def test_a_probe_for_a_missing_name_finds_none(tmp_path):
    done = run_script("import torch\nprint(hasattr(torch, 'bogus'), getattr(torch.nn, 'Bogus', None))\n"
                      "try:\n    import torch.nested\nexcept ImportError:\n    print('none')", tmp_path)
    assert done.stdout.split() == ["False", "None", "none"], done.stderr


def test_names_that_dir_gives_can_be_taken(tmp_path):
    done = run_script("import inspect\nimport torch\nfrom torch.nn.utils import rnn\n"
                      "for module in (torch, torch.nn.functional, torch.distributions, torch.optim.lr_scheduler, rnn):\n"
                      "    inspect.getmembers(module)\n"
                      "print(hasattr(rnn, 'core'), 'core' in dir(rnn), torch.functional.einsum is torch.einsum)", tmp_path)
    assert done.stdout.split() == ["False", "False", "True"], done.stderr


def test_gradcheck_is_a_function_and_a_module(tmp_path):
    done = run_script("""
import torch
from torch.autograd import gradcheck, gradgradcheck
x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
class Wrong(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x * 2)
    backward = staticmethod(lambda ctx, g: g)
print(gradcheck(torch.exp, x, eps=1e-6, atol=1e-4), gradgradcheck(torch.sin, (x,)), gradcheck(Wrong.apply, x, raise_exception=False))
import torch.autograd.gradcheck as module
from torch.autograd.gradcheck import GradcheckError
try:
    torch.autograd.gradcheck(Wrong.apply, x)
except RuntimeError as error:
    print(type(error) is GradcheckError)
try:
    torch.autograd.gradcheck(torch.exp, x, check_forward_ad=True)
except ValueError as error:
    print("check_forward_ad" in str(error))
""", tmp_path)
    assert done.stdout.split() == ["True", "True", "False", "True", "True"], done.stderr


def test_beside_the_real_package_it_stops(tmp_path):
    (tmp_path / "torch.py").write_text("")
    done = run("-c", "import torch, volta.compat\nvolta.compat.install()", PYTHONPATH=os.pathsep.join([str(tmp_path), os.getcwd()]))
    assert done.returncode == 1 and "torch is imported already" in done.stderr and str(tmp_path) in done.stderr


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_that_are_processes_have_the_hook(tmp_path, method):
    done = run_script("""
import torch, sys
class Ones(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        assert "Volta" in torch.__file__
        return torch.ones(2) * i
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Ones(), 2, num_workers=2, multiprocessing_context=sys.argv[1])
    print([batch[:, 0].tolist() for batch in loader])
""", tmp_path, method)
    assert done.stdout == "[[0.0, 1.0], [2.0, 3.0]]\n", done.stderr


def test_install_and_uninstall():
    done = run("-c", "import sys, volta.compat as c\nc.install()\nc.install()\nimport torch, volta\nassert torch.Tensor is volta.Tensor\n"
               "assert torch.nn is not volta.nn and torch.nn.Linear is volta.nn.Linear\nc.uninstall()\nassert 'torch' not in sys.modules\n"
               "assert not any(type(f).__name__ == 'Finder' and 'volta' in type(f).__module__ for f in sys.meta_path)\nprint('done')")
    assert done.stdout.strip() == "done", done.stderr


def test_bad_commands_say_what_is_needed(tmp_path):
    assert "which script" in run("-m", "volta", "run").stderr
    done = run("-m", "volta", "run", str(tmp_path / "none.py"))
    assert done.returncode == 2 and "there is no file" in done.stderr
    done = run("-m", "volta", "train")
    assert done.returncode == 2 and done.stderr.splitlines() == [
        "usage: python -m volta {info,run,selftest} [--help]", "python -m volta: error: there is no command 'train'"]
    assert run("-m", "volta").returncode == 2


def test_help_says_what_each_command_does():
    done = run("-m", "volta", "--help")
    assert done.returncode == 0 and not done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == ["info", "run", "selftest"]
    assert "CPU kernels: " in run("-m", "volta", "info").stdout


def test_volta_under_the_name_of_torch_carries_far(tmp_path):
    text = "import volta as torch\nfrom volta.utils.data import DataLoader\n" + (
        "x = torch.FloatTensor([1, 2])\nassert torch.backends.cudnn.enabled and isinstance(x.device, torch.device)\n"
        "print(torch.cuda.is_available(), torch.inf, x.type())")
    path = tmp_path / "script.py"
    path.write_text(text)
    done = run(str(path), PYTHONPATH=os.getcwd())
    assert done.stdout.split() == ["False", "inf", "torch.FloatTensor"], done.stderr
