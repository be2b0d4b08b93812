"""A stand-in; see `tests.fake_gpu`."""
