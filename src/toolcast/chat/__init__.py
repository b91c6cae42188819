"""The chat state machine: events, context, transition table, guards, actions, effects."""
