"""Settings of how the files of a table are read."""

from __future__ import annotations

from dataclasses import dataclass

from deepsep.errors import DataError, Setting


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Settings of how the files of a table are read.

    Parameters
    ----------
    encoding, delimiter : str, optional
        Encoding and delimiter of a text file. None: detected.
    sheet : str or int, default=0
        Sheet of an Excel file.
    skip_rows : int, default=0
        Lines above the header of a text or Excel file, such as a title.
    dayfirst : bool, optional
        Whether the day comes first in dates such as 05/03/2025 in a text or Excel file. None: as the column shows; if
        it does not, they stay text.
    """

    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | int = 0
    skip_rows: int = 0
    dayfirst: bool | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.skip_rows, int) and self.skip_rows >= 0):
            raise DataError("{skip}; pass an integer of at least 0.", skip=Setting("skip_rows", self.skip_rows))


AS_DETECTED = Reading()
