"""The names of this module before `math.py`; goes as soon as nothing imports it."""
from volta.ops import math
from volta.ops.table import FUNCTIONS

globals().update(FUNCTIONS, negative_abs=math.negative_abs)
