"""The default dtype: what makes tensors without one, and what integers become."""
import pytest

import volta


def test_default_dtype():
    volta.set_default_dtype(volta.float64)
    assert volta.tensor(1.5).dtype is volta.zeros(2).dtype is volta.rand(2).dtype is volta.float64
    assert volta.tensor(1).dtype is volta.int64 and volta.get_default_dtype() is volta.float64
    volta.set_default_dtype(volta.float32)
    assert volta.tensor(1.5).dtype is volta.float32


@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16"])
def test_default_dtype_of_what_integers_become(name):
    dtype = getattr(volta, name)
    volta.set_default_dtype(dtype)
    whole, single = volta.tensor([1, 2]), volta.tensor([1.0], dtype=volta.float32)
    for made in (whole / 2, whole + 0.5, volta.tensor(3) * 0.5, volta.exp(whole), whole.sqrt(), volta.where(whole > 1, 1.0, 0.0),
                 volta.where(whole > 1, whole, 0.5), volta.atan2(whole, whole), whole.clamp(0.5), volta.nn.Linear(1, 1).weight):
        assert made.dtype is dtype
    assert (single * 0.5).dtype is volta.float32 and volta.result_type(whole, 1.5) is dtype and (whole + 1).dtype is volta.int64
    if name == "float64":
        assert volta.where(whole > 1, 0.1, 0.3).tolist() == [0.3, 0.1]


@pytest.mark.parametrize("default", [volta.float32, volta.float16])
def test_python_types(default):
    """As in PyTorch: float is float64 as a dtype, whatever the default is."""
    volta.set_default_dtype(default)
    try:
        for kind, found in ((float, volta.float64), (int, volta.int64), (bool, volta.bool)):
            assert volta.zeros(2, dtype=kind).dtype is volta.ones(2).to(kind).dtype is volta.tensor([1], dtype=kind).dtype is found
    finally:
        volta.set_default_dtype(volta.float32)
