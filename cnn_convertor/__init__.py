"""Turn trained convolutional networks into C++ sources and packed weights for the DV700 accelerator."""
__version__ = "0.1.0"
