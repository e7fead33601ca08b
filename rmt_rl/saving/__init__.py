"""Agents as files: SB3's zip, looked at before it is unpickled, and plain data that executes nothing."""
