"""Readers of datasets in the folders that torchvision makes. Files are read from disk, and downloaded only where `download=True` asks."""
from volta.vision.datasets.cifar import CIFAR10, CIFAR100
from volta.vision.datasets.fake import FakeData
from volta.vision.datasets.files import VisionDataset
from volta.vision.datasets.folder import DatasetFolder, ImageFolder
from volta.vision.datasets.mnist import EMNIST, KMNIST, MNIST, QMNIST, FashionMNIST
from volta.vision.datasets.stl import STL10
from volta.vision.datasets.svhn import SVHN

__all__ = ["CIFAR10", "CIFAR100", "DatasetFolder", "EMNIST", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST", "QMNIST",
           "STL10", "SVHN", "VisionDataset"]
