"""Drawing only: one self-contained page of plain arrays, tables and text."""
