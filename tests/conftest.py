"""Settings that have to stand before any test module is imported."""

import os
import signal

from hypothesis import settings

# OpenMP's idle threads spin by default, and take the cores from the processes that a test watches.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell that runs the tests in its background has them ignore SIGINT, and every process that they start with them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A deadline per example measures the machine's other load; hanging is caught by pytest's faulthandler_timeout.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
