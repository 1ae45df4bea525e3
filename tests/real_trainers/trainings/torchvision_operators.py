"""Makes torchvision importable beside a CPU torch: import this first.

The wheels of torchvision on PyPI are built for CUDA. Their compiled operators do not load beside a CPU torch,
and the import fails where it describes two of them. No training here calls them, so declaring them is enough.
"""

from __future__ import annotations

import torch

OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

try:
    import torchvision  # noqa: F401
except RuntimeError:
    library = torch.library.Library("torchvision", "DEF")
    for operator in OPERATORS:
        library.define(operator + SIGNATURE)
