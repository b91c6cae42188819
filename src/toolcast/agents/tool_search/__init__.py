"""Tool search: selects which of many tools a request offers."""
