"""What an engine counts, read over HTTP."""

import re
from urllib.request import urlopen

PARTS = ("record", "schedule", "launch", "turn", "tell", "device", "manager_wait")


def scrape(port: int) -> str:
    """The metrics of the process at a port of this machine."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5.0) as answer:
        text: str = answer.read().decode()
    return text


class StepTimes:
    """Sums since an engine's start, out of its metrics."""

    def __init__(self, text: str) -> None:
        lines = re.findall(r"^pagehold_engine_(\S+) (\S+)$", text, re.MULTILINE)
        self._values = {name: float(value) for name, value in lines}

    def since(self, before: "StepTimes") -> dict[str, float]:
        """Milliseconds of each part a step, and of a turn; how many steps, turns and tokens there were."""
        grown = {name: value - before._values.get(name, 0.0) for name, value in self._values.items()}
        steps, turns = max(1.0, grown["steps_total"]), max(1.0, grown["turns_total"])
        found = {part: 1000 * grown.get(f'seconds_total{{part="{part}"}}', 0.0) / steps for part in PARTS}
        found["turn_to_reply"] = 1000 * grown["turn_seconds_sum"] / turns
        counts = {"steps": "steps_total", "turns": "turns_total", "tokens": "tokens_generated_total"}
        return found | {name: grown[counter] for name, counter in counts.items()}
