"""Optimizers and learning-rate schedules, under PyTorch's names."""
from volta.late import modules_of as _modules_of
from volta.optim import algorithms, lbfgs, lr_scheduler, matrices, rows, swa_utils
from volta.optim.algorithms import *  # noqa: F403 (as its __all__ says)
from volta.optim.hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook  # noqa: F401 (of torch.optim.optimizer)
from volta.optim.lbfgs import *  # noqa: F403 (as its __all__ says)
from volta.optim.matrices import *  # noqa: F403 (as its __all__ says)
from volta.optim.optimizer import Optimizer
from volta.optim.rows import *  # noqa: F403 (as its __all__ says)

__all__ = ["Optimizer", "lr_scheduler", "swa_utils"]
__all__ += algorithms.__all__
__all__ += lbfgs.__all__
__all__ += matrices.__all__
__all__ += rows.__all__

__getattr__ = _modules_of(__name__)
