"""The in-context network: what its answers may depend on, and its files."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from deepsep.errors import ModelFileError, VersionError
from deepsep.networks.in_context_network import (
    UNLABELED,
    InContextNetwork,
    Sizes,
    cell_features,
    column_statistics,
    draw_identities,
    load_network,
    save_network,
)

SIZES = Sizes(width=16, inducing=6, column_blocks=2, row_blocks=2, context_blocks=3, context_heads=4)
N_CONTEXT, N_ASKED, N_COLUMNS, N_CLASSES = 30, 12, 5, 3


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = InContextNetwork(SIZES)
    # New blocks change nothing, so their outputs must not be zero for a test to mean something.
    for parameter in network.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.2)
    return network.eval().requires_grad_(False)


@pytest.fixture
def table():
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(2, N_CONTEXT + N_ASKED, N_COLUMNS, generator=generator)
    values[..., 1] = values[..., 1].round()
    labels = torch.full((2, N_CONTEXT), UNLABELED)
    labels[:, :9] = torch.arange(9) % N_CLASSES
    identities = draw_identities(2, N_COLUMNS, SIZES, generator=generator)
    return values, labels, torch.full((2,), N_CLASSES), identities


def test_an_asked_row_does_not_depend_on_what_else_is_asked(network, table):
    values, labels, n_classes, identities = table
    memory = network.encode(values[:, :N_CONTEXT], labels, n_classes, identities)
    asked = values[:, N_CONTEXT:].clone()
    before = network.answer(memory, asked)
    asked[:, 1:] = 100 * torch.randn(2, N_ASKED - 1, N_COLUMNS)
    assert torch.equal(network.answer(memory, asked)[:, 0], before[:, 0])


def test_asked_rows_do_not_change_the_context(network, table):
    values, labels, n_classes, identities = table
    before = network(values, labels, n_classes, identities)
    values = values.clone()
    values[:, N_CONTEXT:] *= -50
    after = network(values, labels, n_classes, identities)
    assert torch.equal(before.logits[:, :N_CONTEXT], after.logits[:, :N_CONTEXT])
    assert torch.equal(before.log_shares, after.log_shares)


@pytest.mark.parametrize("components", [False, True])
def test_a_remembered_context_gives_the_answers_of_the_joint_pass(network, table, components):
    values, labels, n_classes, identities = table
    spectrum = -torch.arange(float(N_COLUMNS)).expand(2, -1) if components else None
    joint = network(values, labels, n_classes, identities, spectrum)
    memory = network.encode(values[:, :N_CONTEXT], labels, n_classes, identities, spectrum)
    answers = torch.cat([network.answer(memory, tile) for tile in values[:, N_CONTEXT:].split(5, 1)], 1)
    torch.testing.assert_close(torch.cat([memory.prediction.logits, answers], 1), joint.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(memory.prediction.log_shares, joint.log_shares, rtol=1e-4, atol=1e-4)


def test_the_order_of_the_context_does_not_matter(network, table):
    values, labels, n_classes, identities = table
    order = torch.randperm(N_CONTEXT, generator=torch.Generator().manual_seed(2))
    shuffled = torch.cat([values[:, order], values[:, N_CONTEXT:]], 1)
    before = network(values, labels, n_classes, identities)
    after = network(shuffled, labels[:, order], n_classes, identities)
    torch.testing.assert_close(after.logits[:, N_CONTEXT:], before.logits[:, N_CONTEXT:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(after.log_shares, before.log_shares, rtol=1e-4, atol=1e-4)


def test_probabilities_and_shares_are_of_the_classes_of_the_table(network, table):
    values, labels, _, identities = table
    prediction = network(values, labels, torch.tensor([2, N_CLASSES]), identities)
    for log_shares, logits, n in zip(prediction.log_shares, prediction.logits, (2, N_CLASSES), strict=True):
        assert log_shares.exp()[:n].sum() == pytest.approx(1, abs=1e-5)
        assert torch.all(logits.softmax(-1)[:, n:] == 0)
    assert torch.all(prediction.concentration > 0)


def test_without_unlabeled_rows_the_shares_start_from_those_of_the_labels():
    network = InContextNetwork(SIZES).eval()
    labels = torch.tensor([[0] * 6 + [1] * 2])
    identities = torch.zeros(1, 2, SIZES.identity)
    with torch.no_grad():
        prediction = network(torch.randn(1, 10, 2), labels, torch.tensor([2]), identities)
    assert prediction.log_shares.exp()[0, 0] == pytest.approx(0.75, abs=1e-3)


def test_cells_ignore_units_and_the_number_of_rows():
    values = torch.randn(1, 200, 3, generator=torch.Generator().manual_seed(0))
    features = cell_features(values, column_statistics(values))
    scaled = 1000 * values + 5
    torch.testing.assert_close(cell_features(scaled, column_statistics(scaled)), features, rtol=1e-3, atol=1e-3)
    twice = torch.cat([values, values], 1)
    again = cell_features(values, column_statistics(twice))
    torch.testing.assert_close(again[..., 1], features[..., 1])


def test_a_constant_column_gives_zeros():
    values = torch.full((1, 50, 1), 1e6 / 3)
    assert cell_features(values, column_statistics(values))[..., :2].abs().max() < 0.02


def test_the_default_network_fits_in_16_megabytes_of_half_precision():
    with torch.device("meta"):
        network = InContextNetwork()
    assert 2 * sum(parameter.numel() for parameter in network.parameters()) <= 16e6


def test_a_saved_network_answers_alike(network, table, tmp_path):
    save_network(tmp_path / "weights.safetensors", network, tables_seen=7)
    loaded, seen = load_network(tmp_path / "weights.safetensors")
    assert seen == 7
    assert loaded.sizes == SIZES
    assert [path.name for path in tmp_path.iterdir()] == ["weights.safetensors"]
    expected = network(*table).logits
    torch.testing.assert_close(loaded(*table).logits, expected, rtol=0.05, atol=0.05)


def test_errors_of_files(network, tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        load_network(tmp_path / "none.safetensors")
    path = tmp_path / "weights.safetensors"
    save_network(path, network, tables_seen=0)
    whole, tensors = path.read_bytes(), load_file(path)
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match="damaged"):
            load_network(path)
    path.write_bytes(whole.replace(b'"format_version":"1"', b'"format_version":"9"'))
    with pytest.raises(VersionError, match="has format 9"):
        load_network(path)
    save_file(tensors, path)
    with pytest.raises(VersionError, match="has format None"):
        load_network(path)


def test_weights_of_other_shapes_are_named(network, tmp_path):
    path = tmp_path / "weights.safetensors"
    other = dict(network.state_dict())
    other["cell.weight"] = other["cell.weight"][:, :4]
    save_network(path, network, tables_seen=0, state=other)
    with pytest.raises(ModelFileError, match=r"'cell.weight' has shape \(16, 4\), expected \(16, 8\)"):
        load_network(path)
    del other["cell.weight"]
    save_network(path, network, tables_seen=0, state=other)
    with pytest.raises(ModelFileError, match=r"lacks the weights 'cell.weight'"):
        load_network(path)
