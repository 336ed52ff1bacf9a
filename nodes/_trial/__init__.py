"""The settings, steps, nodes and edges of a trial (PROClaim)."""
