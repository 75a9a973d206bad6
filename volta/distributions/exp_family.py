"""ExponentialFamily: entropies and divergences by Bregman's formula, from natural parameters and the logarithm of the normaliser."""
from __future__ import annotations

from volta.autograd import enable_grad, grad
from volta.distributions.distribution import Distribution
from volta.tensor import Tensor

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Densities exp(<t(x), p> - F(p) + k(x)): a subclass gives `_natural_params` (p), `_log_normalizer` (F) and `_mean_carrier_measure`,
    the mean of k.

    Source: Nielsen and Nock, "Entropies and cross-entropies of exponential families", 2010.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__}: define _natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: define _log_normalizer")

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError(f"{type(self).__name__}: define _mean_carrier_measure")

    def _normalised(self):
        """The natural parameters, F of them, and its gradients."""
        with enable_grad():
            natural = [p.detach().requires_grad_() for p in self._natural_params]
            normaliser = self._log_normalizer(*natural)
            return natural, normaliser, grad(normaliser.sum(), natural, create_graph=True)

    def _inner(self, x, y):
        dims = x.ndim - len(self._batch_shape)
        return (x * y).sum(tuple(range(-dims, 0))) if dims else x * y

    def entropy(self) -> Tensor:
        natural, normaliser, slopes = self._normalised()
        return normaliser - self._mean_carrier_measure - sum(self._inner(p, g) for p, g in zip(natural, slopes))
