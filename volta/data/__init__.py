"""Datasets, samplers, and the loader that makes batches, under the names of torch.utils.data."""
from volta.data.collate import default_collate, default_convert
from volta.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from volta.data.files import download
from volta.data.loader import DataLoader
from volta.data.progress import progress
from volta.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from volta.data.tables import CSVDataset, CSVStream
from volta.data.text import Alphabet, CharacterDataset
from volta.data.workers import WorkerInfo, get_worker_info

__all__ = ["Alphabet", "BatchSampler", "CSVDataset", "CSVStream", "ChainDataset", "CharacterDataset", "ConcatDataset", "DataLoader",
           "Dataset", "DistributedSampler", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
           "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "default_collate", "default_convert", "download",
           "get_worker_info", "progress", "random_split"]
