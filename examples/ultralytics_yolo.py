"""Ultralytics YOLO: `add_tocsin_callback` adds settings, planned steps, epochs, validation and metrics.

Run `pip install ultralytics` and `python examples/ultralytics_yolo.py`.
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from ultralytics import YOLO

from tocsin.integrations.ultralytics import add_tocsin_callback

IMAGES, BATCH, EPOCHS = 32, 4, 5


def dataset(folder: Path) -> str:
    """Write images with one bright square each; return the file that describes them."""
    draw = np.random.default_rng(0)
    (folder / "images").mkdir()
    (folder / "labels").mkdir()
    for number in range(IMAGES):
        pixels = draw.integers(0, 80, (64, 64, 3), np.uint8)
        x, y = draw.integers(8, 40, 2)
        pixels[y : y + 16, x : x + 16] = 250
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        box = f"0 {(x + 8) / 64} {(y + 8) / 64} 0.25 0.25"
        (folder / "labels" / f"{number}.txt").write_text(box, "utf-8")
    described = folder / "data.yaml"
    described.write_text(f"path: {folder}\ntrain: images\nval: images\nnames:\n  0: square\n", "utf-8")
    return str(described)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = YOLO("yolo11n.yaml")
        add_tocsin_callback(model, project="examples", name="ultralytics")
        model.train(
            data=dataset(Path(folder)), project=folder, epochs=EPOCHS, batch=BATCH, imgsz=64, nbs=BATCH,
            optimizer="SGD", lr0=0.002, workers=0, amp=False, mosaic=0.0, plots=False,
        )  # fmt: skip


if __name__ == "__main__":
    main()
