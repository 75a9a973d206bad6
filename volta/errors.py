"""Every exception and warning of Volta. Each also is the built-in exception that a PyTorch user would catch."""
import pickle
import re
import warnings

_SIZE = re.compile(r"(?:volta|torch)\.Size\(\[(\d*)(.*?)\]\)")


class VoltaError(RuntimeError):
    """Base of Volta's exceptions: RuntimeErrors, as most of PyTorch's are. Shapes in their texts are plain tuples."""

    def __init__(self, *args: object) -> None:
        super().__init__(*[_SIZE.sub(_as_tuple, arg) if isinstance(arg, str) else arg for arg in args])


def _as_tuple(size: re.Match[str]) -> str:
    return f"({size[1]}{size[2] or ',' * bool(size[1])})"


class ShapeError(VoltaError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(VoltaError, NotImplementedError, TypeError):
    """An element type that the operation does not take."""


class TypeNameError(DTypeError, ValueError):
    """A name of no element type."""


class RankError(ShapeError, IndexError):
    """A tensor without the dimension that is needed."""


class IndexTypeError(DTypeError, IndexError):
    """A tensor whose elements are no indices, by their type."""


class ArgumentError(VoltaError, ValueError):
    """An argument outside what the operation takes."""


class AssertedError(ArgumentError, AssertionError):
    """An argument outside what the operation takes, which PyTorch asserts."""


class AssertedShapeError(ShapeError, AssertionError):
    """Shapes that do not fit together, which PyTorch asserts."""


class UnsupportedError(ArgumentError, NotImplementedError):
    """A way to compute that there is not, or not for tensors of this shape."""


class UnsupportedShapeError(ShapeError, NotImplementedError):
    """Tensors of a shape for which there is no such way to compute."""


class NumberError(ArgumentError, OverflowError, TypeError):
    """An integer beyond 64 bits."""


class CallError(ArgumentError, TypeError):
    """A call with too few or too many arguments."""


class _AsWritten(KeyError):
    """An error of keys whose text is shown as it is, not as a key."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class RegistrationError(CallError, _AsWritten):
    """A name or a value that a module cannot hold."""


class MissingError(ArgumentError, _AsWritten):
    """An entry that is needed and not there."""


class MissingNameError(MissingError, AttributeError):
    """A name that is not there, of what is also an attribute."""


class IndexRangeError(VoltaError, IndexError):
    """An index or label outside its dimension."""


class LinAlgError(VoltaError, ValueError):
    """A matrix that has no inverse or decomposition of the kind asked for."""


class AutogradError(VoltaError):
    """A graph that cannot be differentiated as asked."""


class GradientTypeError(AutogradError, TypeError):
    """Something that is no gradient, or is kept for one and no tensor."""


class DeviceError(VoltaError):
    """A device that is not there, failed, or does not match."""


class MetaError(DeviceError, NotImplementedError):
    """A tensor without data whose values are needed."""


class BindingLimitError(DeviceError):
    """A GPU buffer larger than one kernel launch can see; the glue cuts the work and tries again."""


class AbsentDeviceError(DeviceError, NotImplementedError, AssertionError):
    """A kind of device on which nothing lies here; of some PyTorch asserts that it was built for them."""


class TransferError(VoltaError):
    """A copy between host and GPU inside `forbid_transfers()`."""


class OutOfMemoryError(VoltaError, MemoryError):
    """A device has no room for a tensor."""


class WorkerTimeoutError(VoltaError, TimeoutError):
    """A DataLoader's worker took longer than its timeout."""


class WorkerError(VoltaError):
    """A DataLoader's worker process that died, or an error in it that no other process can hold."""


class DatasetError(VoltaError, ValueError):
    """A dataset's file that is missing, damaged or of another format."""


class DownloadError(VoltaError, OSError):
    """A file that could not be downloaded, or is not the one that was meant."""


class StateDictError(VoltaError, _AsWritten, ValueError):
    """A state dict or checkpoint that does not fit the module."""


class UnreadableError(StateDictError, pickle.UnpicklingError):
    """A file that names what is not read."""


class UnwritableError(ArgumentError, pickle.PicklingError):
    """An object that no file holds."""


class UninitializedError(VoltaError, ValueError):
    """A lazy parameter or buffer that is used before it has a shape."""


class ONNXExportError(VoltaError):
    """A model that does not become an ONNX graph."""


_TOLD: set[str] = set()
told_again = False          # what `set_warn_always` sets


def warn_once(text: str, key: str | None = None, stacklevel: int = 3) -> None:
    """A UserWarning that a process gives once (by `key`, else by its text), as PyTorch's kernels warn; after `set_warn_always(True)` each
    time. By default it points to what called the caller."""
    if (key or text) not in _TOLD or told_again:
        _TOLD.add(key or text)
        warnings.warn(text, UserWarning, stacklevel)


class GPUUnavailableWarning(UserWarning):
    """A GPU was asked for and none is usable."""


class MixedDeviceWarning(UserWarning):
    """An operation's tensors are on different devices."""
