"""Running extremes on the CPU, by every way through their lines, beside NumPy's, with any number of threads."""
import numpy as np
import pytest

import volta


def _expected(x, dim, largest):
    """Values and places; the last of equal elements counts, and a NaN is beyond all numbers."""
    lines = np.moveaxis(x, dim, -1)
    values, places = np.empty_like(lines), np.empty(lines.shape, np.int64)
    for line in np.ndindex(lines.shape[:-1]):
        at = 0
        for i, v in enumerate(lines[line]):
            best = lines[line][at]
            if v != v or (v >= best if largest else v <= best):
                at = i
            values[line + (i,)], places[line + (i,)] = lines[line][at], at
    return np.moveaxis(values, -1, dim), np.moveaxis(places, -1, dim)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_running_extremes_of_lines_and_columns(dtype):
    random, threads = np.random.default_rng(0), volta.get_num_threads()
    try:
        for shape in ((5, 127), (9, 128), (3, 161), (1, 70000), (70, 3), (33, 64), (5, 65), (2, 9, 70), (40, 600)):
            x = random.integers(0, 50, shape).astype(dtype)
            if x.dtype.kind == "f":
                x[random.random(shape) < 0.01] = np.nan
            for dim in range(len(shape)):
                for name, largest in (("cummax", True), ("cummin", False)):
                    values, places = _expected(x, dim, largest)
                    for number in (1, 2, 3):
                        volta.set_num_threads(number)
                        for given in (volta.tensor(x), volta.tensor(np.ascontiguousarray(x.T)).permute(*range(x.ndim)[::-1])):
                            found = getattr(volta, name)(given, dim)
                            np.testing.assert_array_equal(found.values.numpy(), values)
                            np.testing.assert_array_equal(found.indices.numpy(), places)
    finally:
        volta.set_num_threads(threads)
