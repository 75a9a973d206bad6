"""`from_file`: vectors that lie in files."""
import os

import pytest

import volta
from volta.errors import ArgumentError, DeviceError, DTypeError


@pytest.mark.parametrize("dtype", [volta.float32, volta.float64, volta.int16, volta.uint8, volta.float16, volta.bfloat16, volta.int64])
def test_a_file_is_read_and_written_where_it_is_shared(tmp_path, dtype):
    path = str(tmp_path / "numbers")
    x = volta.from_file(path, shared=True, size=5, dtype=dtype)
    assert x.dtype is dtype and x.tolist() == [0] * 5 and os.path.getsize(path) == 5 * dtype.itemsize
    x.copy_(volta.arange(5))
    y = volta.from_file(path, size=3, dtype=dtype)
    assert y.tolist() == [0, 1, 2]
    y[0] = 9                                # stays here
    assert x[0].item() == 0 and volta.from_file(path, False, 1, dtype=dtype).tolist() == [0]
    volta.from_file(path, True, 2, dtype=dtype)[1] = 7
    assert x.tolist() == [0, 7, 2, 3, 4] and os.path.getsize(path) == 5 * dtype.itemsize
    assert volta.from_file(path, True, 8, dtype=dtype)[5:].tolist() == [0] * 3


def test_it_takes_part_in_graphs_and_outlives_the_file(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(volta.arange(4.0).numpy().tobytes())
    x = volta.from_file(str(path), size=4, requires_grad=True, layout=volta.strided)
    path.unlink()
    (x * x).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6]


def test_what_no_file_has_is_refused(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(b"1234567")
    with pytest.raises(ArgumentError, match="of 7 bytes is smaller than the 8 of 2 elements of volta.float32"):
        volta.from_file(str(path), size=2)
    with pytest.raises(ArgumentError, match="unable to open file .*No such file"):
        volta.from_file(str(tmp_path / "none"), size=2)
    with pytest.raises(ArgumentError, match="size must be at least 0, got -1"):
        volta.from_file(str(path), size=-1)
    with pytest.raises(ArgumentError, match="is smaller than"):
        volta.from_file(str(path), size=2 ** 62)
    with pytest.raises(DTypeError, match="a bool is stored as 0 or 1"):
        volta.from_file(str(path), size=1, dtype=volta.bool)
    with pytest.raises(DeviceError, match="into the memory of the host"):
        volta.from_file(str(path), size=1, device="meta")
    assert volta.from_file(str(path)).shape == (0,) and volta.from_file(str(tmp_path / "none"), True).shape == (0,)
    assert path.read_bytes() == b"1234567"
