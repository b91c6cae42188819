"""Support for async code: run it without an event loop, shield it, bridge threads and event loops."""
