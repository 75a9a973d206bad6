"""All transforms, under the names of torch.distributions.transforms."""
from volta.distributions import elementwise_transforms, transform, vector_transforms
from volta.distributions.elementwise_transforms import *  # noqa: F403 (as its __all__ says)
from volta.distributions.transform import *  # noqa: F403 (as its __all__ says)
from volta.distributions.transform import _InverseTransform as _InverseTransform  # packages ask for it
from volta.distributions.vector_transforms import *  # noqa: F403 (as its __all__ says)

__all__ = []
__all__ += transform.__all__
__all__ += elementwise_transforms.__all__
__all__ += vector_transforms.__all__
