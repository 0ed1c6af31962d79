"""Core ML models for Apple's devices.

mlpackage.py  .mlpackage, through coremltools, whose converter runs everywhere
"""

from typing import Final

EXPORTS: Final = {".mlpackage": f"{__name__}.mlpackage:CoreML"}
"""The formats of exported models that it brings, by the ending of the file."""
