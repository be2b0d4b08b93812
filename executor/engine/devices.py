"""The device that a place has, ready to execute steps."""

from collections.abc import Callable

from executor.engine.device import Device
from executor.engine.gpu.compilations import Compilations
from executor.engine.gpu.device import CudaDevice, Extent
from executor.engine.gpu.placement import Place
from executor.engine.gpu.runtime import CudaRuntime
from executor.engine.gpu.warmup import warm_up
from executor.engine.host_device import HostDevice
from executor.engine.model_inputs import Tables
from executor.engine.settings import EngineSettings
from executor.manager import PoolMapping
from executor.models.errors import UnsupportedModel
from executor.models.model import PagedModel


def make_device(
    settings: EngineSettings,
    place: Place,
    mapping: PoolMapping,
    model: PagedModel,
    vocabulary: int,
    compilations: Compilations,
    news: Callable[[], None],
) -> Device:
    """A device over a pool. On a GPU it is warmed up, which takes seconds.

    Raises UnsupportedModel if the pool's blocks lie elsewhere than the model computes.
    """
    if mapping.torch_device() != place.device:
        raise UnsupportedModel(
            f"pool {mapping.name} lies on {mapping.torch_device()}, but device is {settings.device}, {place.device} here"
        )
    geometry = mapping.ledger.geometry
    tables = Tables(geometry.max_sequences, geometry.max_table, geometry.tokens_per_block)
    if not place.gpu_uuid:
        return HostDevice(model, mapping, tables, vocabulary, news)
    extent = Extent(settings.max_running, settings.step_tokens)
    device = CudaDevice(
        model,
        mapping,
        tables,
        vocabulary,
        extent,
        CudaRuntime(place.device, compilations),
        news,
        records=settings.record_steps,
    )
    warm_up(device)
    compilations.serving = True
    return device
