"""The loader of `volta.data`, where PyTorch has it."""
from volta.data import DataLoader, default_collate, default_convert, get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
