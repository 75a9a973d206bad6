"""References and dictionaries that do not keep alive what they name, and tell tensors apart by identity (`==` compares elements)."""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from weakref import ref

from volta._kernels.core import TensorBase
from volta.errors import ArgumentError

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

WeakRef = ref


class WeakIdRef(ref):
    """A weak reference that hashes and compares by the identity of what it names, also after that has gone."""

    __slots__ = ("_id",)

    def __init__(self, key: object, callback: Callable[[Any], object] | None = None) -> None:
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, others = self(), other() if isinstance(other, ref) else None
        return self is other if mine is None or others is None else mine is others


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary whose keys are told apart by identity, and whose entries go with their keys.

    >>> x, table = volta.ones(2), volta.utils.weak.WeakIdKeyDictionary()
    >>> table[x] = "ones"
    >>> x in table, volta.ones(2) in table
    (True, False)
    >>> del x
    >>> len(table)
    0
    """

    def __init__(self, dict: Mapping | None = None, ref_type: type[ref] = WeakIdRef) -> None:
        self.data: dict[ref, Any] = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def gone(key):
            table = own()
            if table is not None:
                table.data.pop(key, None)
        self._gone = gone
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: object) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: object, value: object) -> None:
        self.data[self.ref_type(key, self._gone)] = value

    def __delitem__(self, key: object) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:                       # nothing that weak references name
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for each in self.keyrefs():             # a list: entries may go meanwhile
            key = each()
            if key is not None:
                yield key

    def keyrefs(self) -> list[ref]:
        """Weak references to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """A dictionary of the same entries."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: dict) -> WeakIdKeyDictionary:
        """Another dictionary with the same keys and copies of the values."""
        new = type(self)(None, self.ref_type)
        for key, value in self.items():
            new[key] = deepcopy(value, memo)
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        mine, others = ({id(key): value for key, value in each.items()} for each in (self, other))
        return mine == others

    __hash__ = None

    def __ior__(self, other: Mapping) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __or__(self, other: object) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        new = self.copy()
        new.update(other)
        return new

    def __ror__(self, other: object) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        new = type(self)(other, self.ref_type)
        new.update(self)
        return new

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor. Raises: ArgumentError for anything else."""

    ref: ref

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, TensorBase):
            raise ArgumentError(f"TensorWeakRef: needs a tensor, got {type(tensor).__name__}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        """The tensor, None once it has gone."""
        return self.ref()
