"""Elementwise kernels."""
