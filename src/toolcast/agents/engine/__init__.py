"""The turn loop of an agent: model requests, the tool phase, limits, typed output, compaction, history."""
