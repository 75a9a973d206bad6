# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What changes the recording of calls: anomaly mode keeps where each was recorded; saved-tensor hooks store what nodes keep in other ways.

Knows tensors, no graph: `graph.pyx` asks when it records and unpacks what is kept, `engine.pyx` looks for NaN.
"""
import linecache
import sys
import threading

from volta.errors import AutogradError
from volta._kernels.core.base cimport TensorBase

cdef bint anomalies = False
cdef int hooked = 0
_hooks = threading.local()


# ---------------------------------------------------------------- anomaly mode

def is_anomaly_mode():
    """Whether anomaly mode is on."""
    return anomalies


def set_anomaly_mode(bint enabled):
    """Switch anomaly mode, of all threads; gives the previous setting."""
    global anomalies
    previous, anomalies = anomalies, enabled
    return previous


cdef list callers():
    """(file, line, function) of the Python frames, the outermost first."""
    cdef list found = []
    frame = sys._getframe()
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]


cdef str recorded_at(object trace):
    """Where a call was recorded, as a traceback shows it. IN: what `callers` gave, or None."""
    if trace is None:
        return "outside anomaly mode"
    return "at\n" + "\n".join([f'  File "{file}", line {line}, in {name}\n    {linecache.getline(file, line).strip()}'
                               for file, line, name in trace])


# ---------------------------------------------------------------- saved-tensor hooks

def push_saved_hooks(pack, unpack):
    """From now on this thread's nodes keep `pack(tensor)` in place of a tensor, and get it back by `unpack`."""
    global hooked
    _hooks.stack = [*getattr(_hooks, "stack", ()), (pack, unpack)]
    hooked += 1


def pop_saved_hooks():
    """End the hooks pushed last."""
    global hooked
    _hooks.stack.pop()
    hooked -= 1


def saved_hooks():
    """(pack, unpack) of this thread, None without."""
    cdef list stack = getattr(_hooks, "stack", None)
    return stack[len(stack) - 1] if stack else None


cdef class Packed:
    """Stands for a saved tensor."""


cdef object pack(list saved):
    """Replace the tensors among `saved` by what this thread's hook makes of them; gives what undoes it, None without a hook. Where the hook
    gives back the same memory, it is kept with its version, which is still to be checked."""
    cdef Packed packed
    cdef TensorBase t
    cdef Py_ssize_t i
    found = saved_hooks()
    if found is None:
        return None
    push_saved_hooks(_as_it_is, _as_it_is)      # what the hook itself does is saved as it is
    try:
        for i in range(len(saved)):
            if not isinstance(saved[i], TensorBase):
                continue
            t = <TensorBase>saved[i]
            packed = Packed.__new__(Packed)
            value = found[0](t)
            same = isinstance(value, TensorBase) and (<TensorBase>value).storage is t.storage
            packed.value = (value, t.storage if same else None, t.storage.version, t.shape, t.dtype)
            saved[i] = packed
    finally:
        pop_saved_hooks()
    return found[1]


def _as_it_is(x):
    return x


def refuse_inferred():
    """Raise for what was made in `inference_mode` and is to be saved."""
    raise AutogradError("Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation "
                        "tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use "
                        "`no_grad()` instead of `inference_mode()`.")
