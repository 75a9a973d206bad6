"""The example, as a user runs it: one epoch on each device, and on a GPU the promise about its steps."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import volta

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "train_digits.py"


def run(*arguments, before=()):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, before), str(ROOT), *sys.path])}
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], env=environment, capture_output=True, text=True,
                          timeout=600)


def train(device, out, *more):
    done = run("--device", device, "--epochs", 2, "--out", out, "--losses", out / "losses.txt", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, np.loadtxt(out / "losses.txt")


def test_it_trains_saves_and_reloads(device, tmp_path):
    text, losses = train(device, tmp_path, "--check-steps")
    assert "reloaded, same predictions" in text and len(losses) == 44 and losses[-5:].mean() < 0.5 * losses[0]
    state = volta.load(tmp_path / "digits.safetensors")
    assert state["features.0.weight"].shape == (32, 1, 3, 3) and "features.1.num_batches_tracked" in state
    if device == "gpu":
        assert "44 passed without a transfer; from step 4 on 0 new buffers, 0 new bind groups" in text and text.endswith(": ok\n")
    else:
        assert "nothing to check on the CPU" in text


def test_devices_agree_step_by_step(gpu, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _, on_cpu = train("cpu", tmp_path / "a")
    _, on_gpu = train("gpu", tmp_path / "b")
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-3)


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
    (tmp_path / "file").touch()
    for arguments, text in ((("--out", tmp_path / "file"), "--out needs a folder"),
                            (("--out", tmp_path, "--losses", tmp_path / "none" / "x"), "--losses: there is no folder")):
        done = run("--device", "cpu", "--epochs", 1, *arguments)
        assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr
