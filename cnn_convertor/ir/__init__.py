"""The layer graph: operators, constants and the graph that joins them."""
