"""Rules for throughput, hardware and the training process."""
