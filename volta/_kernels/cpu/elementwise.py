"""Elementwise kernels by name: those whose loops the modules named here hold."""
from volta._kernels.cpu import (
    elementwise_activation,
    elementwise_arithmetic,
    elementwise_comparison,
    elementwise_higher,
    elementwise_special,
    elementwise_unary,
)
from volta._kernels.cpu.elementwise_driver import KERNELS

__all__ = ["KERNELS", "elementwise_activation", "elementwise_arithmetic", "elementwise_comparison", "elementwise_higher",
           "elementwise_special", "elementwise_unary"]
