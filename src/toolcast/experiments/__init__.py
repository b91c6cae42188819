"""ContReAct experiments: configuration, cycles, memory, similarity, event log, PEI, reports, grids."""
