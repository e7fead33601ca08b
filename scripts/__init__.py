"""Command lines: train, evaluate, watch, and the demonstration."""
