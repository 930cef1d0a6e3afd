"""Training: what a task offers, the loop, its optimizer, schedule and checkpoints."""
