"""SummaryWriter: a run's curves and images in files that TensorBoard reads. Neither TensorBoard nor protobuf is needed to write them."""
from __future__ import annotations

import io
import os
import socket
import struct
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from volta.errors import ArgumentError
from volta.vision.utils import make_grid

__all__ = ["SummaryWriter"]


def _crc_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0x82F63B78), table >> 1)
    return table.tolist()


_CRC = _crc_table()


def _checksum(data):
    """CRC-32C, rotated and shifted as TFRecord files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)


def _varint(n):
    data = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        data.append(n & 127 | 128)
        n >>= 7
    return bytes([*data, n])


def _field(number, value, form=""):
    """One field of a protobuf message: text, bytes or messages with their length, integers, or a number packed as `form` says."""
    if form:
        return _varint(number << 3 | {"f": 5, "d": 1}[form]) + struct.pack("<" + form, value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _array(values):
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _png(image):
    """A message Image of an array of height, width and channels, of bytes or of numbers from 0 to 1."""
    from PIL import Image
    if image.dtype != np.uint8:
        image = (np.clip(image, 0, 1) * 255).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(data, format="PNG")
    return b"".join(map(_field, (1, 2, 3, 4), (*image.shape, data.getvalue())))


class SummaryWriter:
    """Writes what a run reports to `log_dir`, "runs/<time>_<host><comment>" where none is given. Points are written at once.

    Example:
        writer = SummaryWriter("runs/first")
        writer.add_scalar("loss", loss.item(), step)
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, comment: str = "", purge_step: int | None = None,
                 max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        started = datetime.now().strftime("%b%d_%H-%M-%S")
        self.log_dir = os.fspath(log_dir) if log_dir else os.path.join("runs", f"{started}_{socket.gethostname()}{comment}")
        self._suffix, self._kin = filename_suffix, {}
        folder = Path(self.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}{filename_suffix}"
        self._file = (folder / name).open("ab")
        self._event(_field(3, "brain.Event:2"))
        if purge_step is not None:
            self._event(_field(2, purge_step) + _field(7, _field(1, 1)))

    def get_logdir(self) -> str:
        """The folder of the run."""
        return self.log_dir

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:
        """A point of the curve `tag`."""
        value = _array(scalar_value)
        if value.size != 1:
            raise ArgumentError(f"add_scalar: {tag} needs one number, got shape {value.shape}")
        self._value(tag, _field(2, float(value.item()), "f"), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
                    walltime: float | None = None) -> None:
        """Points of several curves in one plot: each has a run of its own, beside this one."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self._kin:
                self._kin[folder] = SummaryWriter(folder, filename_suffix=self._suffix)
            self._kin[folder].add_scalar(main_tag, value, global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """A text, which is shown as Markdown."""
        text = _field(1, 7) + _field(2, _field(2, _field(1, 1))) + _field(8, text_string)
        self._value(f"{tag}/text_summary", _field(8, text) + _field(9, _field(1, _field(1, "text"))), global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, bins: Any = "auto", walltime: float | None = None,
                      max_bins: int | None = None) -> None:
        """How `values` are distributed; `bins` is what `numpy.histogram` takes, or "tensorflow"."""
        values = _array(values).astype(np.float64).ravel()
        if not values.size or not np.isfinite(values).all():
            raise ArgumentError(f"add_histogram: {tag} needs finite numbers, at least one")
        count = min(max_bins or 512, 512)
        counts, limits = np.histogram(values, bins=30 if bins == "tensorflow" else bins)
        if len(counts) > count:
            counts, limits = np.histogram(values, bins=count)
        facts = values.min(), values.max(), values.size, values.sum(), values @ values
        parts = [_field(i, float(fact), "d") for i, fact in enumerate(facts, 1)]
        parts += [_field(6, limits[1:].astype("<f8").tobytes()), _field(7, counts.astype("<f8").tobytes())]
        self._value(tag, _field(5, b"".join(parts)), global_step, walltime)

    def add_image(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                  dataformats: str = "CHW") -> None:
        """An image of bytes or of numbers from 0 to 1, whose dimensions `dataformats` names."""
        image = _array(img_tensor)
        if image.ndim != len(dataformats) or sorted(dataformats) not in (sorted("CHW"), sorted("HW")):
            raise ArgumentError(f"add_image: {tag} has shape {image.shape}, dataformats {dataformats!r}; needs C, H and W, or H and W")
        image = image.transpose([dataformats.index(c) for c in "HWC" if c in dataformats])
        self._value(tag, _field(4, _png(image if image.ndim == 3 else image[..., None])), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                   dataformats: str = "NCHW") -> None:
        """Images side by side."""
        if dataformats != "NCHW":
            raise ArgumentError(f"add_images: needs dataformats 'NCHW', got {dataformats!r}; permute the images")
        self.add_image(tag, make_grid(img_tensor, padding=0), global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None) -> None:
        """A figure of Matplotlib's, which is closed."""
        from matplotlib import pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        self.add_image(tag, np.asarray(canvas.buffer_rgba())[..., :3], global_step, walltime, "HWC")
        if close:
            pyplot.close(figure)

    def flush(self) -> None:
        """Hand what was written to the system."""
        for writer in (self, *self._kin.values()):
            writer._file.flush()

    def close(self) -> None:
        """End the files."""
        for writer in (self, *self._kin.values()):
            writer._file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _value(self, tag, value, step, walltime):
        step = _field(2, int(step)) if step is not None else b""
        self._event(step + _field(5, _field(1, _field(1, tag) + value)), walltime)

    def _event(self, body, walltime=None):
        body = _field(1, walltime or time.time(), "d") + body
        length = struct.pack("<Q", len(body))
        self._file.write(length + _checksum(length) + body + _checksum(body))
        self._file.flush()
