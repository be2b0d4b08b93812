"""Cached prefixes drawn as a tree whose lines are runs of blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rich.text import Text
from rich.tree import Tree

from pagehold.admin.v1.prefix_pb2 import PrefixNode
from pagehold.client.commands.wording import block_name
from pagehold.client.output import console, name_of

WIDTH_WITHOUT_IDS, ID_WIDTH = 64, 6


@dataclass(slots=True)
class Content:
    """One prefix: the blocks that hold it (one on each tier at most), and what follows."""

    nodes: list[PrefixNode]
    children: list["Content"] = field(default_factory=list)


def draw(nodes: Sequence[PrefixNode]) -> Tree:
    """The tree of a walk's nodes, which name each block before its descendants."""
    tree = Tree("prefix cache", guide_style="dim")
    for content in _contents(nodes):
        _add(tree, content)
    return tree


def _contents(nodes: Sequence[PrefixNode]) -> list[Content]:
    """The walk's order and depths as a tree."""
    roots: list[Content] = []
    path: list[Content] = []
    for (depth, _), twins in groupby(nodes, key=lambda node: (node.depth, node.hash)):
        content = Content(list(twins))
        del path[depth:]
        (path[-1].children if path else roots).append(content)
        path.append(content)
    return roots


def _add(tree: Tree, content: Content) -> None:
    """A line for the run that begins here, and below it what branches off at the run's end."""
    pending = [(tree, content)]
    while pending:
        branch, first = pending.pop()
        run = [first]
        while len(run[-1].children) == 1:
            run.append(run[-1].children[0])
        line = branch.add(_line(run))
        pending.extend((line, child) for child in reversed(run[-1].children))


def _line(run: list[Content]) -> Text:
    names = [" = ".join(block_name(node.id) for node in content.nodes) for content in run]
    shown = " > ".join(names if len(names) <= 6 else [*names[:4], "…", names[-1]])
    states = [name_of(content.nodes[0], "state") for content in run]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    line = Text(f"{shown}  ", style="bold")
    line.append(f"{counted}{_marks(run)}", style="not bold")
    ids = [id_ for content in run for id_ in content.nodes[0].ids]
    room = (console().width - WIDTH_WITHOUT_IDS) // ID_WIDTH
    if ids and room > 0:
        more = " …" if len(ids) > room else ""
        line.append(f"  {len(ids)} tokens: {' '.join(map(str, ids[:room]))}{more}", style="not bold dim")
    return line


def _marks(run: list[Content]) -> str:
    references = max(node.references for content in run for node in content.nodes)
    marks = [f"refs {references}"] if references else []
    if any(node.pinned for content in run for node in content.nodes):
        marks.append("pinned")
    if run[0].nodes[0].detached:
        marks.append("detached: what was before it is gone")
    return "".join(f", {mark}" for mark in marks)
