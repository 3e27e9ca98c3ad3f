"""Fuzzing: feeds every reader of the convertor with damaged files. `python -m development.fuzz --help` explains how to run it."""
