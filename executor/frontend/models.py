"""The models that can be asked: what engines say of them, and their tokenizers."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import structlog

from executor.frontend.errors import InvalidRequest, NotFound, NotServing
from executor.frontend.threads import Threads
from executor.frontend.tokenizer import Tokenizer, load_tokenizer
from executor.frontend.validation import LONGEST_TEXT, PromptLimits
from pagehold.blockmgr.v1 import pool_pb2
from pagehold.engine.v1 import description_pb2

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Model:
    """One model with its tokenizer, and the pool that its engines work in."""

    description: description_pb2.ModelDescription
    pool: pool_pb2.Pool
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        """The name that requests use."""
        return self.description.name

    @property
    def vocabulary(self) -> int:
        """Ids below it may be sent: the model computes them, and the tokenizer knows them."""
        return min(self.description.vocabulary, self.tokenizer.size)

    @property
    def limits(self) -> PromptLimits:
        """What prompts may be at most. Where a token stands for so much text at most, the context is a limit for text."""
        max_length = self.description.max_length
        longest = max_length * self.tokenizer.longest_token
        return PromptLimits(self.vocabulary, max_length, min(longest, LONGEST_TEXT) if longest else LONGEST_TEXT)


class Models:
    """Models by name. Known from the first time that an engine was heard, and still known while it is away."""

    def __init__(self, threads: Threads, wait_seconds: float) -> None:
        """Load tokenizers in ``threads``. Whoever asks for a model before any is known waits up to ``wait_seconds``."""
        self._threads = threads
        self._wait_seconds = wait_seconds
        self._models: dict[str, Model] = {}
        self._known = asyncio.Event()

    @property
    def all(self) -> list[Model]:
        """Every model, by name."""
        return [self._models[name] for name in sorted(self._models)]

    async def learn(self, described: description_pb2.DescribeResponse) -> None:
        """An engine has said what it runs."""
        known, description = self._models.get(described.model.name), described.model
        tokenizer = known.tokenizer if known is not None and known.description == description else None
        if tokenizer is None:
            folder = Path(description.folder)
            tokenizer = await self._threads.run(load_tokenizer, folder, description.vocabulary)
            log.info("model", name=description.name, revision=description.revision, vocabulary=tokenizer.size)
        self._models[description.name] = Model(description, described.pool, tokenizer)
        self._known.set()

    async def find(self, name: str | None) -> Model:
        """A model by name, or the only one.

        Raises NotServing while none is known, NotFound for another name, InvalidRequest where a name is needed.
        """
        await self.known()
        if name is None:
            if len(self._models) > 1:
                text = f"is absent, but there are {len(self._models)} models: {', '.join(sorted(self._models))}"
                raise InvalidRequest.of("model", text)
            return next(iter(self._models.values()))
        if name not in self._models:
            raise NotFound(f"no model is called {name!r}; there is {', '.join(sorted(self._models))}")
        return self._models[name]

    async def known(self) -> None:
        """Wait until a model is known. Raises NotServing if none is in time."""
        if self._known.is_set():
            return
        try:
            await asyncio.wait_for(self._known.wait(), self._wait_seconds)
        except TimeoutError:
            raise NotServing("no engine has been heard of yet") from None
