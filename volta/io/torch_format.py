"""PyTorch's files, read without PyTorch: the zip format (`torch.save` since 1.6) and the one before, their storages and the names that
they may use.

bfloat16 becomes float32 on a GPU; uint16 becomes int32, uint32 and uint64 int64. Complex, quantised, sparse and float8
tensors are refused.
"""
from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels import core
from volta._kernels.core.record import Op
from volta.device import as_device, named
from volta.dtypes import as_dtype
from volta.errors import StateDictError
from volta.io.elements import NAMES, placed, to_host
from volta.io.unpickler import Constructor, Unpickler, check_values, hashable
from volta.nn.parameter import Parameter
from volta.shapes import Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from volta.io.files import Contents

# What a malformed file makes the readers raise.
MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, EOFError, RuntimeError,
             struct.error, zlib.error, zipfile.BadZipFile)
LEGACY = b"\x80\2\x8a\n"                                  # how files of the format before 1.6 begin
_MAGIC, _PROTOCOL = 0x1950a86a20f9469cfc6c, 1001
_LONGEST = 1 << 26                                      # of a pickle in such a file; Units: bytes
STORAGES = {"float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
            "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage",
            "bool": "BoolStorage"}
_VALUES = (core.TensorBase, np.ndarray, np.generic, str, int, float, complex, bytes, bytearray, type(None), core.DType, core.Device, Size,
           Op, type)


def read(contents: Contents, place: Callable[[str], core.Device], resolve: Callable[[str, str], Any]) -> Any:
    """The object of a file, whose classes `resolve` gives. Raises: StateDictError for what is malformed, foreign, or would need code to
    run."""
    try:
        archive = _Legacy(contents.memory, resolve) if bytes(contents.memory[:len(LEGACY)]) == LEGACY else _Archive(contents.memory)
        storages: dict[str, _Storage] = {}

        def storage(name):
            elements, key, location, count = _named(name)
            if key not in storages:
                storages[key] = _Storage(archive, key, count, _called(place, location), contents.shared)
            return storages[key].of(elements.name)

        unpickler = Unpickler(bytes(archive.record("data.pkl")), _TABLE, BUILDERS, storage, resolve)
        found = unpickler.load()
        check_values(found, _VALUES, unpickler.made)
        return found
    except _Elsewhere as error:
        raise error.args[0] from None
    except StateDictError as error:
        raise type(error)(f"load: {contents.name} {error}") from None
    except MALFORMED as error:
        raise StateDictError(f"load: {contents.name} is no whole file of torch.save: {error}") from None


def _named(name):
    """Elements, key, place and size of a storage."""
    if type(name) is not tuple or [*map(type, name[:5])] != [str, _Kind, str, str, int] or name[0] != "storage" or (
            name[5:] not in ((), (None,))):             # before 1.6: that it is no view of another
        raise ValueError("a storage has an unknown form")
    return name[1:5]


class _Elsewhere(Exception):
    """Carries an error of the user's map_location, which says nothing about the file."""


def _called(place, location):
    try:
        return place(location)
    except Exception as error:
        raise _Elsewhere(error) from None


