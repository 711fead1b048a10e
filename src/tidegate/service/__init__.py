"""The HTTP service over a live session. Needs the extra `serve`: Starlette and Uvicorn."""
