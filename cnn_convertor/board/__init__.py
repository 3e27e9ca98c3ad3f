"""Programs for the board: a probe of the device, and a kit that runs a network there."""
