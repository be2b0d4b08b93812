"""Settings that have to stand before CUDA starts in this process."""

from executor.models.cublas import pin_cublas

pin_cublas()
