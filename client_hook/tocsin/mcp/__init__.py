"""Tools for coding agents over the Model Context Protocol (MCP).

One definition of the tools serves both transports: ``tocsin mcp`` answers over stdio and asks a server by
URL and token; a server answers at ``/mcp`` and asks its own HTTP API with the token of the request.
"""
