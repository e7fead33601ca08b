"""Trainings that go on where they were, to the bit, after a crash or a kill."""
