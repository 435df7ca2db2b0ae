"""A real two-node Slurm for the length of a test session: its own munge, controller and two node daemons.

Everything lies in one temporary folder and listens on free ports, so several can run side by side and beside the
machine's own. Nodes n0 and n1 have two CPUs and two GPUs each as GRES (the files are copies of /dev/null's node).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NODES = ("n0", "n1")
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
NEEDED_FOR_ACCOUNTS = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb-admin", "sacctmgr")
READY_S = 60.0
"""How long daemons may take to come up on a busy machine; usually three seconds."""


@dataclass(frozen=True)
class SlurmCluster:
    """A running cluster: its folder, the environment that makes Slurm's programs talk to it, its node daemons."""

    path: Path
    env: dict[str, str]
    slurmd: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, *argv: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a program against this cluster, in its folder."""
        return subprocess.run(
            argv, env=self.env, cwd=self.path, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def submit(self, script: str, *options: str) -> str:
        """Submit a shell line; return the job's id."""
        done = self.run("sbatch", "--parsable", "--output", f"{self.path}/%j.out", *options, "--wrap", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """Return a job's state in squeue's word."""
        return self.run("squeue", "--noheader", "--states=all", "-j", job, "-o", "%T").stdout.strip()

    def start_slurmd(self, node: str, *hidden: Path) -> None:
        """Start the daemon of a node; its jobs see nothing of the folders in `hidden`, as if they were not shared."""
        argv = ["slurmd", "-D", "-N", node]
        if hidden:
            mounts = "; ".join(f"mount -t tmpfs none '{folder}'" for folder in hidden)
            argv = ["unshare", "--mount", "sh", "-c", f"{mounts}; exec {' '.join(argv)}"]
        self.slurmd[node] = _started(self, argv)

    def stop_slurmd(self, node: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon of a node; what it started goes on."""
        child = self.slurmd.pop(node)
        child.send_signal(number)
        child.wait(30)

    def wait_for_nodes(self) -> None:
        """Wait until both nodes are idle."""
        _await(lambda: _idle_nodes(self) == len(NODES), self.path, "both nodes to be idle")


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Slurm without accounting, as on many small clusters: sacct answers that it is disabled."""
    _skip_without(NEEDED)
    with _cluster(accounting=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_cluster_with_accounts() -> Iterator[SlurmCluster]:
    """Slurm with a database, so that sacct answers."""
    _skip_without((*NEEDED, *NEEDED_FOR_ACCOUNTS))
    with _cluster(accounting=True) as cluster:
        yield cluster


def _skip_without(programs: Sequence[str]) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: slurm-wlm munge; slurmdbd mariadb-server for sacct)")
    if os.geteuid() != 0:
        pytest.skip("a Slurm of one's own needs root (slurmd starts jobs as their users)")


@contextlib.contextmanager
def _cluster(*, accounting: bool) -> Iterator[SlurmCluster]:
    """Bring a cluster up, and down again however the block is left."""
    # munge wants its socket where everybody may look, which is not under pytest's private folder.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SQUEUE"))}
    cluster = SlurmCluster(folder, {**kept, "SLURM_CONF": str(folder / "slurm.conf")})
    with contextlib.ExitStack() as daemons:
        daemons.callback(shutil.rmtree, folder, ignore_errors=True)
        _start_munge(cluster, daemons)
        ports = _free_ports(2 + len(NODES))
        _configure(folder, ports, accounting=accounting)
        if accounting:
            _start_accounts(cluster, daemons, ports[1])
        _start(cluster, daemons, ["slurmctld", "-D"], lambda: _succeeds(cluster, "scontrol", "ping"))
        daemons.callback(_stop_all, cluster.slurmd)
        daemons.callback(_end_jobs, cluster)
        for node in NODES:
            cluster.start_slurmd(node)
        cluster.wait_for_nodes()
        yield cluster


def _start_munge(cluster: SlurmCluster, daemons: contextlib.ExitStack) -> None:
    key = cluster.path / "key"
    key.mkdir(mode=0o700)
    (key / "munge.key").write_bytes(os.urandom(128))
    (key / "munge.key").chmod(0o600)
    munge_socket = str(cluster.path / "munge.sock")
    argv = [
        "munged", "--foreground", f"--socket={munge_socket}", f"--key-file={key}/munge.key",
        f"--pid-file={cluster.path}/munged.pid", f"--log-file={cluster.path}/munged.log",
        f"--seed-file={cluster.path}/munged.seed",
    ]  # fmt: skip
    _start(cluster, daemons, argv, lambda: _succeeds(cluster, "munge", "-n", "-S", munge_socket))


def _start_accounts(cluster: SlurmCluster, daemons: contextlib.ExitStack, port: int) -> None:
    folder, database = cluster.path, cluster.path / "mysql.sock"
    data = f"--datadir={folder}/mysql"
    installed = cluster.run("mariadb-install-db", "--no-defaults", "--user=root", data, "--skip-test-db", timeout_s=300)
    assert installed.returncode == 0, installed.stderr + installed.stdout
    argv = ["mariadbd", "--no-defaults", "--user=root", data, f"--socket={database}", "--skip-networking",
            f"--pid-file={folder}/mariadb.pid", "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900"]  # fmt: skip
    ping = ("mariadb-admin", "--no-defaults", f"--socket={database}", "ping")
    _start(cluster, daemons, argv, lambda: _succeeds(cluster, *ping))
    settings = {
        "AuthType": "auth/munge", "AuthInfo": f"socket={folder}/munge.sock", "DbdHost": "localhost", "DbdPort": port,
        "SlurmUser": "root", "StorageType": "accounting_storage/mysql", "StorageHost": "localhost",
        "StorageUser": "root", "StorageLoc": "slurm_acct", "LogFile": f"{folder}/slurmdbd.log",
        "PidFile": f"{folder}/slurmdbd.pid",
    }  # fmt: skip
    conf = folder / "slurmdbd.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    conf.chmod(0o600)
    dbd = SlurmCluster(folder, {**cluster.env, "MYSQL_UNIX_PORT": str(database)})
    _start(dbd, daemons, ["slurmdbd", "-D"], lambda: _succeeds(cluster, "sacctmgr", "-n", "show", "cluster"))
    cluster.run("sacctmgr", "-i", "add", "cluster", "test")


def _configure(folder: Path, ports: Sequence[int], *, accounting: bool) -> None:
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    for device in (folder / f"{node}-gpu{number}" for node in NODES for number in (0, 1)):
        os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))
    gres = "".join(f"NodeName={node} Name=gpu File={folder}/{node}-gpu[0-1]\n" for node in NODES)
    (folder / "gres.conf").write_text(gres)
    nodes = "".join(
        f"NodeName={node} NodeAddr=127.0.0.1 NodeHostname=localhost Port={port} CPUs=2 RealMemory=1000 "
        "Gres=gpu:2 State=UNKNOWN\n"
        for node, port in zip(NODES, ports[2:], strict=True)
    )
    # The "pass" of a slurmdbd is the socket of its munge.
    database = f"Host=localhost\nAccountingStoragePort={ports[1]}\nAccountingStoragePass={folder}/munge.sock"
    storage = f"slurmdbd\nAccountingStorage{database}" if accounting else "none"
    (folder / "slurm.conf").write_text(f"""\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
BatchStartTimeout=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
MinJobAge=300
KillWait=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
OverTimeLimit=0
AccountingStorageType=accounting_storage/{storage}
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
{nodes}PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE PreemptMode=OFF State=UP
PartitionName=short Nodes=ALL MaxTime=5 PreemptMode=OFF State=UP
PartitionName=spare Nodes=ALL PreemptMode=REQUEUE State=UP
PartitionName=grace Nodes=ALL PreemptMode=CANCEL GraceTime=60 State=UP
PartitionName=urgent Nodes=ALL PriorityTier=10 State=UP
""")


