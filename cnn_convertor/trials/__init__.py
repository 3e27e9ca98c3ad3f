"""Networks on trial: run, verified and compared on the PC."""
