"""Makes torchvision importable beside a CPU torch: import this first, or run a script with it (``-m``).

The wheels of torchvision on PyPI are built for CUDA. Their compiled operators do not load beside a CPU torch,
and the import fails where it describes two of them. Only the one that is defined here is called.
"""

from __future__ import annotations

import runpy
import sys

import torch
from torch import Tensor

OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the boxes that remain, the best first, if those that overlap a better one are left out."""
    left, kept = scores.argsort(descending=True), [torch.zeros(0, dtype=torch.long)]
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    while left.numel():
        best, left = left[0], left[1:]
        kept.append(best[None])
        low, high = torch.max(boxes[best, :2], boxes[left, :2]), torch.min(boxes[best, 2:], boxes[left, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        left = left[shared / (areas[best] + areas[left] - shared) <= iou_threshold]
    return torch.cat(kept)


try:
    import torchvision
except RuntimeError:
    library = torch.library.Library("torchvision", "DEF")
    for operator in OPERATORS:
        library.define(operator + SIGNATURE)
    import torchvision

    torchvision.ops.nms = nms

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
