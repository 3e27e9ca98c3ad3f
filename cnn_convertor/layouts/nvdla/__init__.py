"""NVDLA's formats in memory (the nv_full configuration: atoms of 32 bytes)."""
