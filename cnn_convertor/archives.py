"""What a damaged zip archive makes Python's zipfile raise, depending on where the damage is and on how it is packed."""

import lzma
import zipfile
import zlib

DAMAGES = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)
