"""What every test starts from."""

from __future__ import annotations

import signal

# A runner in the background may have been started with interrupts ignored, and every process it
# starts inherits that. Tests interrupt themselves; without this they would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
