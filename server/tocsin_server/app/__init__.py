"""The server process: the FastAPI application and the uvicorn runner."""
