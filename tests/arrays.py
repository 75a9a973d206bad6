"""What tests compare: the values of a tensor."""
import numpy as np


def host(t):
    """A tensor's values; floating point ones in float64."""
    values = t.detach().cpu().numpy()
    return values.astype(np.float64) if values.dtype.kind == "f" else values
