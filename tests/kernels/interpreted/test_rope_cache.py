from tests.kernels.contracts.rope_cache import RopeCacheContract


class TestRopeCacheInterpreted(RopeCacheContract):
    pass
