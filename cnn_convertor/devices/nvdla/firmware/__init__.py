"""What NVDLA's firmware does with descriptors: the registers that it writes, and the order in which operations run."""
