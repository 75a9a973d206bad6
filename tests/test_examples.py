"""The examples, as a user runs them: each with --quick on each device, and what train_digits.py promises about its steps."""
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import volta

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"
SHARED = {"common.py", "datasets.py"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.name not in SHARED)
FIGURES = {         # what the last lines say; all but GPT-2's also end with code 1 where what they train does not get better
    "char_gpt": r"bits a character", "char_lstm": r"bits a character", "dcgan": r"Frechet distance [\d.]+ -> [\d.]+",
    "fine_tune": r"% on the frozen trunk", "gpt2": r"24 tokens in .* tokens/s; without the cache all logits are the same to",
    "own_kernel": r"loss 0\.00\d\d, beta", "regression": r"of 2000 unseen points lie in the band",
    "reinforce": r"200 poles: [\d.]+ steps up",
    "resnet_cifar": r"test accuracy", "super_resolution": r"bicubic interpolation [\d.]+ dB, the network [\d.]+ dB",
    "train_digits": r"test accuracy", "vae": r"held-out digits: at most [\d.]+ nats"}


def run(*arguments, before=(), name="train_digits"):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, before), str(ROOT), *sys.path])}
    environment.pop("GALLIVM_PERF", None)       # a software GPU's shaders run here many times: optimising them pays
    return subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *map(str, arguments)], env=environment, capture_output=True,
                          text=True, timeout=600)


@pytest.mark.parametrize("name", NAMES)
def test_quick(name, device, tmp_path):
    done = run("--quick", "--device", device, "--out", tmp_path / "out", name=name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(FIGURES[name], done.stdout), done.stdout
    assert any((tmp_path / "out").iterdir())


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    done = run("--quick", "--out", tmp_path / "file")
    assert done.returncode == 2 and "--out needs a folder" in done.stderr


def test_every_example_is_in_the_table():
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"[{name}.py]({name}.py)" not in table] == []


def test_a_checkpoint_of_pytorch_is_fine_tuned(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install .[torch]")
    text = (FOLDER / "fine_tune.py").read_text(encoding="utf-8")
    source = text[text.index("class Net"):text.index("def teach")].replace("volta.", "torch.")
    names = {"nn": torch.nn, "torch": torch}
    exec(source, names)             # the class as it lies, on PyTorch's layers
    torch.save(names["Net"]().state_dict(), tmp_path / "trunk.pt")
    done = run("--quick", "--device", "cpu", "--checkpoint", tmp_path / "trunk.pt", "--out", tmp_path, name="fine_tune")
    assert done.returncode == 0 and "18 tensors; new: head.weight, head.bias" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two epochs of train_digits.py on a device: what it prints, the loss of each step, its folder."""
    @functools.cache
    def of(device):
        out = tmp_path_factory.mktemp(device)
        done = run("--device", device, "--epochs", 2, "--out", out, "--losses", out / "losses.txt", "--check-steps")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, np.loadtxt(out / "losses.txt"), out
    return of


def test_it_trains_saves_and_reloads(device, trained):
    text, losses, out = trained(device)
    assert "reloaded, same predictions" in text and len(losses) == 44 and losses[-5:].mean() < 0.5 * losses[0]
    state = volta.load(out / "digits.safetensors")
    assert state["features.0.weight"].shape == (32, 1, 3, 3) and "features.1.num_batches_tracked" in state
    if device == "gpu":
        assert "44 passed without a transfer; from step 5 on 0 new buffers, new bind groups in " in text and text.endswith(": ok\n")
    else:
        assert "nothing to check on the CPU" in text


def test_devices_agree_step_by_step(gpu, trained):
    np.testing.assert_allclose(trained("gpu")[1], trained("cpu")[1], rtol=1e-3)


def test_without_matplotlib_it_goes_on(tmp_path):
    (tmp_path / "block").mkdir()
    (tmp_path / "block" / "matplotlib.py").write_text("raise ImportError('blocked')\n")
    done = run("--device", "cpu", "--epochs", 1, "--out", tmp_path, before=[tmp_path / "block"])
    assert done.returncode == 0, done.stderr
    assert "no picture, since matplotlib is not installed: pip install 'volta[plot]'" in done.stdout


def test_bad_arguments():
    assert "--epochs must be at least 1, got 0" in run("--epochs", 0).stderr


@pytest.mark.parametrize("seed", [0])
def test_accuracy(tmp_path, seed):
    done = run("--device", "cpu", "--seed", seed, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    accuracy = float(done.stdout.split("test accuracy ")[1].split("%")[0])
    assert accuracy >= 98.5


def test_wrong_paths_are_refused_before_training(tmp_path):
    done = run("--device", "cpu", "--epochs", 1, "--out", tmp_path, "--losses", tmp_path / "none" / "x")
    assert done.returncode == 2 and "--losses: there is no folder" in done.stderr and "Traceback" not in done.stderr
