"""How work and memory grow with the count of something in an input."""
