"""Programs on top of the library: only the command line imports them."""
