"""Methods on a graph of nearest neighbours."""
