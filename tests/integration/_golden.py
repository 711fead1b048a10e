"""Run golden cases on a Spark master, for a process of its own: MASTER FOLDER NAME …"""

from __future__ import annotations

import sys
from pathlib import Path

from golden.case import load

from tidegate.session import Session


def main(master: str, folder: str, *names: str) -> None:
    with Session(master=master, buckets=2) as session:
        for name in names:
            session.run(load(name).program, once=True, out=str(Path(folder, name))).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
