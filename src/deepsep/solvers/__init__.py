"""The exact TSVM: the paths ``cccp`` and ``single_loop``, which use ``newton``, which uses ``rows``."""