class _Archive:
    """The records of a zip file, which lie in it uncompressed."""

    def __init__(self, memory):
        self.memory, self.unread = memory, len(memory)
        with zipfile.ZipFile(io.BytesIO(memory) if isinstance(memory, bytes) else memory) as archive:
            self.records = {info.filename: info for info in archive.infolist()}
        roots = [name[:-len("data.pkl")] for name in self.records if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(roots) != 1:
            raise StateDictError(f"is no file of torch.save: it has {len(roots)} records named data.pkl")
        self.root = roots[0]
        if f"{self.root}constants.pkl" in self.records:
            raise StateDictError("is a TorchScript program; save its state_dict() by torch.save")
        order = bytes(self.record("byteorder")) if f"{self.root}byteorder" in self.records else b"little"
        if order not in (b"little", b"big"):
            raise ValueError("its byte order is unknown")
        self.big_endian = order == b"big"

    def record(self, name):
        """The bytes of a record, a view of the file. Raises: ValueError where they were changed."""
        info = self.records.get(self.root + name)
        if info is None:
            raise ValueError(f"it lacks the record {name[:40]!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise StateDictError("has records that are compressed or encrypted, which torch.save never does; zip it without compression")
        header = self.memory[info.header_offset:info.header_offset + 30]
        signature, name_length, extra_length = struct.unpack("<4s22xHH", header)
        start = info.header_offset + 30 + name_length + extra_length
        label = bytes(self.memory[info.header_offset + 30:info.header_offset + 30 + name_length])
        self.unread -= info.file_size           # records do not overlap
        if signature != b"PK\3\4" or label.decode() != info.orig_filename or info.file_size != info.compress_size or self.unread < 0:
            raise ValueError("its directory is damaged")
        data = memoryview(self.memory)[start:start + info.file_size]
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise ValueError(f"its record {name[:40]!r} is damaged or cut short")
        return data


class _Legacy:
    """The format before 1.6: pickles of a number, a version, the system, the object and its storages' names, then the storages.

    Since these lie behind the object that names them, it is read twice: first with zeros in their places, to learn where it ends.
    """
    big_endian = False

    def __init__(self, memory, resolve):
        self.memory, self.resolve, self.position, self.sizes, self.places = memory, resolve, 0, {}, {}
        if (self.pickle(), self.pickle()) != (_MAGIC, _PROTOCOL) or self.pickle().get("little_endian") is not True:
            raise ValueError("its head is unknown")
        begin = self.position
        self.pickle(self.blank)
        self.places["data.pkl"] = slice(begin, self.position)
        for key in self.pickle():
            count, = struct.unpack("<q", self.memory[self.position:self.position + 8])
            size = self.sizes[key, count]
            self.places[f"data/{key}"] = slice(self.position + 8, self.position + 8 + size)
            self.position += 8 + size
        self.sizes = None

    def pickle(self, storage=None):
        """The next pickle."""
        reader = Unpickler(bytes(self.memory[self.position:self.position + _LONGEST]), _TABLE, BUILDERS, storage, self.resolve)
        found = reader.load()
        self.position += reader.position
        return found

    def blank(self, name):
        """A storage whose bytes are not known yet."""
        elements, key, _, count = _named(name)
        size = count * np.dtype({"bfloat16": "uint16"}.get(elements.name, elements.name)).itemsize
        if not 0 <= size <= len(self.memory):
            raise ValueError("a storage is larger than the file")
        self.sizes[key, count] = self.sizes[f"data/{key}"] = size
        return _Storage(self, key, count, as_device("cpu"), False).of(elements.name)

    def record(self, name):
        """The bytes of a record; zeros while they are not known."""
        if self.sizes:
            return bytes(self.sizes[name])
        data = memoryview(self.memory)[self.places[name]]
        if len(data) != self.places[name].stop - self.places[name].start:
            raise ValueError("it is cut short")
        return data


class _Kind:
    """A storage class, or a dtype that Volta lacks: the name of the elements, None for those that are not said."""

    def __init__(self, name):
        self.name = name


class _Storage:
    """Bytes of the archive, a tensor of one dimension as soon as their dtype is known."""

    def __init__(self, archive, key, count, device, shared):
        self.archive, self.key, self.count, self.device, self.shared = archive, key, count, device, shared
        self.name = self.tensor = None

    def of(self, name):
        """The storage, as one of elements of this dtype."""
        if name is not None and self.name not in (None, name):
            raise ValueError("a storage has two dtypes")
        self.name = self.name or name
        return self

    def elements(self):
        if self.tensor is None:
            data = self.archive.record(f"data/{self.key}")
            array = to_host(data, self.name, big_endian=self.archive.big_endian)
            if self.count not in (len(array), len(data)):
                raise ValueError(f"a storage has {len(array)} elements where {self.count} are named")
            self.tensor = placed(array, self.device, shared=self.shared)
        return self.tensor


def _sizes(values):
    """The sizes, strides or offset, checked: integers from 0 on."""
    if not isinstance(values, tuple) or not all(type(n) is int and 0 <= n < 1 << 60 for n in values):
        raise ValueError("a tensor has sizes, strides or an offset that are negative, too large or no integers")
    return tuple(values)


def _tensor(storage, offset, shape, strides, requires_grad=False, hooks=None, metadata=None):
    shape, strides, (offset,) = _sizes(shape), _sizes(strides), _sizes((offset,))
    if not isinstance(storage, _Storage) or len(shape) != len(strides) or type(requires_grad) is not bool:
        raise ValueError("a tensor has an unknown form")
    if hooks or metadata:
        raise StateDictError("has a tensor with hooks, or one that is a conjugate or negative view; save its clone()")
    elements, size = storage.elements(), core.checked_size(shape)
    if not size:
        offset, strides = 0, core.strides_of(shape)
    elif offset + sum((n - 1) * stride for n, stride in zip(shape, strides)) >= elements.numel():
        raise ValueError(f"a tensor of shape {shape} reaches beyond its storage of {elements.numel()} elements")
    return core.view(elements, shape, strides, offset).requires_grad_(requires_grad)


def _tensor_of_bytes(storage, offset, shape, strides, requires_grad, hooks, kind, metadata=None):
    if not isinstance(kind, _Kind):
        raise ValueError("a tensor has no dtype")
    return _tensor(storage.of(kind.name), offset, shape, strides, requires_grad, hooks, metadata)


def _parameter(data, requires_grad, hooks=None):
    if not isinstance(data, core.TensorBase) or type(requires_grad) is not bool or hooks:
        raise ValueError("a parameter has an unknown form")
    return Parameter(data, requires_grad)


def _with_attributes(tensor, attributes):
    if type(attributes) is not dict or not all(type(name) is str for name in attributes):
        raise ValueError("a tensor's attributes have an unknown form")
    tensor.__dict__.update(attributes)
    return tensor


def _typed_tensor(function, kind, args, attributes):
    if not isinstance(function, Constructor) or function.make is not _tensor or kind is not _PLAIN or type(args) is not tuple:
        raise ValueError("a tensor has an unknown form")
    return _with_attributes(_tensor(*args), attributes)


def _bytes(text, encoding):
    if type(text) is not str or type(encoding) is not str or encoding != "latin1":
        raise ValueError("bytes have an unknown form")
    return text.encode("latin1")


def _bytearray(data=b""):
    if type(data) is not bytes:
        raise ValueError("a bytearray has an unknown form")
    return bytearray(data)


def _complex(real, imag):
    if type(real) is not float or type(imag) is not float:
        raise ValueError("a complex number has an unknown form")
    return complex(real, imag)


class _ElementType:
    """numpy.dtype of numbers."""

    def __init__(self, code, *_):
        self.dtype = np.dtype(code if type(code) is str and len(code) < 4 else "O")
        if self.dtype.kind not in "biuf":
            raise ValueError("an array has elements that are no numbers")

    def order(self, version, order, *_):
        self.dtype = self.dtype.newbyteorder({"<": "<", ">": ">", "|": "|"}[order])


def _array(kind, shape, code):
    if kind is not _ARRAY or type(shape) is not tuple or shape != (0,):
        raise ValueError("an array has an unknown form")
    return np.empty(0, np.int8)


def _fill_array(array, version, shape, kind, fortran, data):
    data = data.encode("latin1") if type(data) is str else data         # of Python 2
    known = not array.size and type(data) is bytes and isinstance(kind, _ElementType)
    if not known or len(data) != core.checked_size(_sizes(shape)) * kind.dtype.itemsize:
        raise ValueError("an array has an unknown form")
    array.__setstate__((1, shape, kind.dtype, fortran is True, data))


def _scalar(kind, data):
    if type(data) is not bytes or not isinstance(kind, _ElementType) or len(data) != kind.dtype.itemsize:
        raise ValueError("a number has an unknown form")
    return np.frombuffer(data, kind.dtype)[0]


def _device(*name):
    if not name or type(name[0]) is not str or any(type(index) is not int for index in name[1:]):
        raise ValueError("a device has an unknown form")
    return named(*name)


def _set(items):
    if type(items) is not list:
        raise ValueError("a set has an unknown form")
    return set(map(hashable, items))


def _counter(counts):
    if type(counts) is not dict:
        raise ValueError("a Counter has an unknown form")
    return Counter(counts)


_ARRAY, _PLAIN = object(), object()
BUILDERS = {np.ndarray: _fill_array, _ElementType: _ElementType.order}
ARRAYS = {                      # what arrays of NumPy are made of
    "_codecs.encode": Constructor(_bytes), "numpy.dtype": Constructor(_ElementType), "numpy.ndarray": _ARRAY,
    "numpy._core.multiarray.scalar": Constructor(_scalar), "numpy._core.multiarray._reconstruct": Constructor(_array),
}
_TABLE = {
    **{f"torch.{storage}": _Kind(name) for name, storage in STORAGES.items()},
    **{f"torch.{name}": as_dtype(name) for name in STORAGES},
    **{f"torch.{name}": _Kind(name) for name in NAMES if name not in STORAGES},
    "torch.storage.UntypedStorage": _Kind(None),
    "torch._utils._rebuild_tensor": Constructor(_tensor), "torch._utils._rebuild_tensor_v2": Constructor(_tensor),
    "torch._utils._rebuild_tensor_v3": Constructor(_tensor_of_bytes), "torch._utils._rebuild_parameter": Constructor(_parameter),
    "torch._utils._rebuild_parameter_with_state": Constructor(lambda *args: _with_attributes(_parameter(*args[:-1]), args[-1])),
    "torch._tensor._rebuild_from_type_v2": Constructor(_typed_tensor), "torch.Tensor": _PLAIN,
    "torch.Size": Constructor(lambda sizes: Size(_sizes(sizes))), "torch.device": Constructor(_device),
    "collections.OrderedDict": Constructor(lambda: OrderedDict()), "collections.Counter": Constructor(_counter),
    "builtins.set": Constructor(_set), "builtins.bytes": Constructor(lambda: b""), "builtins.bytearray": Constructor(_bytearray),
    "builtins.complex": Constructor(_complex), **ARRAYS,
}
