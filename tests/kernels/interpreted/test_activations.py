from tests.kernels.contracts.activations import ActivationsContract


class TestActivationsInterpreted(ActivationsContract):
    pass
