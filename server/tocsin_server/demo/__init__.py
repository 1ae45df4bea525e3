"""The demo: real PyTorch trainings on data they make themselves, watched by a real server."""
