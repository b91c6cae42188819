"""Agents: the turn loop, permissions, sub-agents, sessions, MCP and tool search."""
