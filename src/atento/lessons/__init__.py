"""The lectures, run through the library: their worked examples, what they print, what is right."""
