"""MCP servers of the chat commands, from `mcp.json` files."""
