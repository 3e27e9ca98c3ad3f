"""Files: sets replaced in one step, contents of any origin within limits, hashes, folders, and the package's own."""
