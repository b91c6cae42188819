"""Permissions of tool calls: modes, rules, protected paths, shell commands."""
