"""PyTorch's module names below `volta`, for scripts in which "torch" was replaced by it."""
import importlib
import subprocess
import sys

import pytest

import volta


@pytest.mark.parametrize("module, name, same", [
    ("volta.autograd.function", "Function", volta.autograd.Function), ("volta.distributions.normal", "Normal", volta.distributions.Normal),
    ("volta.distributions.kl", "kl_divergence", volta.distributions.kl_divergence), ("volta.optim.adam", "Adam", volta.optim.Adam),
    ("volta.optim.adam", "adam", None),
    ("volta.optim.optimizer", "Optimizer", volta.optim.Optimizer), ("volta.nn.modules", "Linear", volta.nn.Linear),
    ("volta.nn.modules.module", "Module", volta.nn.Module), ("volta.nn.modules.utils", "_pair", None),
    ("volta.nn.utils.clip_grad", "clip_grad_norm_", volta.nn.utils.clip_grad_norm_), ("volta.autograd.functional", "jacobian", None),
    ("volta.utils.data.dataloader", "default_collate", None), ("volta.utils.data.sampler", "Sampler", volta.data.Sampler),
    ("volta.functional", "einsum", volta.einsum), ("volta.library", "custom_op", None), ("volta.overrides", "has_torch_function", None),
    ("volta.autograd.forward_ad", "dual_level", None), ("volta.autograd.graph", "saved_tensors_hooks", None),
    ("volta.utils.data.dataset", "Subset", None), ("volta.utils.data.distributed", "DistributedSampler", None),
    ("volta.serialization", "add_safe_globals", None), ("volta.utils.hooks", "RemovableHandle", None)])
def test_deep_modules_give_the_names_of_those_that_are_here(module, name, same):
    found = getattr(importlib.import_module(module), name)
    assert found is not None and (same is None or found is same)
    package, _, last = module.rpartition(".")
    assert getattr(importlib.import_module(package), last) is importlib.import_module(module)


def test_deep_modules_need_no_import():
    """As after `import torch` alone."""
    names = ("nn.modules.batchnorm._BatchNorm", "nn.modules.utils._pair", "utils.data.dataloader.default_collate",
             "utils.data.distributed.DistributedSampler", "distributions.normal.Normal", "optim.adam.Adam", "functional.einsum",
             "nn.utils.clip_grad.clip_grad_norm_",
             "autograd.grad_mode.no_grad", "utils.dlpack.to_dlpack", "utils.hooks.RemovableHandle", "amp.grad_scaler.GradScaler")
    asked = "".join(f"print(callable(volta.{name}))\n" for name in names)
    asked += "print([hasattr(p, 'bogus') for p in (volta, volta.nn, volta.nn.modules, volta.autograd, volta.utils.data) for _ in 'ab'])\n"
    done = subprocess.run([sys.executable, "-c", f"import volta\n{asked}"], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n") == ["True"] * len(names) + [str([False] * 10), ""], done.stderr


@pytest.mark.parametrize("module", ["volta.bogus", "volta.nn.bogus", "volta.optim.bogus", "volta.distributions.bogus", "volta.fft",
                                    "volta.utils.data.bogus", "volta.autograd.bogus", "volta.nn.modules.bogus"])
def test_what_pytorch_has_not_is_not_found(module):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(module)


def test_functions_keep_their_names():
    """PyTorch has modules of these names too; what is called by them stays."""
    for module, name in (("volta.autograd.gradcheck", "gradcheck"), ("volta.nn.utils.weight_norm", "weight_norm")):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            pass
        assert callable(getattr(importlib.import_module(module.rpartition(".")[0]), name))
    with pytest.raises(ImportError):
        from volta.optim.adam import Bogus  # noqa: F401
