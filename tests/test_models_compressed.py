"""Compressed parts of saved models: small files that would fill the memory are refused, and none of ours is one."""

import gzip
import json
import tracemalloc

import numpy as np
import pytest

from deepsep import method
from deepsep.errors import ModelFileError
from deepsep.files import packed
from deepsep.files.manifest import canonical, sha256
from deepsep.models import load, save


def test_a_small_file_does_not_unpack_to_a_large_one(monkeypatch):
    monkeypatch.setattr(packed, "ALLOWED_BYTES", 1 << 20)
    bomb = gzip.compress(bytes(1 << 25), mtime=0)
    assert len(bomb) < 40_000
    with pytest.raises(ModelFileError, match=r"part.gz has [\d,]+ bytes and would unpack to more than [\d,]+"):
        packed.decompress("part.gz", bomb)
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        packed.decompress("part.gz", bomb)
    assert tracemalloc.get_traced_memory()[1] < 24 << 20  # 200 times the file is 6.5 MB, and a buffer grows in leaps
    tracemalloc.stop()


@pytest.mark.parametrize("data", [b"", b"forest" * 1000, bytes(1 << 22)], ids=["empty", "text", "zeros"])
def test_what_is_compressed_can_be_unpacked(data, monkeypatch):
    monkeypatch.setattr(packed, "ALLOWED_BYTES", 1 << 20)
    assert packed.decompress("part.gz", packed.compress(data)) == data


@pytest.mark.parametrize("name", ["random-forest", "semiboost"])
def test_a_model_that_would_fill_the_memory_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "ALLOWED_BYTES", 1 << 20)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    save(method(name).fit(X, [0, 1] * 10 + [-1] * 20), tmp_path / "model")
    (part,) = (tmp_path / "model" / "parts").iterdir()
    content = gzip.compress(bytes(1 << 25), mtime=0)
    part.write_bytes(content)
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_bytes())
    manifest["files"][f"parts/{part.name}"] = {"size": len(content), "sha256": sha256(content)}
    del manifest["sha256"]
    manifest["sha256"] = sha256(canonical(manifest))  # a careful forger's
    (tmp_path / "model" / "manifest.json").write_bytes(canonical(manifest))
    with pytest.raises(ModelFileError, match="could fill the memory"):
        load(tmp_path / "model")
