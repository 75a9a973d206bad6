"""torch.autograd.gradcheck and gradgradcheck: the checks of `volta.testing` under PyTorch's keywords."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from volta import testing
from volta.errors import ArgumentError
from volta.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(testing.GradcheckError, RuntimeError):
    """A derivative that differs from finite differences."""


def gradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
              check_batched_grad: bool = False, check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None) -> bool:
    """`volta.testing.gradcheck`; False in place of an error without `raise_exception`. Backward alone is checked, by fixed random
    projections: `nondet_tol`, `check_undefined_grad`, `check_grad_dtypes`, `fast_mode` and `masked` do not change what is done.
    """
    for name, asked in (("check_batched_grad", check_batched_grad), ("check_batched_forward_grad", check_batched_forward_grad),
                        ("check_forward_ad", check_forward_ad), ("check_backward_ad", not check_backward_ad)):
        if asked:
            raise ArgumentError(f"gradcheck: {name}={name != 'check_backward_ad'} is not available, backward is checked; leave it out")
    return _checked(testing.gradcheck, func, inputs, eps, atol, rtol, raise_exception)


def gradgradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Any], grad_outputs: Tensor | Sequence[Tensor] | None = None, *,
                  eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False,
                  raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
                  check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
                  check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False) -> bool:
    """`volta.testing.gradgradcheck`, as `gradcheck`; incoming gradients are random, so `grad_outputs` is not needed."""
    for name, asked in (("grad_outputs", grad_outputs is not None), ("check_batched_grad", check_batched_grad),
                        ("check_fwd_over_rev", check_fwd_over_rev), ("check_rev_over_rev", not check_rev_over_rev)):
        if asked:
            raise ArgumentError(f"gradgradcheck: this {name} is not available; leave it out")
    return _checked(testing.gradgradcheck, func, inputs, eps, atol, rtol, raise_exception)


def _checked(check, func, inputs, eps, atol, rtol, raise_exception):
    try:
        return check(func, (inputs,) if isinstance(inputs, Tensor) else tuple(inputs), eps, atol, rtol)
    except testing.GradcheckError as error:
        if raise_exception:
            raise GradcheckError(str(error)) from None
        return False
