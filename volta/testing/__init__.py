"""What tests of models and of new ops need: comparison with a readable report, random tensors, and gradients against finite differences.

Works through the public functions only; knows no kernel and no record.
"""
from volta.testing.comparison import assert_allclose, assert_close
from volta.testing.gradients import GradcheckError, GradientReport, check_gradients, check_gradients_simple, gradcheck, gradgradcheck
from volta.testing.tensors import make_tensor

__all__ = ["GradcheckError", "GradientReport", "assert_allclose", "assert_close", "check_gradients", "check_gradients_simple", "gradcheck",
           "gradgradcheck", "make_tensor"]
