"""No kernel reads a tensor's memory as another type than the tensor's, even where it is called past its record."""
import pytest

import volta
from volta.errors import DTypeError
from volta.ops.table import RECORDS

GEOMETRY = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)
CALLS = {           # shapes of the tensors, and parameters
    "linear": (((4, 8), (8, 8), (8,)), {}),
    "matmul": (((4, 8), (8, 8)), {}),
    "dot": (((8,), (8,)), {}),
    "conv2d": (((1, 2, 4, 4), (2, 2, 3, 3), (2,)), GEOMETRY),
    "conv2d_grad_input": (((1, 2, 2, 2), (2, 2, 3, 3)), dict(GEOMETRY, height=4, width=4)),
    "conv2d_grad_weight": (((1, 2, 2, 2), (1, 2, 4, 4)), dict(GEOMETRY, kernel=(3, 3))),
    "batch_norm": (((4, 2, 3), (2,), (2,)), dict(eps=1e-5)),
    "batch_norm_grad": (((4, 2, 3), (4, 2, 3), (2,), (2,), (2,)), {}),
    "batch_norm_given_grad": (((4, 2, 3), (4, 2, 3), (2,), (2,), (2,)), dict(eps=1e-5)),
    "batch_norm_update": (((2,), (2,), (2,), (2,)), dict(momentum=0.1, eps=1e-5, count=4)),
}


@pytest.mark.parametrize("name, at", [(name, i) for name, (shapes, _) in CALLS.items() for i in range(1, len(shapes))])
def test_operands_of_another_dtype(name, at, device):
    shapes, params = CALLS[name]
    tensors = [volta.ones(s, device=device, dtype=volta.uint8 if i == at else volta.float32) for i, s in enumerate(shapes)]
    op = RECORDS[name]
    with pytest.raises(DTypeError, match=name):
        (op.gpu if device == "gpu" else op.cpu)(*tensors, **params)
