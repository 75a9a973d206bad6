"""What detectors of objects stand on: backbones with feature pyramids. The detectors themselves are not here."""
from volta.vision.models.detection import backbone_utils

__all__ = ["backbone_utils"]
