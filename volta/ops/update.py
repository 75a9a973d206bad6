"""Optimizer steps: one fused kernel over a parameter and its state."""
from __future__ import annotations

from volta.ops.families import register

sgd = register("sgd", ("param", "grad", "momentum_buffer"), family="update")
adam = register("adam", ("param", "grad", "exp_avg", "exp_avg_sq"), family="update")
