"""NVDLA's compiled networks: their file, the memory and the tasks in it, and what they compute."""
