"""Datasets and the loader that makes batches of them."""
from volta.data.dataset import Dataset, Subset, TensorDataset
from volta.data.loader import DataLoader, collate

__all__ = ["DataLoader", "Dataset", "Subset", "TensorDataset", "collate"]
