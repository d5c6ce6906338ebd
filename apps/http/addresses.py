"""Addresses of what was made, for the header that tells them."""

from urllib.parse import quote


def location(*segments: str) -> dict[str, str]:
    """Return the `Location` of something new: its id may hold anything, a header only what an address may."""
    return {"Location": "/".join(("/v1", *(quote(segment, safe="") for segment in segments)))}
