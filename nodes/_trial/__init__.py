"""The steps of a trial (PROClaim)."""
