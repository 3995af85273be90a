"""Open a saved model as a model of a table, if it is one."""

from __future__ import annotations

import os
from typing import Any

from deepsep import models
from deepsep.core.model_parts import is_pipeline
from deepsep.errors import DataError, ModelFileError
from deepsep.model.table_model import TableModel
from deepsep.model.training_table import TableOrigin
from deepsep.table.columns import UsefulColumns


def load(path: str | os.PathLike[str], *, encoder: Any = None) -> Any:
    """Open a saved model.

    Every hash is checked before anything is built, and nothing in the folder is executed.

    Parameters
    ----------
    path : str or path
        The folder that ``save`` wrote.
    encoder : callable or torch.nn.Module, optional
        The encoder of a model with an encoder of your own, since the folder holds only its weights: the module itself,
        or a function that makes it.

    Returns
    -------
    TableModel or estimator
        The saved model; its predictions are the same to the last bit. ``provenance_`` says where it comes from: the
        name of the folder, the method, when and by which version of deepsep it was written, the fingerprint of the
        training data, and a hash of the whole model.

    Raises
    ------
    ModelFileError
        If the folder is not a model, is damaged or edited, or names types that no model needs.
    VersionError
        If it was written in a newer format.

    Warns
    -----
    DeepSepWarning
        If the model was written with another version of deepsep, or of scikit-learn for a pipeline.
    """
    model = models.load(path, encoder=encoder)
    if not (is_pipeline(model) and isinstance(model[0], UsefulColumns)):
        return model
    table_model = TableModel(model.steps, transform_input=model.transform_input, memory=None, verbose=model.verbose)
    table_model.provenance_ = model.provenance_
    table_model.training_profile_ = getattr(model, "training_profile_", None)
    try:
        table_model.origin_ = None if model.origin_ is None else TableOrigin.from_plain(model.origin_)
    except (TypeError, ValueError, DataError) as error:
        raise ModelFileError(
            f"{path}: its manifest does not say how its table was read ({error}). Save the model again."
        ) from error
    return table_model
