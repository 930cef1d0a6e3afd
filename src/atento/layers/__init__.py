"""Modules that own parameters and buffers, and hand what they hold to the door."""
