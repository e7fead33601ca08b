"""What ``benchmark_speed.py`` measures, a file for each subcommand and what they share."""
