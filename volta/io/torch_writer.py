"""Writing of PyTorch's zip format: the pickle of tensors, plain values and objects of the program's classes, and the archive with their
storages.

`torch.load(path, weights_only=True)` reads what holds no arrays and no objects. Tensors that share memory share it in the file; the place
that is named is always "cpu", so that any machine reads the file, but for the tensors of objects: these come back to where they were.
"""
from __future__ import annotations

import struct
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from volta._kernels import core
from volta.copying import whole
from volta.errors import ArgumentError, UnwritableError
from volta.io.objects import is_plain, name_of, own_ways
from volta.io.torch_format import STORAGES
from volta.io.unpickler import DEPTH, hashable
from volta.nn.parameter import Parameter
from volta.shapes import Size

_ALIGNMENT = 64                 # of the storages in the file, as torch.save has it; Units: bytes


def prepare(obj: Any) -> Callable[[IO[bytes]], None]:
    """What writes `obj` to a file. Raises: ArgumentError for what the format cannot hold, before anything is written."""
    pickled = _Pickle()
    pickled.parts.append(b"\x80\2")
    pickled.put(obj, "")
    records = [("data.pkl", b"".join([*pickled.parts, b"."])), (".format_version", b"1"), (".storage_alignment", b"%d" % _ALIGNMENT),
               ("byteorder", sys.byteorder.encode()), *((f"data/{key}", data) for data, key, _ in pickled.storages.values()),
               ("version", b"3\n")]

    def fill(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in records:
                _write_record(archive, f"archive/{name}", data)
    return fill


def _write_record(archive, name, data):
    """One record, whose data begin at a multiple of the alignment where PyTorch has that too."""
    info = zipfile.ZipInfo(name)                # its time is that of the epoch: equal contents make equal files
    info.file_size = len(data)
    large = 20 if len(data) * 1.05 > zipfile.ZIP64_LIMIT else 0
    start = archive.fp.tell() + 30 + len(name) + large + 4
    padding = -start % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + bytes(padding)
    with archive.open(info, "w") as record:
        record.write(data)


class _Pickle:
    """The opcodes of protocol 2 for an object, and the storages that they name."""

    def __init__(self):
        self.parts: list[bytes] = []
        self.depth = self.objects = 0       # nested values, and those of them that are objects
        self.storages: dict[Any, tuple[Any, int, Any]] = {}     # (bytes, number, a tensor that keeps the id) by storage and dtype
        self.memo: dict[int, tuple[int, Any]] = {}              # place and object by id

    def put(self, value, path):
        self.depth += 1
        if self.depth > DEPTH:
            raise ArgumentError("save: the object contains itself, or is nested too deeply")
        self._put(value, path)
        self.depth -= 1

    def _put(self, value, path):
        known = self.memo.get(id(value))
        if known is not None:
            self.parts.append(struct.pack("<cI", b"j", known[0]))
            return
        kind = next((kind for kind in type(value).__mro__ if kind in _WRITERS), None)
        if kind is None and isinstance(value, Mapping):
            kind = dict
        if kind is None and name_of(value):
            self.name(name_of(value))
        elif kind is None:
            self.object(value, path)
        else:
            _WRITERS[kind](self, value, path)
            if kind not in _SMALL:          # after its contents, so that what contains itself is found
                self.remember(value)

    def remember(self, value):
        self.memo[id(value)] = len(self.memo), value
        self.parts.append(struct.pack("<cI", b"r", len(self.memo) - 1))

    def object(self, value, path):
        """An object of a class that is found by its name: the class, then the attributes, which may name the object."""
        if not is_plain(type(value)) or not name_of(type(value)):
            hint, own = "", ", ".join(own_ways(type(value)))
            if hasattr(value, "state_dict"):
                hint = f", whose class makes its objects by code of its own ({own}), which no file runs" if own else ""
                hint += f"; save its state_dict(), and load that into a new {type(value).__name__}"
            raise UnwritableError(f"save: {path or 'the object'} is {type(value).__name__}{hint}; needs tensors, arrays, numbers, strings, "
                                "None, dicts, lists, tuples, sets and objects of classes with a name: a file never holds code")
        self.name(name_of(type(value)))
        self.parts.append(b")\x81")
        self.remember(value)
        self.objects += 1
        self.dict(vars(value), path)
        self.objects -= 1
        self.parts.append(b"b")

    def call(self, name, *args, path=""):
        """A constructor and its arguments."""
        self.name(name)
        self.tuple(args, path)
        self.parts.append(b"R")

    def name(self, name):
        self.parts.append(f"c{name}\n".replace(" ", "\n").encode())

    def integer(self, value, path=""):
        value = int(value)
        if -(1 << 31) <= value < 1 << 31:
            self.parts.append(struct.pack("<ci", b"J", value))
            return
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if len(data) > 255:
            raise ArgumentError(f"save: {path} is an integer of {len(data)} bytes; a file has room for 255")
        self.parts.append(b"\x8a" + bytes([len(data)]) + data)

    def text(self, value, path=""):
        data = str(value).encode("utf-8", "surrogatepass")
        self.parts.append(struct.pack("<cI", b"X", len(data)) + data)

    def tuple(self, values, path):
        self.parts.append(b"(")
        for i, entry in enumerate(values):
            self.put(entry, _joined(path, i))
        self.parts.append(b"t")

    def list(self, values, path):
        self.parts.append(b"](")
        for i, entry in enumerate(values):
            self.put(entry, _joined(path, i))
        self.parts.append(b"e")

    def entries(self, values, path):
        self.parts.append(b"(")
        for key, entry in values.items():
            self.check_key(key, path)
            self.put(key, _joined(path, "key"))
            self.put(entry, _joined(path, key))
        self.parts.append(b"u")

    def check_key(self, key, path):
        try:
            hashable(key.item() if isinstance(key, np.generic) else key)
        except ValueError:
            raise ArgumentError(f"save: the keys of {path or 'the object'} must be strings, numbers or tuples of them, got "
                                f"{type(key).__name__}") from None

    def set(self, values, path):
        for entry in values:
            self.check_key(entry, path)
        self.call("__builtin__ set", list(values), path=path)

    def dict(self, values, path):
        self.parts.append(b"}")
        self.entries(values, path)

    def ordered(self, values, path):
        self.call("collections OrderedDict")
        self.entries(values, path)
        if "_metadata" in vars(values):
            self.dict({"_metadata": values._metadata}, path)
            self.parts.append(b"b")

    def tensor(self, value, path):
        """A view of a storage, and what attributes it has."""
        if not value._attributes:
            self.name("torch._utils _rebuild_tensor_v2")
            self.view(value, path)
            self.parts.append(b"R")
            return
        self.name("torch._tensor _rebuild_from_type_v2")
        self.parts.append(b"(")
        self.name("torch._utils _rebuild_tensor_v2")
        self.name("torch Tensor")
        self.view(value, path)
        self.dict(value._attributes, path)
        self.parts.append(b"tR")

    def view(self, value, path):
        """What shows a tensor in its storage, as it lies in memory; what has negative strides is copied."""
        data = core.detached(value)
        if any(stride < 0 for stride in data._strides):
            data = data.clone()
        shape, empty = tuple(data.shape), not data.numel()
        self.parts.append(b"(")
        self.storage(data)
        for part in (0 if empty else data.offset, shape, core.strides_of(shape) if empty else tuple(data._strides), value.requires_grad):
            self.put(part, path)
        self.call("collections OrderedDict")
        self.parts.append(b"t")

    def parameter(self, value, path):
        self.name("torch._utils _rebuild_parameter" + ("_with_state" if value._attributes else ""))
        self.parts.append(b"(")
        self.tensor(core.detached(value), path)
        self.put(value.requires_grad, path)
        self.call("collections OrderedDict")
        if value._attributes:
            self.dict(value._attributes, path)
        self.parts.append(b"tR")

    def storage(self, data):
        """The persistent id of the storage of a tensor, whose bytes are kept for the archive."""
        key = id(data.storage.root or data.storage), data.dtype
        if key not in self.storages:
            self.storages[key] = _host_bytes(data), len(self.storages), data
        content, number, _ = self.storages[key]
        self.parts.append(b"(")
        self.text("storage")
        self.name(f"torch {STORAGES[data.dtype.name]}")
        for entry in (str(number), str(data.device).replace("gpu", "cuda") if self.objects else "cpu"):
            self.text(entry)
        self.integer(len(content) // data.dtype.itemsize)
        self.parts.append(b"tQ")

    def array(self, value, path):
        """An array of numbers, in the order of its dimensions."""
        if value.dtype.kind not in "biuf":
            raise ArgumentError(f"save: {path or 'the array'}: NumPy dtype {value.dtype} holds no real numbers; convert it with astype")
        self.name("numpy._core.multiarray _reconstruct")
        self.parts.append(b"(cnumpy\nndarray\n")
        self.put((0,), path)
        self.put(b"b", path)
        self.parts.append(b"tR(")
        self.put(1, path)
        self.put(value.shape, path)
        self.call("numpy dtype", value.dtype.str[1:], False, True)
        self.put((3, value.dtype.str[0], None, None, None, -1, -1, 0), path)
        self.parts.append(b"b\x89")
        self.put(value.tobytes(), path)
        self.parts.append(b"tb")


def _joined(path, key):
    return f"{path}.{key}" if path else str(key)


def _host_bytes(data):
    """The bytes of a tensor's whole storage in the host's form."""
    if data.device.is_gpu:
        return memoryview(whole(data).cpu().numpy()).cast("B")
    return memoryview(data.storage)[:data.storage.nbytes // data.dtype.itemsize * data.dtype.itemsize]


_SMALL = (type(None), bool, int, float, complex, np.generic, core.DType)
_WRITERS: dict[type, Callable[[_Pickle, Any, str], object]] = {
    type(None): lambda self, value, path: self.parts.append(b"N"),
    bool: lambda self, value, path: self.parts.append(b"\x88" if value else b"\x89"),
    int: _Pickle.integer, str: _Pickle.text, float: lambda self, value, path: self.parts.append(struct.pack(">cd", b"G", value)),
    np.generic: lambda self, value, path: self.put(value.item(), path),
    bytes: lambda self, value, path: self.call("_codecs encode", value.decode("latin1"), "latin1"),
    bytearray: lambda self, value, path: self.call("__builtin__ bytearray", bytes(value)),
    complex: lambda self, value, path: self.call("__builtin__ complex", value.real, value.imag),
    tuple: _Pickle.tuple, list: _Pickle.list, dict: _Pickle.dict, OrderedDict: _Pickle.ordered,
    Counter: lambda self, value, path: self.call("collections Counter", dict(value), path=path),
    set: _Pickle.set,
    Size: lambda self, value, path: self.call("torch Size", tuple(value)),
    core.DType: lambda self, value, path: self.name(f"torch {value.name}"),
    core.Device: lambda self, value, path: self.call(
        "torch device", "cuda" if value.is_gpu and not value.is_meta else value.type, value.index),
    type(core.CPU): lambda self, value, path: self.call("torch device", value.type),
    core.TensorBase: _Pickle.tensor, Parameter: _Pickle.parameter, np.ndarray: _Pickle.array,
}
