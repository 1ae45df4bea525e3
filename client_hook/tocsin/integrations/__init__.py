"""Optional third-party software: FSDP, psutil, NVML."""
