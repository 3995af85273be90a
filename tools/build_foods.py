"""Build the table of foods that ships with deepsep.

The source is the USDA National Nutrient Database for Standard Reference, release 24 (public domain), which the Debian
package ``cronometer`` holds as one XML file per food::

    curl -O http://deb.debian.org/debian/pool/main/c/cronometer/cronometer_0.9.9+dfsg1-1_all.deb
    python tools/build_foods.py cronometer_0.9.9+dfsg1-1_all.deb

It writes ``foods.parquet`` to ``src/deepsep/datasets/data`` and shows its hash, which
``src/deepsep/datasets/shipped.py`` records. The rows and values depend on the package alone; the bytes also on the
version of pyarrow, which is the one of constraints.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

DEB_SHA256 = "6d66c9fe6722c52e100cf563e4d3ced7ce0f585b8594f9bca0b3f76704b8c0ab"
MEMBER = "./usr/share/cronometer/usda_sr24.jar"
FOLDER = "usda_sr24"
DATA = Path(__file__).resolve().parents[1] / "src" / "deepsep" / "datasets" / "data"

# A food's number begins with its food group. The groups of a name are one aisle.
AISLES: dict[str, dict[str, str]] = {
    "Fruit and vegetables": {"09": "fruits and fruit juices", "11": "vegetables"},
    "Nuts, beans and soya": {"12": "nuts and seeds", "16": "legumes"},
    "Bread, cakes and cereals": {"08": "breakfast cereals", "18": "baked products", "20": "cereal grains and pasta"},
    "Sweets and snacks": {"19": "sweets", "25": "snacks"},
    "Soups and ready meals": {
        "06": "soups, sauces and gravies",
        "21": "fast foods",
        "22": "meals and entrees",
        "36": "restaurant foods",
    },
}
# What a nutrition label has, per 100 g.
LABEL = {
    "energy_kcal": "Energy",
    "fat_g": "Fat",
    "saturated_fat_g": "Saturated",
    "cholesterol_mg": "Cholesterol",
    "sodium_mg": "Sodium",
    "carbohydrate_g": "Carbs",
    "fibre_g": "Fiber",
    "sugar_g": "Sugars",
    "protein_g": "Protein",
    "vitamin_a_iu": "Vitamin A",
    "vitamin_c_mg": "Vitamin C",
    "calcium_mg": "Calcium",
    "iron_mg": "Iron",
    "potassium_mg": "Potassium",
}


def read_deb(package: Path) -> bytes:
    """Return the archive of foods in the Debian package: an ar file, in it a tar file, in it a zip file."""
    content = package.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != DEB_SHA256:
        raise SystemExit(f"{package} has the SHA-256 {found}, not {DEB_SHA256}: it is not cronometer 0.9.9+dfsg1-1.")
    start = len(b"!<arch>\n")
    while start < len(content):
        name, size = content[start : start + 16].decode().strip(" /"), int(content[start + 48 : start + 58])
        start += 60
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(content[start : start + size])) as archive:
                member = archive.extractfile(MEMBER)
                assert member is not None
                return member.read()
        start += size + size % 2
    raise SystemExit(f"{package} has no data.tar.")


def read_foods(jar: bytes) -> pd.DataFrame:
    """Return the aisle and the nutrition label of every food of the release; foods of earlier releases are left out."""
    aisle_of = {group: aisle for aisle, groups in AISLES.items() for group in groups}
    rows = []
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        for line in archive.read(f"{FOLDER}/foods.index").decode().splitlines():
            number = line.partition("|")[0]
            if number[:2] not in aisle_of:
                continue
            food = ET.fromstring(archive.read(f"{FOLDER}/{number}.xml"))
            amount = {nutrient.get("name"): float(nutrient.get("amount", "nan")) for nutrient in food.iter("nutrient")}
            values = {ours: amount.get(theirs) for ours, theirs in LABEL.items()}
            rows.append(
                {"number": number, "food": food.get("name", "").strip(), "aisle": aisle_of[number[:2]]} | values
            )
    return pd.DataFrame(rows).sort_values("number", ignore_index=True)


def build(foods: pd.DataFrame) -> pd.DataFrame:
    """Return the table: one row of each label, since labelling one of several equal rows would give the others away."""
    table = foods.drop(columns="number").drop_duplicates([*LABEL], ignore_index=True)
    return table.astype(dict.fromkeys(LABEL, "float32"))


def main() -> None:
    """Read the package and write the table."""
    parser = argparse.ArgumentParser(description="Build the table of foods that ships with deepsep.")
    parser.add_argument("package", type=Path, help="cronometer_0.9.9+dfsg1-1_all.deb")
    parser.add_argument("-o", "--output", type=Path, default=DATA, help="folder of the file")
    arguments = parser.parse_args()
    table = build(read_foods(read_deb(arguments.package)))
    path = arguments.output / "foods.parquet"
    arrow = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    pq.write_table(arrow, path, compression="zstd", compression_level=19)
    data = path.read_bytes()
    print(f"{path.name}: {len(table)} rows, {table.shape[1]} columns, {len(data)} bytes")
    print(f"  sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
