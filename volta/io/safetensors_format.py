"""safetensors files: flat dicts of tensors as other frameworks write them, and nested ones with their structure in the metadata.

Nested dicts and lists (an optimizer's state, a whole checkpoint) are kept too: their structure and plain values go as JSON into the
file's metadata, each tensor under the path of its keys, and a checksum of the whole file. Nothing in a file is ever executed. bfloat16
becomes float32 on a GPU, unsigned integers of 16 bits and more widen.
"""
from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save as _save

from volta._kernels import core
from volta.errors import ArgumentError, StateDictError
from volta.io.elements import BRAIN, placed, to_array, to_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from volta.io.files import Contents

__all__ = ["prepare", "read"]

_PLAIN = (str, int, float, bool, type(None))
_CHECKSUM, _NONE = "volta.crc32", "0" * 8           # over the file with this in its place
_TENSOR, _PAIRS, _TUPLE = "$tensor", "$pairs", "$tuple"
_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
          "I8": "int8", "U8": "uint8", "BOOL": "bool", "U16": "uint16", "U32": "uint32", "U64": "uint64"}


def prepare(obj: Mapping[Any, Any], metadata: Mapping[str, str] | None = None) -> Callable[[IO[bytes]], object]:
    """What writes `obj` to a file, with further metadata. Raises: ArgumentError, before anything is written, for what it cannot hold."""
    if not isinstance(obj, Mapping):
        raise ArgumentError(f"save: a safetensors file needs a dict (such as model.state_dict()), got {type(obj).__name__}")
    tensors: dict[str, np.ndarray] = {}
    structure = _describe(obj, "", tensors)
    flat = len(tensors) == len(obj) and all(structure.get(key) == {_TENSOR: key} for key in obj)
    metadata = {**(metadata or {}), **({"format": "pt"} if flat else {"volta.structure": json.dumps(structure)})}
    if "__metadata__" in tensors:
        raise ArgumentError("save: '__metadata__' is a reserved name in safetensors files; rename the key")
    try:
        brains = [name for name, array in tensors.items() if array.dtype == BRAIN]
        words = tensors | {name: tensors[name].view("<u2") for name in brains}
        data = memoryview(_with_brains(_save(words, {**metadata, _CHECKSUM: _NONE}), brains))
    except (SafetensorError, UnicodeError) as error:
        raise ArgumentError(f"save: safetensors cannot hold this: {error}") from None
    end = 8 + int.from_bytes(data[:8], "little")
    head = _with_checksum(bytes(data[:end]), _NONE, f"{zlib.crc32(data):08x}")
    return lambda file: (file.write(head), file.write(data[end:]))


def _with_brains(data, names):
    """The file with these tensors, whose words are those of bfloat16, named as that."""
    if not names:
        return data
    header, rest = _header(memoryview(data), check=False)
    for name in names:
        header[name]["dtype"] = "BF16"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, rest))


def read(contents: Contents, place: Callable[[str], core.Device]) -> dict[str, Any]:
    """The dict of a file. Raises: StateDictError for what is damaged, cut short, or not written by Volta."""
    try:
        header, data = _header(memoryview(contents.memory), check=not contents.shared)
        metadata = header.pop("__metadata__", None) or {}
        arrays = _arrays(header, data)
        structure = json.loads(metadata["volta.structure"]) if "volta.structure" in metadata else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise StateDictError(f"load: {contents.name} is no whole safetensors file, or has a dtype that Volta lacks: {error}") from None
    try:
        tensors = {name: placed(array, place("cpu"), shared=contents.shared) for name, array in arrays.items()}
    except StateDictError as error:
        raise StateDictError(f"load: {contents.name} {error}") from None
    if structure is None:
        return tensors
    try:
        if not isinstance(structure, dict):
            raise TypeError(f"a dict is needed, got {type(structure).__name__}")
        return _restore(structure, tensors)
    except KeyError as error:
        raise StateDictError(f"load: {contents.name} lacks the tensor {error} that its structure names") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise StateDictError(f"load: {contents.name} has a structure that Volta did not write: {error}") from None


def _with_checksum(head, old, new):
    """The header's bytes with another checksum."""
    return head.replace(f'"{_CHECKSUM}":"{old}"'.encode(), f'"{_CHECKSUM}":"{new}"'.encode(), 1)


def _header(memory, check):
    """(the header, the bytes after it), compared with their checksum where there is one and the bytes are to be read now."""
    length = int.from_bytes(memory[:8], "little")
    if len(memory) < 8 or length > len(memory) - 8:
        raise ValueError("it is cut short, or of another format")
    header = json.loads(bytes(memory[8:8 + length]))
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    head, data = bytes(memory[:8 + length]), memory[8 + length:]
    known = (header.get("__metadata__") or {}).get(_CHECKSUM)
    if check and known is not None and f"{zlib.crc32(data, zlib.crc32(_with_checksum(head, known, _NONE))):08x}" != known:
        raise ValueError(f"its contents do not have its checksum ({_CHECKSUM}); it is damaged, or was changed by a program that kept that")
    return header, data


def _arrays(header, data):
    """Views of the data by name. The tensors must lie one behind the other and fill the file."""
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (start, stop), shape, kind = entry["data_offsets"], tuple(entry["shape"]), entry["dtype"]
        if kind not in _NAMES:
            raise ValueError(f"{name[:200]!r} has the dtype {kind!r}")
        if not all(type(n) is int and n >= 0 for n in (start, stop, *shape)) or start != end or stop > len(data):
            raise ValueError(f"the place of {name[:200]!r} is wrong")
        array = to_host(data[start:stop], _NAMES[kind])
        if len(array) != math.prod(shape):
            raise ValueError(f"{name[:200]!r} has {len(array)} elements, its shape is {shape}")
        core.checked_size(shape)
        arrays[name], end = array.reshape(shape), stop
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes belong to no tensor")
    return arrays


def _describe(value, path, tensors):
    """JSON that stands for `value`; its tensors are put into `tensors` as host arrays."""
    if isinstance(value, (core.TensorBase, np.ndarray)):
        array = to_array(value) if isinstance(value, core.TensorBase) else value
        if path in tensors:
            raise ArgumentError(f"save: two tensors have the name {path!r}; rename a key")
        tensors[path] = np.ascontiguousarray(array).reshape(array.shape)
        return {_TENSOR: path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        entries = {key: _describe(entry, f"{path}.{key}" if path else str(key), tensors) for key, entry in value.items()}
        if all(isinstance(key, str) and key not in (_TENSOR, _PAIRS, _TUPLE) for key in entries):
            return entries
        if all(isinstance(key, (str, int)) for key in entries):
            return {_PAIRS: [[key, entry] for key, entry in entries.items()]}
        raise ArgumentError(f"save: the keys of {path or 'the dict'} must be strings or integers")
    if isinstance(value, (list, tuple)):
        entries = [_describe(entry, f"{path}.{i}" if path else str(i), tensors) for i, entry in enumerate(value)]
        return {_TUPLE: entries} if isinstance(value, tuple) else entries
    raise ArgumentError(f"save: {path or 'the object'} is {type(value).__name__}; needs tensors, numbers, strings, None, dicts "
                        f"and lists")


def _restore(value, tensors):
    """The inverse of `_describe`."""
    if isinstance(value, list):
        return [_restore(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    if _PAIRS in value:
        return {key: _restore(entry, tensors) for key, entry in value[_PAIRS]}
    if _TUPLE in value:
        return tuple(_restore(entry, tensors) for entry in value[_TUPLE])
    return {key: _restore(entry, tensors) for key, entry in value.items()}
