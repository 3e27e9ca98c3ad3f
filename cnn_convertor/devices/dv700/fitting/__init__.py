"""Palettes chosen by their effect: on sample inputs, and on the network's outputs."""