def _start(
    cluster: SlurmCluster, daemons: contextlib.ExitStack, argv: Sequence[str], ready: Callable[[], bool]
) -> None:
    """Start a daemon, have it ended with the block, and wait until it is ready."""
    child = _started(cluster, argv)
    daemons.callback(_stop, child)
    _await(lambda: child.poll() is not None or ready(), cluster.path, f"{argv[0]} to answer")
    if child.poll() is not None:
        pytest.fail(f"{argv[0]} ended with {child.returncode}:\n{_logs(cluster.path)}")


def _started(cluster: SlurmCluster, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a daemon in the foreground, with a log of its own."""
    number = len(list(cluster.path.glob("daemon*.log")))
    with (cluster.path / f"daemon{number}-{argv[0]}.log").open("wb") as log:
        return subprocess.Popen(
            list(argv), env=cluster.env, cwd=cluster.path, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a daemon and whatever it started in its session (slurmctld has a helper)."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _stop_all(children: dict[str, subprocess.Popen[bytes]]) -> None:
    for child in children.values():
        _stop(child)


def _end_jobs(cluster: SlurmCluster) -> None:
    """Leave no job behind: its processes are in sessions of their own."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        cluster.run("scancel", "--full", "--signal=KILL", "--user=root", timeout_s=10)
        cluster.run("scancel", "--user=root", timeout_s=10)
        deadline = time.monotonic() + 10
        while cluster.run("squeue", "-h", timeout_s=10).stdout.strip() and time.monotonic() < deadline:
            time.sleep(0.1)


def _idle_nodes(cluster: SlurmCluster) -> int:
    found = cluster.run("sinfo", "-h", "-N", "-p", "debug", "-t", "idle", "-o", "%N").stdout
    return len(found.split())


def _succeeds(cluster: SlurmCluster, *argv: str) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = cluster.run(*argv, timeout_s=10)
        return done.returncode == 0 and "DOWN" not in done.stdout
    return False


def _await(condition: Callable[[], bool], folder: Path, what: str) -> None:
    deadline = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {READY_S:g} s for {what}:\n{_logs(folder)}")
        time.sleep(0.1)


def _logs(folder: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1000:]}" for log in sorted(folder.glob("*.log")))


def _free_ports(count: int) -> list[int]:
    """Find free ports; held all at once, so that no two are the same."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
