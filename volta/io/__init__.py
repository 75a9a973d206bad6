"""State on disk: PyTorch's zip format and safetensors, written atomically. Nothing that a file says is ever run."""
from volta.io.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from volta.io.mapper import Mapped, MapReport, StateDictMapper
from volta.io.serialization import load, save

__all__ = ["Checkpoint", "MapReport", "Mapped", "StateDictMapper", "load", "load_checkpoint", "save", "save_checkpoint"]
