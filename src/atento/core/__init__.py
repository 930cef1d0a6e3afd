"""The door: one `attend`, and the masks, scores, biases and positions that say how.

Needs torch and the standard library alone. The public names stand in each file's `__all__`;
`import atento` offers them all.
"""
