"""Layers, losses, initialisation and the functions behind them, under PyTorch's names."""
from volta.nn import functional, init, utils
from volta.nn.activation import GELU, Dropout, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh
from volta.nn.container import ModuleDict, ModuleList, ParameterList, Sequential
from volta.nn.conv import Conv2d, MaxPool2d
from volta.nn.linear import Flatten, Identity, Linear
from volta.nn.loss import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from volta.nn.module import Module
from volta.nn.norm import BatchNorm1d, BatchNorm2d, LayerNorm
from volta.nn.parameter import Parameter

__all__ = ["BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "Conv2d", "CrossEntropyLoss", "Dropout", "Flatten", "GELU",
           "Identity", "L1Loss", "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax", "MSELoss", "MaxPool2d", "Module", "ModuleDict",
           "ModuleList", "NLLLoss", "Parameter", "ParameterList", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh",
           "functional", "init", "utils"]
