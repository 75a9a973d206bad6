"""Modules of PyTorch that packages import, without names but those of `refused.py`."""
