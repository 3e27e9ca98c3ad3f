"""Puts one-line faults into the convertor itself, and counts those that verify finds."""
