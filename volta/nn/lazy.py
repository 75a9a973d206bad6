"""Layers that learn the number of their inputs from the first of these, and then become the layer that they are named after."""
from __future__ import annotations

from typing import Any

from volta.autograd import no_grad
from volta.errors import CallError, RankError, ShapeError
from volta.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from volta.nn.linear import Linear
from volta.nn.module import Module
from volta.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from volta.nn.parameter import Uninitialized, UninitializedBuffer, UninitializedParameter
from volta.ops.creation import zeros
from volta.tensor import Tensor

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
    "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "LazyModuleMixin"]


class LazyModuleMixin(Module):
    """Of a layer with uninitialised parameters: the first call gives them a shape by `initialize_parameters`, and makes the layer one of
    the class `cls_to_become`, where that is given. A state dict gives them shapes too.

    Raises: UninitializedError where a parameter is still without a shape then.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_load_state_dict_pre_hook(_take_shapes)
        self.register_state_dict_post_hook(_keep_uninitialized)

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this layer itself has no shape yet."""
        return bool(_uninitialized(self))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes that fit these arguments of `forward`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}: define initialize_parameters(self, ...)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Initialise what has no shape, then call the layer."""
        if self.cls_to_become is not None or self.has_uninitialized_params():
            self.initialize_parameters(*args, **kwargs)
            for tensor in _uninitialized(self).values():
                tensor.numel()                          # raises
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
                return self(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _named_state(self, prefix):
        return ((key, tensor) for key, tensor in super()._named_state(prefix) if not isinstance(tensor, Uninitialized))


def _uninitialized(module):
    return {name: t for table in (module._parameters, module._buffers) for name, t in table.items() if isinstance(t, Uninitialized)}


def _take_shapes(module, state_dict, prefix, *rest):
    for name, tensor in _uninitialized(module).items():
        given = state_dict.get(prefix + name)
        if isinstance(given, Uninitialized):
            del state_dict[prefix + name]
        elif given is not None:
            tensor.materialize(given.shape)


def _keep_uninitialized(module, state_dict, prefix, metadata):
    state_dict.update({prefix + name: t for name, t in _uninitialized(module).items()})


class LazyLinear(LazyModuleMixin, Linear):
    """Linear with in_features from its first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, where they have a shape."""
        if not self.has_uninitialized_params() and self.weight.numel():
            super().reset_parameters()

    @no_grad
    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes for this input, and values."""
        if self.has_uninitialized_params():
            self.weight.materialize((self.out_features, input.shape[-1]))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        self.in_features = self.weight.shape[1]


class _LazyConvolution(LazyModuleMixin):
    """Takes the arguments of the convolution but in_channels."""

    def __init__(self, out_channels: int, kernel_size, stride=1, padding=0, *args, **kwargs) -> None:
        names = ("dilation", "groups", "bias", "padding_mode", "device", "dtype")
        if self.transposed:
            names = ("output_padding", "groups", "bias", "dilation", "padding_mode", "device", "dtype")
        if len(args) > len(names) or not kwargs.keys().isdisjoint(names[:len(args)]):
            raise CallError(f"{type(self).__name__}: takes (out_channels, kernel_size, stride, padding, {', '.join(names)}), each once")
        options = dict(zip(names, args)) | kwargs
        bias, place = options.pop("bias", True), {name: options.pop(name, None) for name in ("device", "dtype")}
        super().__init__(0, 0, kernel_size, stride, padding, bias=False, **options)
        self.out_channels = out_channels
        self.weight = UninitializedParameter(**place)
        if bias:
            self.bias = UninitializedParameter(**place)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, where they have a shape."""
        if not self.has_uninitialized_params() and self.weight.numel():
            super().reset_parameters()

    @no_grad
    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Shapes for this input, and values.

        Raises: ShapeError for an input without a dimension of channels.
        """
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(f"{type(self).__name__}: needs an input of {self.rank + 1} or {self.rank + 2} dimensions, got {input.shape}")
        channels = (input.shape[-self.rank - 1], self.out_channels)
        if self.has_uninitialized_params():
            first, second = channels if self.transposed else channels[::-1]
            self.weight.materialize((first, second // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()
        self.in_channels = channels[0]


class _LazyNorm(LazyModuleMixin):
    """Takes the arguments of the normalisation but num_features."""

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device=None, dtype=None, *, bias: bool = True) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        place = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            if wanted:
                setattr(self, name, UninitializedParameter(**place))
        if track_running_stats:
            self.running_mean, self.running_var = UninitializedBuffer(**place), UninitializedBuffer(**place)
            self.num_batches_tracked = zeros((), dtype="int64", device=device)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, statistics forgotten, where they have a shape."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    @no_grad
    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes for this input, and values.

        Raises: RankError for an input without a dimension of channels.
        """
        rank = self.letters.count(",") + 2 if hasattr(self, "letters") else 0
        if input.ndim not in ((rank, rank + 1) if rank else self.ranks):
            raise RankError(f"{type(self).__name__}: cannot take the number of channels from an input {input.shape}")
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for tensor in _uninitialized(self).values():
                tensor.materialize((self.num_features,))
            self.reset_parameters()
        elif self.weight is not None or self.running_mean is not None:
            self.num_features = len(self.running_mean if self.weight is None else self.weight)


def _lazy(base, layer, left_out="in_channels"):
    name = f"Lazy{layer.__name__}"
    return type(name, (base, layer), {"cls_to_become": layer, "__module__": __name__, "__qualname__": name,
                                      "__doc__": f"{layer.__name__} with {left_out} from its first input."})


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy(_LazyConvolution, layer) for layer in (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(_LazyConvolution, layer) for layer in (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(_LazyNorm, layer, "num_features") for layer in (BatchNorm1d, BatchNorm2d, BatchNorm3d))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(_LazyNorm, layer, "num_features") for layer in (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d))
