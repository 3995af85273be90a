"""The exact TSVM: ``tsvm`` (the two paths), ``newton`` (the convex problem), ``_rows`` (the pass over the rows)."""
