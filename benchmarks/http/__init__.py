"""FeltDB over HTTP with a key, side by side with views that do nothing and with the reference server."""
