"""The exact TSVM: the paths ``cccp`` and ``single_loop``, which rest on ``newton``, which rests on ``rows``."""
