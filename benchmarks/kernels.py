"""How fast the kernels are. Needs a GPU of 80 GB or more.

    python -m benchmarks.kernels [--sweep]

Prints one table, last. `--sweep` first times attention with other tile shapes.
"""

from __future__ import annotations

import argparse
from itertools import chain

from benchmarks import attention, row_kernels


def main() -> None:
    """Measure everything, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true", help="also time other tile shapes of attention")
    asked = parser.parse_args()
    table = list(chain(row_kernels.rows(), attention.rows(asked.sweep)))
    print("\n".join(table))


if __name__ == "__main__":
    main()
