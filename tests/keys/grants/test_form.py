"""The signed form against the reference's vectors, and the strict reader."""
