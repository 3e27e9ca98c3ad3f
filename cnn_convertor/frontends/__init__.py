"""Readers of trained networks: each turns a framework's files into a graph, and knows nothing of any device."""
