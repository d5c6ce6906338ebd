"""The operator's journey through the console, in steps by theme, and the small app whose work it watches.

`test_console_journey.py` walks them in order. Each step clicks what the page at hand offers, and asserts what somebody
would have to see there. Not here: single pages (`test_console_pages.py`), people with other rights (`test_console.py`).
"""
