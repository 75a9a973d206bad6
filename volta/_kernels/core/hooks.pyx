# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What changes the recording of calls: anomaly mode keeps where each was recorded; saved-tensor hooks store what nodes keep in other ways.

What users see of nodes is here too. Knows tensors, no graph: `graph.pyx` asks when it records and unpacks what is kept, `engine.pyx` looks
for NaN.
"""
import linecache
import sys
import threading

from volta.errors import AutogradError
from volta._kernels.core.base cimport TensorBase

cdef int anomalies = 0
cdef int hooked = 0
_hooks = threading.local()


# ---------------------------------------------------------------- anomaly mode

def is_anomaly_mode():
    """Whether anomaly mode is on: 0, 1 or 2, as in `set_anomaly_mode`."""
    return anomalies


def set_anomaly_mode(int mode):
    """Switch anomaly mode, of all threads: 0 is off, 1 keeps where calls were recorded, 2 looks for NaN too. Gives the previous setting."""
    global anomalies
    previous, anomalies = anomalies, mode
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


cdef object before_hooks(list hooks, object g, int outputs, object op):
    """What has arrived at a node, after the functions that its user wants to be called before its derivative."""
    cdef object given = g if isinstance(g, tuple) else (g,)
    for hook in hooks:
        changed = hook(given)
        if changed is not None:
            given = changed if isinstance(changed, tuple) else (changed,)
            if len(given) != outputs:
                raise AutogradError(f"{op}: a prehook gave {len(given)} gradients for {outputs} outputs")
    return given if isinstance(g, tuple) else given[0]


# ---------------------------------------------------------------- nodes as users see them

cdef object accumulation = None, handle = None          # set by volta.saved
cdef object _written = None
cdef dict _names = {}
cdef dict _classes = {}

cdef extern from *:
    """
    #define VOLTA_SET_CLASS(node, cls) do { Py_INCREF(cls); Py_SET_TYPE(node, (PyTypeObject*)(cls)); } while (0)
    """
    void VOLTA_SET_CLASS(object node, object cls)


def configure_users(accumulate, handles, dict names, written):
    """Give this module what users see: leaf -> what stands for adding to its `.grad`, (dict, function) -> what takes that out again, op ->
    the name of its nodes where that is not made of the op's (or a function of the node), short name -> name."""
    global accumulation, handle, _names, _written
    accumulation, handle, _names, _written = accumulate, handles, names, written


cdef object name_of(object node, object label):
    """The name as PyTorch forms it, "ExpBackward0", or has it for the same step."""
    found = _names.get(node.op) if label is None else label
    if found is None:
        return f"{node.op}Backward" if node.primitive is None else node.op.replace(".", "_").title().replace("_", "") + "Backward0"
    return _written(found if isinstance(found, str) else found(node))


cdef object shown(object node, type plain):
    """A node as users see it: of a class of its own, whose name they may ask for. It has no fields, so that a `plain` node can change to
    it."""
    if type(node) is not plain:
        return node
    name = node.name().rpartition("::")[2]
    cls = _classes.get(name)
    if cls is None:
        cls = _classes[name] = type(name, (plain,), {"__slots__": (), "__module__": plain.__module__})
    VOLTA_SET_CLASS(node, cls)
    return node


cdef int retain_after(TensorBase t, object before) except -1:
    """Let a tensor that a change in place made the output of another node than `before` keep its gradient there, where it kept it."""
    cdef object kept
    if before is not None and before.retained is not None and t._node is not None and t._node is not before:
        kept = [each for each in before.retained if each[1]() is t]
        if kept:
            before.retained = [each for each in before.retained if each[1]() is not t]
            t._node.retained = (t._node.retained or []) + [(t._index, kept[0][1])]
    return 0


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
    raise AutogradError("Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                        "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
                        "autograd, or use `no_grad()` instead of `inference_mode()`.")
