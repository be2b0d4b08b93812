"""Settings that have to stand before any test module is imported."""

import os

from hypothesis import settings

# OpenMP's idle threads spin by default, and take the cores from the processes that a test watches.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A deadline per example measures the machine's other load; hanging is caught by pytest's faulthandler_timeout.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
