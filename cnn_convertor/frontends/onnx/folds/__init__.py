"""What nodes on constants compute, beside those of folding.py. Importing this package fills the table `FOLDS`."""

from cnn_convertor.frontends.onnx.folding import fold
from cnn_convertor.frontends.onnx.folds import index_folds, numeric_folds, resize_fold

__all__ = ["fold", "index_folds", "numeric_folds", "resize_fold"]
