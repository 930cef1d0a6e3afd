"""Data: texts, tokenizers, named sets, batches. Arrays here are numpy's; tasks turn them to torch.

Nothing of a file is trusted: what cannot be read is a `UserError` that says what to do.
"""
