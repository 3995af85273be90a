"""The frozen tables that measure progress."""

import json
import sys

import numpy as np
import pytest
import torch

from deepsep.networks.in_context_network import UNLABELED, InContextNetwork, Sizes, draw_identities, save_network
from pretraining import meter


@pytest.fixture
def network():
    torch.manual_seed(0)
    network = InContextNetwork(Sizes(16, 2, 4, 1, 2, 2, 2, 2)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return network


def some_tables(n: int = 9) -> list[meter.Table]:
    rng = np.random.default_rng(0)
    tables = []
    for i in range(n):
        values = rng.normal(size=(meter.ROWS, 3 + i % 3)).astype(np.float16)
        classes = np.concatenate([np.arange(2 + i % 2), rng.integers(0, 2 + i % 2, meter.ROWS - 2 - i % 2)])
        tables.append(meter.Table("odd" if i % 2 else "even", values, classes, 20 + i, (50.0 + i, 0.7)))
    return tables


def test_a_file_gives_back_its_tables(tmp_path):
    meter.write(tmp_path / "meter.npz", some_tables())
    for wrote, read in zip(some_tables(), meter.read(tmp_path / "meter.npz"), strict=True):
        assert (read.stratum, read.labeled, read.trees) == (wrote.stratum, wrote.labeled, wrote.trees)
        np.testing.assert_array_equal(read.values, wrote.values)
        np.testing.assert_array_equal(read.classes, wrote.classes)


def test_scores_are_those_of_one_table_at_a_time(network, monkeypatch):
    tables = [table._replace(values=table.values.astype(np.float32)) for table in some_tables()]
    together = meter.score(network, tables, "cpu")
    monkeypatch.setitem(meter.MAX_CELLS_AT_ONCE, "cpu", 1)
    np.testing.assert_allclose(meter.score(network, tables, "cpu"), together, rtol=1e-4)
    table = tables[4]
    generator = torch.Generator().manual_seed(table.values.shape[1])
    labels = np.where(np.arange(meter.ROWS) < table.labeled, table.classes, UNLABELED)
    with torch.no_grad():
        logits = network(
            torch.from_numpy(table.values)[None],
            torch.from_numpy(labels)[None],
            torch.tensor([2]),
            draw_identities(1, table.values.shape[1], network.sizes, generator=generator),
        ).logits[0, table.labeled :, :2]
    right = logits.argmax(1).numpy() == table.classes[table.labeled :]
    assert together[4, 0] == pytest.approx(100 * right.mean())


def test_the_log_loss_of_a_sure_mistake_is_finite():
    accuracy, log_loss = meter.scores(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 0]))
    assert accuracy == 50
    assert log_loss == pytest.approx(-(np.log(0.995) + np.log(0.005)) / 2)


def test_the_report_compares_weights_table_by_table(network, tmp_path, capsys):
    meter.write(tmp_path / "meter.npz", some_tables())
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        save_network(tmp_path / name / "average.safetensors", network, tables_seen=5)
    weights = [str(tmp_path / name / "average.safetensors") for name in ("old", "new")]
    meter.main(["score", str(tmp_path / "meter.npz"), *weights, "--log", str(tmp_path / "log.jsonl")])
    lines = capsys.readouterr().out.splitlines()
    compared = [line for line in lines if line.startswith("  new/average - old/average")]
    assert len(compared) == 3, "for all tables and each kind"
    assert all("0.00 ± 0.00" in line for line in compared)
    trees = next(line for line in lines if line.startswith("  extra trees"))
    assert "54.00 ± 0.91" in trees  # 50 to 58: a deviation of 2.74 over three
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["name"] for line in logged] == ["extra trees", "old/average", "new/average"]
    assert logged[0]["all"]["accuracy"] == [54.0, 0.9129]
    assert logged[1]["odd"] == logged[2]["odd"]


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tabicl", None)
    with pytest.raises(SystemExit, match="pip install tabicl"):
        meter.main(["make", str(tmp_path / "meter.npz")])


def test_every_kind_of_table_has_its_share():
    assert sum(stratum.tables for stratum in meter.STRATA.values()) >= 1500
