"""A language model of a few lines: what it writes into the cache depends on every token before, and so does what it says.

The vector of a position is a digest of the vector before it and the position's token, and the next token is a digest of
the vector and a seed. So whoever reads one wrong byte of the cache says something else from there on, and what should
have been said is known without any cache at all.
"""

import hashlib
from collections.abc import Iterable, Sequence

VECTOR_BYTES = 16
"""What the cache holds of one position."""

VOCABULARY = 50_000


def root_vector(salt: str = "") -> bytes:
    """What stands before the first position."""
    return hashlib.blake2b(salt.encode(), digest_size=VECTOR_BYTES, person=b"root").digest()


def next_vector(vector: bytes, token: int) -> bytes:
    """The vector of the position behind ``vector``, whose token is ``token``."""
    return hashlib.blake2b(vector + token.to_bytes(4, "little"), digest_size=VECTOR_BYTES).digest()


def vectors(tokens: Iterable[int], vector: bytes) -> bytes:
    """The vectors of ``tokens``, which stand behind ``vector``, one after the other."""
    found = bytearray()
    for token in tokens:
        vector = next_vector(vector, token)
        found += vector
    return bytes(found)


def sample(vector: bytes, seed: int) -> int:
    """The token that follows a position."""
    digest = hashlib.blake2b(vector, digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") % VOCABULARY


def move_beams(last: Sequence[bytes], seed: int) -> tuple[list[int], list[int], list[float]]:
    """Parents, tokens and scores of the next beams, from the vectors of the last position of each."""
    parents, tokens, scores = [], [], []
    for place in range(len(last)):
        digest = hashlib.blake2b(b"".join(last), digest_size=24, key=seed.to_bytes(8, "little"), salt=bytes([place]))
        parent, token, score = (int.from_bytes(digest.digest()[at : at + 8], "little") for at in (0, 8, 16))
        parents.append(parent % len(last))
        tokens.append(token % VOCABULARY)
        scores.append(-(score % 1000) / 100)
    return parents, tokens, scores


def continuation(prompt: Sequence[int], count: int, seed: int, salt: str = "") -> list[int]:
    """The ``count`` tokens that follow a prompt."""
    vector = root_vector(salt)
    for token in prompt:
        vector = next_vector(vector, token)
    output: list[int] = []
    while len(output) < count:
        output.append(sample(vector, seed))
        vector = next_vector(vector, output[-1])
    return output


def beams(prompt: Sequence[int], count: int, seed: int, width: int, salt: str = "") -> list[list[int]]:
    """What each of ``width`` beams holds behind the prompt after ``count`` moves."""
    vector = root_vector(salt)
    for token in prompt:
        vector = next_vector(vector, token)
    last = [vector] * width
    outputs: list[list[int]] = [[] for _ in range(width)]
    for _ in range(count):
        parents, tokens, _scores = move_beams(last, seed)
        last = [next_vector(last[parent], token) for parent, token in zip(parents, tokens, strict=True)]
        outputs = [[*outputs[parent], token] for parent, token in zip(parents, tokens, strict=True)]
    return outputs
