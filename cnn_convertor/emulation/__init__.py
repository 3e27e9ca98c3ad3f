"""Builds generated networks with the emulated device, and runs them."""
