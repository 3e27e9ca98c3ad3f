"""The public functions. Each takes a network in any form, and the fields of Config as keywords."""
