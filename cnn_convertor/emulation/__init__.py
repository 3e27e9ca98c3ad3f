"""The emulated device, as C++ sources, and what builds and runs generated networks on it."""
