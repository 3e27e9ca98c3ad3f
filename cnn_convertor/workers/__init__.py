"""Spreads work over processes or a cluster, and carries each piece's outcome as a value."""
