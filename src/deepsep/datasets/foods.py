"""Foods of the USDA nutrient database: their nutrition labels, and the aisle of a shop that they belong in."""

from __future__ import annotations

from sklearn.utils import Bunch

from deepsep.datasets.packages import read_shipped

FOODS_SHA256 = "2f0bf5404f6947416028ce96a22ecdfa10b5895709002e3cdda0012a95b9dfcc"

FOODS_DESCR = """Foods: nutrition labels and aisles

{rows:,} foods sold in the United States, one row each, identified by their description.

data      What a nutrition label says of 100 g: {columns} numbers, from energy to potassium. Values that the source does
          not give are missing.
aisle     Five aisles of a shop, made of the source's food groups:
            Fruit and vegetables      fruits and fruit juices; vegetables
            Nuts, beans and soya      nuts and seeds; legumes
            Bread, cakes and cereals  breakfast cereals; baked products; cereal grains and pasta
            Sweets and snacks         sweets; snacks
            Soups and ready meals     soups, sauces and gravies; fast foods; meals and entrees; restaurant foods

The task: predict the aisle from the label. The description would give it away and is not a feature. Other groups (meat
and fish, dairy, fats, drinks, spices, baby food) are left out: two thousand cuts of meat would be a third of the table,
and easy to tell from everything else. Of several foods with equal labels, one is kept.

Source: U.S. Department of Agriculture, Agricultural Research Service, USDA National Nutrient Database for Standard
Reference, Release 24 (2011), via the Debian package cronometer 0.9.9+dfsg1-1. Built by tools/build_foods.py.
Licence: public domain (a work of the United States government).
"""


def load_foods() -> Bunch:
    """Load the nutrition labels of 4,098 foods, and the aisle of a shop that each belongs in.

    The table ships with deepsep; nothing is downloaded. ``deepsep demo`` uses it.

    Returns
    -------
    Bunch
        ``data`` : DataFrame of numbers with missing values, indexed by ``food``, a unique description;
        ``aisle`` : Series of text, indexed by ``food``, in the same order;
        ``DESCR`` : str, a description with source and licence.

    Examples
    --------
    >>> from deepsep.datasets import load_foods
    >>> foods = load_foods()
    >>> foods.data.shape
    (4098, 14)
    >>> foods.aisle["Rice, white, long-grain, regular, raw, enriched"]
    'Bread, cakes and cereals'
    """
    data = read_shipped("foods.parquet", FOODS_SHA256).set_index("food")
    aisle = data.pop("aisle")
    return Bunch(data=data, aisle=aisle, DESCR=FOODS_DESCR.format(rows=len(data), columns=data.shape[1]))
