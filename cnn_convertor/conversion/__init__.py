"""Conversions and what they write, keep and check."""
