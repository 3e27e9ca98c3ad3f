"""Runs, verifies and compares networks on the PC."""
