"""What every accelerator's sources are made of: C++ texts, calls of CPU functions, templates."""
