"""Store models as folders of files: plain values, arrays, and other libraries' classifiers in safe formats."""
