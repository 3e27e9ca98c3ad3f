"""Compares a network on the emulated device with its framework: its outputs, its layers, and the causes of their errors."""
