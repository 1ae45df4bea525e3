"""The demo: real PyTorch trainings on synthetic data, monitored by a real server."""
