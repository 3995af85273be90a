"""Networks taught by labels that spread over neighbours in their embedding."""
