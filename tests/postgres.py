"""A PostgreSQL server of the tests' own: in a temporary folder, on a socket in it."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

PATIENCE = 600  # seconds: nothing waits so long but on a machine that is far too busy
PASSWORD = "open sesame"


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, or None if it is not installed."""
    found = [Path(place).resolve().parent for name in ("initdb", "postgres") if (place := shutil.which(name))]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def other_user() -> str | None:
    """Return the user to run the server as, which refuses to run as root."""
    if os.getuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


class Server:
    """A running server; ``url`` is for its administrator, ``anna`` needs a password.

    Tests do without ``fsync``, by which a commit waits for the disk, as a server does that keeps data.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        tools, user = programs(), other_user()
        assert tools is not None
        self.folder = Path(tempfile.mkdtemp(prefix="deepsep-pg-"))
        if user is not None:
            shutil.chown(self.folder, user)
        data, who = self.folder / "data", {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid}
        settings = {"cwd": self.folder, "extra_groups": [], **who} if user else {"cwd": self.folder}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        setup = [tools / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(setup, check=True, **quiet, **settings)
        rules = data / "pg_hba.conf"
        rules.write_text("local all anna scram-sha-256\n" + rules.read_text())
        options = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "on" if fsync else "off"}
        chosen = [f"--{name}={value}" for name, value in options.items()]
        command = [tools / "postgres", "-D", data, *chosen]
        self._server = subprocess.Popen(command, **quiet, **settings)
        self.url, self.anna = (f"postgresql://{name}@/postgres?host={self.folder}" for name in ("postgres", "anna"))
        self._wait(tools)
        self.run(f"create role anna login password '{PASSWORD}'")

    def _wait(self, tools: Path) -> None:
        ready = [tools / "pg_isready", "-h", self.folder, "-q"]
        end = time.monotonic() + PATIENCE
        while subprocess.run(ready, check=False).returncode:
            assert self._server.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)

    def run(self, *statements: str) -> None:
        """Run statements, each by itself."""
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(self.url, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def new_schema(self) -> str:
        """Return the address of an empty schema."""
        name = f"t{uuid.uuid4().hex}"
        self.run(f"create schema {name}")
        return f"{self.url}&options=-csearch_path%3D{name}"

    def stop(self) -> None:
        """Stop the server at once, and remove what it has written."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)
