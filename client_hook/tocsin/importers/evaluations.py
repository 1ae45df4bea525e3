"""Detect lines of an evaluation: ``Validation: loss=5.1``, ``[Eval] step 50 loss: 5.2``.

Their loss is not that of the training, and would look like a spike.
"""

from __future__ import annotations

import re

_EVALUATION = re.compile(
    r"(?<![\w/.\-])(?:validation|validating|validate|valid|val|evaluation|evaluating|evaluate|eval|testing|test)"
    r"(?:\s*(?:[:|\])>\[(–—-]|$)|\s+(?:results?|sets?|subset|split|metrics?|summary|epochs?|steps?|iters?|on)\b)",
    re.IGNORECASE,
)
_TRAINING = re.compile(r"(?<![\w/.\-])train(?:ing)?\b", re.IGNORECASE)
_PART = re.compile(r"(?<!\d)(\d{1,18})\s*/\s*(\d{1,18})")
_ITERATION = re.compile(
    r"\b(?:batch|iter(?:ation)?)(?:_idx)?\s*(?:[#:=\[(]+\s*)?\d+(?!\s*/|\d)", re.IGNORECASE
)


def announces_evaluation(before: str) -> bool:
    """Return whether the text before the first value announces an evaluation."""
    return _EVALUATION.search(before) is not None and _TRAINING.search(before) is None


def is_part(before: str) -> bool:
    """Return whether the evaluation continues after this line: a batch, or an incomplete progress bar."""
    counts = [(int(done), int(total)) for done, total in _PART.findall(before)]
    if counts:
        done, total = counts[-1]
        return done < total - 1
    return _ITERATION.search(before) is not None
