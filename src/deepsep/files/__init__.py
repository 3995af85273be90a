"""Model folders: plain values, arrays, and other libraries' classifiers in safe formats."""
