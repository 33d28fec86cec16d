"""Pictures for the pages: 128 colours are enough for lines and bands, at half the size."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any


def save(fig: Any, path: str | Path, dpi: int = 80) -> None:
    """Write a figure of matplotlib as a small PNG file, and close it."""
    import matplotlib.pyplot as plt
    from PIL import Image  # matplotlib brings it

    with io.BytesIO() as picture:
        fig.savefig(picture, format="png", dpi=dpi)
        Image.open(picture).convert("RGB").quantize(128).save(path, optimize=True)
    plt.close(fig)
