"""Networks whose predictions agree under noise, or should be confident."""
