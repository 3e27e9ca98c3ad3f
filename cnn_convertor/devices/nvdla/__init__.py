"""NVDLA, an open accelerator in several configurations."""
