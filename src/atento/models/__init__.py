"""Models: a config, the modules built from it, generation, and their files."""
