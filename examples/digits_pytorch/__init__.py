"""A PyTorch network that reads handwritten digits, as ONNX."""
