"""A Caffe network that reads handwritten digits."""
