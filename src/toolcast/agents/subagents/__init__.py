"""Sub-agents (elves), which an agent or an application starts."""
