from tests.kernels.contracts.rope_cache import RopeCacheContract


class TestRopeCacheInTorch(RopeCacheContract):
    pass
