"""Models as ONNX graphs (the extra `volta[onnx]`). PyTorch's torch.onnx."""
from volta.errors import ONNXExportError as OnnxExporterError
from volta.onnx.exporter import ONNXProgram, OperatorExportTypes, TrainingMode, export, is_in_onnx_export

__all__ = ["ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]
