"""All other systems that the paper names, by family."""
