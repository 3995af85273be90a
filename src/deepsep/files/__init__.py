"""Models as folders of files: plain values, arrays, and classifiers of other libraries in safe formats."""
