#!/usr/bin/env python3
"""Makes the two change logs that Debian's policy wants in a package.

Usage: changelog.py CHANGELOG.md OUTPUT VERSION MAINTAINER

The second names the version only: what has changed is in the first. The date is SOURCE_DATE_EPOCH,
or now.
"""

import gzip
import os
import sys
import time
from email.utils import formatdate
from pathlib import Path


def pack(path, data):
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def main():
    changes, output, version, maintainer = sys.argv[1:]
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    pack(folder / "changelog.gz", Path(changes).read_bytes())
    date = formatdate(float(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    entry = (f"kvgate ({version}) unstable; urgency=medium\n\n"
             f"  * Version {version}: see changelog.gz.\n\n -- {maintainer}  {date}\n")
    pack(folder / "changelog.Debian.gz", entry.encode())


if __name__ == "__main__":
    main()
