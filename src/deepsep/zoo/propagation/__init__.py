"""Networks trained on labels that spread over neighbours in their embedding."""
