"""A deterministic world around the rules of the engine: one seed is one whole run, faults and all."""
