"""An app with programs that behave badly, for processes of their own."""
