"""Networks that agree with themselves under noise, or should be sure."""
