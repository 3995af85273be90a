"""One schedule of training over several runs, and what makes its steps faster."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from deepsep.errors import ModelFileError
from deepsep.networks.in_context_network import InContextNetwork, Sizes, draw_identities, load_network
from pretraining import checkpoint, speed, train

SETTINGS = ["--tiny", "--optimizer", "muon", "--minutes", "5", "--decay-from", "0.5", "--compile", "none"]


@pytest.fixture
def small(monkeypatch):
    """A network and tables small enough for many steps."""
    monkeypatch.setattr(train, "TINY_SIZES", Sizes(8, 2, 4, 1, 1, 2, 2, 2))
    monkeypatch.setattr(train, "TINY_SHAPES", [train.Shape(24, 8, 4, 4), train.Shape(16, 8, 6, 4)])
    monkeypatch.setattr(train, "WARM_UP_STEPS", 6)


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    state = checkpoint.load(folder / "checkpoint")
    flat = {f"{kind}.{name}": value for kind in ("weights", "average") for name, value in state[kind].items()}
    for i, optimiser in enumerate(state["optimisers"]):
        for j, slots in optimiser["state"].items():
            flat |= {f"{i}.{j}.{name}": value for name, value in slots.items()}
    return flat


def stop_after(monkeypatch, steps: int):
    """Let the clock run out after a number of steps."""
    taken, step = [], train.Trainer.step

    def counted(self, lr):
        step(self, lr)
        taken.append(lr)
        if len(taken) == steps:
            monkeypatch.setattr(train.time, "perf_counter", lambda: float("inf"))

    monkeypatch.setattr(train.Trainer, "step", counted)
    return taken


def test_two_runs_make_the_same_weights_as_one(small, tmp_path, monkeypatch):
    schedule = ["--schedule", "64"]  # 16 steps of four tables
    train.main([*SETTINGS, *schedule, "--out", str(tmp_path / "one")])
    with monkeypatch.context() as patch:
        first = stop_after(patch, 7)
        train.main([*SETTINGS, *schedule, "--out", str(tmp_path / "two")])
    halfway = checkpoint.facts(tmp_path / "two" / "checkpoint")
    assert halfway["step_number"] == 7
    with monkeypatch.context() as patch:
        second = stop_after(patch, 100)
        train.main(["--resume", str(tmp_path / "two"), "--minutes", "5"])
    assert len(first) + len(second) == 16
    one, two = tensors(tmp_path / "one"), tensors(tmp_path / "two")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    rates = np.array(first + second)
    assert (np.diff(rates[:6]) > 0).all(), "one warm-up"
    assert (np.diff(rates[6:]) <= 0).all(), "and one decay"
    assert rates[-1] < 0.2 * rates.max()


def test_a_run_takes_its_settings_from_the_one_before(small, tmp_path, capsys):
    out = str(tmp_path / "run")
    train.main([*SETTINGS, "--schedule", "8", "--seed", "5", "--out", out])
    options = train.parse(["--resume", out])
    assert (options.seed, options.optimizer, options.schedule, options.decay_from) == (5, "muon", 8, 0.5)
    assert options.out == tmp_path / "run"
    with pytest.raises(SystemExit):
        train.parse(["--resume", out, "--seed", "6"])
    assert "--seed is 5" in capsys.readouterr().err
    assert train.parse(["--resume", out, "--schedule", "16"]).schedule == 16, "a schedule can be made longer"


def test_a_run_by_the_clock_cannot_be_resumed(small, tmp_path, capsys):
    train.main([*SETTINGS, "--minutes", "0.02", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        train.parse(["--resume", str(tmp_path)])
    assert "without --schedule" in capsys.readouterr().err


def state_of(tmp_path, small_parts, monkeypatch) -> dict:
    monkeypatch.setattr(checkpoint, "PART_BYTES", small_parts)
    train.main([*SETTINGS, "--schedule", "16", "--out", str(tmp_path / "run")])
    return checkpoint.load(tmp_path / "run" / "checkpoint")


def test_a_checkpoint_comes_in_parts_and_says_when_one_is_missing_or_damaged(small, tmp_path, monkeypatch):
    state_of(tmp_path, 20_000, monkeypatch)
    folder = tmp_path / "run" / "checkpoint"
    parts = sorted(folder.glob("*.part"))
    assert len(parts) > 2
    assert max(part.stat().st_size for part in parts) <= 20_000
    whole = parts[1].read_bytes()
    parts[1].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelFileError, match="damaged"):
        checkpoint.load(folder)
    parts[1].unlink()
    with pytest.raises(ModelFileError, match=parts[1].name):
        checkpoint.load(folder)


def test_a_run_killed_while_it_saves_leaves_the_checkpoint_before(small, tmp_path, monkeypatch):
    state = state_of(tmp_path, 20_000, monkeypatch)
    folder = tmp_path / "run" / "checkpoint"
    write, written = checkpoint._write, []

    def killed(path, data):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        write(path, data)

    monkeypatch.setattr(checkpoint, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(folder, state | {"seen": 1_000_000})
    assert checkpoint.load(folder)["seen"] == state["seen"]
    monkeypatch.setattr(checkpoint, "_write", write)
    checkpoint.save(folder, state | {"seen": 1_000_000})
    assert checkpoint.load(folder)["seen"] == 1_000_000
    assert {path.name for path in folder.iterdir()} == {*checkpoint.facts(folder)["parts"], "checkpoint.json"}


def test_a_packed_checkpoint_is_smaller_keeps_the_weights_and_resumes(small, tmp_path):
    train.main([*SETTINGS, "--schedule", "16", "--out", str(tmp_path / "run")])
    checkpoint.main(["pack", str(tmp_path / "run" / "checkpoint"), str(tmp_path / "packed")])
    whole, packed = (checkpoint.load(tmp_path / folder) for folder in ("run/checkpoint", "packed"))
    assert all(torch.equal(whole["weights"][name], packed["weights"][name]) for name in whole["weights"])
    for name in whole["average"]:
        torch.testing.assert_close(packed["average"][name].float(), whole["average"][name], rtol=1e-3, atol=1e-6)
    sizes = [sum(p.stat().st_size for p in (tmp_path / f).iterdir()) for f in ("run/checkpoint", "packed")]
    assert sizes[1] < 0.85 * sizes[0]
    train.main(["--resume", str(tmp_path / "packed"), "--schedule", "32", "--out", str(tmp_path / "more")])
    assert checkpoint.facts(tmp_path / "more" / "checkpoint")["step_number"] == 8
    checkpoint.main(["weights", str(tmp_path / "run" / "checkpoint"), str(tmp_path / "average.safetensors")])
    here, there = (load_network(tmp_path / name)[0] for name in ("average.safetensors", "run/average.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(here.parameters(), there.parameters(), strict=True))


def lively(seed: int = 0) -> InContextNetwork:
    """A network whose blocks do something: they begin as the identity."""
    torch.manual_seed(seed)
    network = InContextNetwork(Sizes(16, 2, 4, 1, 2, 2, 2, 2))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return network


def inputs(network: InContextNetwork, columns: int = 5):
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(3, 20, columns, generator=generator)
    labels = torch.randint(0, 3, (3, 12), generator=generator)
    return values, labels, torch.full((3,), 3), draw_identities(3, columns, network.sizes, generator=generator)


@pytest.mark.parametrize("most_keys", [0, 6, 100])
def test_attention_written_out_gives_the_same_answers_and_gradients(most_keys):
    usual, written = lively(), lively()
    speed.attend_explicitly(written, most_keys)
    found = []
    for network in (usual, written):
        logits = network(*inputs(network)).logits
        logits.square().mean().backward()
        found.append([logits.detach(), *(p.grad for p in network.parameters() if p.grad is not None)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_working_copy_in_single_precision_changes_nothing(small):
    options = train.parse([*SETTINGS, "--schedule", "64"])
    plain, copied = train.Trainer(options), train.Trainer(options)
    copied.copy = speed.WorkingCopy(copied.network, torch.float32)
    copied.working = copied.copy.network
    for number in range(4):
        for trainer in (plain, copied):
            trainer.backward(trainer.draw(train.TINY_SHAPES, number))
            trainer.step(0.01)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters, copied.parameters, strict=True))


def test_a_working_copy_in_half_precision_is_as_close_as_autocast():
    network = lively()
    exact = network(*inputs(network)).logits.softmax(2)
    copy = speed.WorkingCopy(network, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        cast = network(*inputs(network)).logits.softmax(2)
        half = copy.network(*inputs(network)).logits.softmax(2)
    assert (half - exact).abs().mean() < 2 * (cast - exact).abs().mean()
    assert (half - exact).abs().max() < 0.1


def test_half_precision_learns(small, tmp_path):
    train.main([*SETTINGS, "--half", "--schedule", "32", "--out", str(tmp_path / "run")])
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["steps"] == 8
    begin, end = InContextNetwork(train.TINY_SIZES), load_network(tmp_path / "run" / "weights.safetensors")[0]
    moved = [not torch.equal(a, b) for a, b in zip(begin.parameters(), end.parameters(), strict=True)]
    assert sum(moved) > 0.8 * len(moved)


def test_a_profile_counts_launches(small, capsys):
    train.main([*SETTINGS, "--profile"])
    printed = capsys.readouterr().out
    assert "tables per second" in printed
    launched = [int(line.split()[6]) for line in printed.splitlines()[1:-1]]
    assert all(n > 100 for n in launched)
