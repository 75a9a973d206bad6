"""Tables as text (CSV): columns of numbers and of categories as tensors, whole or as a stream."""
from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from volta.data.dataset import IterableDataset, TensorDataset
from volta.data.files import read
from volta.data.workers import get_worker_info
from volta.dtypes import as_dtype, float32, to_numpy
from volta.errors import ArgumentError, DatasetError

Column = str | int
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "?")
_ROWS = 4096                # at a time


class _Table:
    """Which columns of a file become what. Columns are given by name, or by number where there is no header."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[Column] | None = None, target: Column | None = None, *,
                 categorical: Sequence[Column] | Mapping[Column, Sequence[str]] = (), header: bool = True, delimiter: str = ",",
                 missing: str = "nan", missing_values: Sequence[str] = _MISSING, dtype: Any = float32, encoding: str = "utf-8") -> None:
        if missing not in ("nan", "error"):
            raise ArgumentError(f"{type(self).__name__}: missing must be 'nan' or 'error', got {missing!r}")
        if not as_dtype(dtype).is_floating_point:
            raise ArgumentError(f"{type(self).__name__}: dtype must be floating-point, got {dtype}; convert the tensors afterwards")
        self.path, self.target, self.header, self.delimiter, self.encoding = os.fspath(path), target, header, delimiter, encoding
        self.missing, self.missing_values, self.dtype = missing, np.array(missing_values, str), as_dtype(dtype)
        with self._open() as file:
            first = next(self._rows(file), None)
        if first is None:
            raise DatasetError(f"{self.path}: an empty file; a table has {'a header' if header else 'rows'}")
        self.names: list[Column] = [name.strip() for name in first] if header else list(range(len(first)))
        if header and len(set(self.names)) < len(self.names):
            raise DatasetError(f"{self.path}: the header names a column twice: {', '.join(map(str, self.names))}")
        wanted = [name for name in self.names if name != target] if columns is None else list(columns)
        if unknown := [name for name in (*wanted, *categorical, *([] if target is None else [target])) if name not in self.names]:
            raise DatasetError(f"{self.path}: there is no column {unknown[0]!r}; there are {', '.join(map(str, self.names))}")
        self.categories: dict[Column, list[str]] = {name: list(values) for name, values in categorical.items()} if isinstance(
            categorical, Mapping) else {}
        self.numbers = [name for name in wanted if name not in categorical]
        self.labels = [name for name in wanted if name in categorical]
        self.categorical = set(categorical)

    def _open(self):
        try:
            return open(self.path, newline="", encoding=self.encoding)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise DatasetError(f"{self.path}: there is no such file ({error.strerror})") from None

    def _rows(self, file):
        """The rows that are not empty."""
        try:
            yield from filter(None, csv.reader(file, delimiter=self.delimiter, strict=True))
        except (csv.Error, UnicodeError) as error:
            raise DatasetError(f"{self.path}: no table in {self.encoding}: {error}") from None

    def chunks(self) -> Iterator[tuple[int, dict[Column, np.ndarray[Any, Any]]]]:
        """The number of the first row and the columns that are wanted as text, some rows at a time."""
        used = [*self.numbers, *self.labels, *([] if self.target is None else [self.target])]
        places = [self.names.index(name) for name in used]
        with self._open() as file:
            rows = itertools.islice(self._rows(file), int(self.header), None)
            for start in itertools.count(0, _ROWS):
                if not (taken := list(itertools.islice(rows, _ROWS))):
                    return
                for i, row in enumerate(taken):
                    if len(row) != len(self.names):
                        raise DatasetError(f"{self.path}: row {start + i + 1} has {len(row)} fields, {len(self.names)} are expected")
                columns = list(zip(*taken))
                yield start, {name: np.char.strip(np.array(columns[place], str)) for name, place in zip(used, places)}

    def number(self, start: int, name: Column, text: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A column as numbers. Raises: DatasetError with the row for what is none, or missing."""
        gaps = self._gaps(start, name, text)
        try:
            return np.where(gaps, "nan", text).astype(np.float64).astype(to_numpy(self.dtype))
        except ValueError:
            bad = next(i for i, value in enumerate(text) if not gaps[i] and not _is_number(value))
            raise DatasetError(f"{self.path}: row {start + bad + 1}, column {name!r} is no number: {str(text[bad])[:40]!r}; name the "
                               "column in `categorical`, or the value in `missing_values`") from None

    def code(self, start: int, name: Column, text: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A column as numbers of its categories, -1 where it is missing."""
        gaps, known = self._gaps(start, name, text), np.array(self.categories[name], str)
        if not len(known):
            known = np.array([""])
        order = np.argsort(known)
        found = order[np.minimum(np.searchsorted(known, text, sorter=order), len(known) - 1)]
        wrong = (known[found] != text) & ~gaps
        if wrong.any():
            bad = int(wrong.argmax())
            raise DatasetError(f"{self.path}: row {start + bad + 1}, column {name!r} is none of its categories: {str(text[bad])[:40]!r}")
        return np.where(gaps, -1, found).astype(np.int64)

    def _gaps(self, start, name, text):
        gaps = np.isin(text, self.missing_values)
        if self.missing == "error" and gaps.any():
            raise DatasetError(f"{self.path}: row {start + int(gaps.argmax()) + 1}, column {name!r} is missing")
        return gaps

    def parts(self, start: int, columns: Mapping[Column, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The arrays of some rows: numbers (rows, columns), codes (rows, columns), and the target, each where there is one."""
        found = [np.stack([convert(start, name, columns[name]) for name in names], 1)
                 for names, convert in ((self.numbers, self.number), (self.labels, self.code)) if names]
        if self.target is not None:
            convert = self.code if self.target in self.categorical else self.number
            found.append(convert(start, self.target, columns[self.target]))
        return found


class CSVDataset(_Table, TensorDataset):
    """A table read whole. A sample is the row's numbers (`dtype`), then its categories (int64) where `categorical` names columns, then its
    `target` where one is named: a number, or a category.

    columns         those that are read; all but the target without.
    categorical     columns of categories, sorted as `categories` gives them; a dict of columns and their values keeps another file's order.
    missing         "nan": a missing number is NaN, a missing category -1; "error": they raise. `missing_values` are what counts as missing.
    digest          the md5, sha1 or sha256 that the file must have.

    Raises: DatasetError with file, row and column for what is no table of this kind.
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[Column] | None = None, target: Column | None = None, *,
                 digest: str | None = None, **options: Any) -> None:
        if digest is not None:
            read(path, digest)
        _Table.__init__(self, path, columns, target, **options)
        texts = list(self.chunks())
        for name in sorted(self.categorical - set(self.categories), key=str):
            values = np.concatenate([np.unique(columns[name]) for _, columns in texts if name in columns] or [np.empty(0, str)])
            self.categories[name] = np.setdiff1d(values, self.missing_values).tolist()
        parts = [self.parts(start, columns) for start, columns in texts]
        if not parts:
            raise DatasetError(f"{self.path}: a table without rows")
        TensorDataset.__init__(self, *(np.concatenate(arrays) for arrays in zip(*parts)))


class CSVStream(_Table, IterableDataset[tuple[Any, ...]]):
    """A table read row by row, of any length: the samples and the options of `CSVDataset`. Of several workers, each gives its share of the
    rows. Categories have to be given with their values: `categorical={"colour": ["blue", "red"]}`.

    Raises: ArgumentError for categories without values; DatasetError, when it comes to it, for what is no table.
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[Column] | None = None, target: Column | None = None,
                 **options: Any) -> None:
        super().__init__(path, columns, target, **options)
        if unknown := self.categorical - set(self.categories):
            raise ArgumentError(f"CSVStream: give the values of the column {min(unknown, key=str)!r}: categorical={{name: values}}; a "
                                "stream does not know them before its end")

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        info = get_worker_info()
        number, count = (0, 1) if info is None else (info.id, info.num_workers)
        for start, columns in self.chunks():
            arrays = self.parts(start, columns)
            for i in range((number - start) % count, len(arrays[0]), count):
                yield tuple(array[i] for array in arrays)


def _is_number(text):
    try:
        float(text)
        return True
    except ValueError:
        return False
