"""A progress bar over a loader."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

from volta.data.loader import DataLoader


def progress(batches: Iterable[Any], description: str | None = None, **options: Any) -> tqdm[Any]:
    """The same batches behind a bar of tqdm that counts samples and shows how many pass a second, of anything else its entries; a resumed
    loader's bar begins where the epoch was left. `options` are tqdm's (`leave`, `disable`, `file`...); its `set_postfix(loss=...)` puts
    values beside the bar.

    >>> [batch.tolist() for batch in volta.data.progress(volta.data.DataLoader(range(5), 2), "epoch 0", disable=True)]
    [[0, 1], [2, 3], [4]]
    """
    if isinstance(batches, DataLoader):
        size = batches.batch_size or getattr(batches.batch_sampler, "batch_size", None)
        options = {"unit": " batches" if batches.batch_sampler is not None and size is None else " samples", "unit_scale": size or 1,
                   "total": batches.length(), "initial": batches.state_dict()["given"], **options}
    return tqdm(batches, description, **options)
