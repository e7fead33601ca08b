"""What several tasks share: a module for each family, `asking` for all but TMaze."""
