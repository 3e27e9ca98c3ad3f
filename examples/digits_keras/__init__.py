"""A Keras network that reads handwritten digits."""
