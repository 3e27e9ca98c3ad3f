"""NVDLA's formats in memory, in each configuration; without one they are those of nv_full."""
