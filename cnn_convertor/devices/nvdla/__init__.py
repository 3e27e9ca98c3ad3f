"""NVDLA, open hardware in several configurations: their registers, a twin that computes what they compute, and their loadables."""

SUFFIXES = (".nvdla", ".fbuf")  # of loadables
VERSIONS = ("0.12", "0.11")  # of loadables that are written
NAMES = (
    "nvdla-full",
    "nvdla-large",
    "nvdla-small",
    "nvdla-small-256",
    "nvdla-small-256-full",
    "nvdla-medium-512",
    "nvdla-medium-1024-full",
)
CONVERTING = ("nvdla-full",)  # of these, networks are converted for
