"""Import what a first optimizer step would import, so that no search of all objects visits it."""

import torch._dynamo  # noqa: F401
