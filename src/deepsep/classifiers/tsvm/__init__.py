"""The transductive SVM."""
