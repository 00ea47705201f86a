"""The command line: what each command does on a real chain, and what a failure looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stannary import wallet
from stannary.chain import Chain
from stannary.chain import devnet as local
from stannary.commands.pool import TERM_DEFAULTS, TERMS_AS_OTHERS, read_terms, terms_document
from stannary.commands.roles import load_role
from stannary.errors import SettingsError
from stannary.types import Role, parse_address
from tests.chains import TOKENS, Devnet

STANNARY = [sys.executable, "-c", "from stannary.cli import main; main()"]


@dataclass(slots=True)
class Shell:
    """Runs the command as a person's shell does, with no terminal."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, expect: int = 0, **variables: str) -> str:
        """Return the standard output, or for a failure the standard error."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STANNARY_")}
        done = subprocess.run(
            [*STANNARY, *words],
            cwd=self.folder,
            env={**clean, **self.variables, **variables, "NO_COLOR": "1", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        assert ("Traceback" in done.stderr) == (variables.get("STANNARY_DEBUG") == "1")
        return done.stderr if expect else done.stdout


@pytest.fixture
def shell(devnet: Devnet, tmp_path: Path) -> Shell:
    (tmp_path / "password").write_text("correct horse\n")
    for name in ("owner", "worker", "node"):
        account = devnet.account(name)
        wallet.import_key(tmp_path / f"{name}.json", account.key.hex(), "correct horse", kdf_cost=4)
    variables = {
        "STANNARY_RPC_URL": devnet.chain.rpc_url,
        "STANNARY_DEPLOYMENT": str(tmp_path / "deployment.json"),
        "STANNARY_PASSWORD_FILE": "password",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    return Shell(tmp_path, variables)


def test_cli_provider_goes_in_and_out_of_a_pool(devnet: Devnet, shell: Shell) -> None:
    terms = devnet.terms()
    (shell.folder / "terms.json").write_text(json.dumps(terms_document(terms)))
    assert "pool 1, terms 0x" in shell.run("pool", "create", "terms.json", "--keystore", "owner.json")
    assert "12.5 free" in shell.run("pool", "fund", "1", "12.5", "--keystore", "owner.json")
    shown = json.loads(shell.run("pool", "show", "1"))
    assert shown["terms"] == terms_document(terms)
    assert shown["money"] == {"free": "12.5", "reserved": "0", "locked": "0", "bonded": "0", "received": "12.5"}
    assert (shown["offer"]["number"], shown["pendingOffer"], shown["isPaused"]) == (0, None, False)

    acting = {"STANNARY_KEYSTORE": "worker.json", "STANNARY_POOL": "1"}
    shell.run("provider", "stake", "150", **acting)
    worker = devnet.sender("worker").address
    assert devnet.chain.stake_manager.active_stake_of(1, Role.WORKER, worker) == 150 * TOKENS

    (shell.folder / "consent.json").write_text(shell.run("provider", "consent", worker, "--keystore", "node.json"))
    shell.run("provider", "add-node", "--consent", "consent.json", **acting)
    node = devnet.address(devnet.account("node"))
    status = json.loads(shell.run("provider", "status", node.lower()))
    assert status["actsFor"] == worker
    assert status["controller"] == worker
    assert status["earnings"] == []
    [position] = status["positions"]
    assert {name: position[name] for name in ("pool", "role", "tokens", "active", "suspendedUntil")} == {
        "pool": 1,
        "role": "worker",
        "tokens": "150",
        "active": "150",
        "suspendedUntil": None,
    }

    assert "150 to take out" in shell.run("provider", "unstake", "150.1", expect=3, **acting)
    assert "exit 1 began" in shell.run("provider", "unstake", "50", **acting)
    assert "ExitNotReleased" in shell.run("provider", "withdraw", "--exit", "1", expect=1, **acting)
    devnet.advance(terms.unbonding_seconds + 1)
    assert "50 went to" in shell.run("provider", "withdraw", "--exit", "1", **acting)
    assert devnet.chain.stake_manager.active_stake_of(1, Role.WORKER, worker) == 100 * TOKENS
    shell.run("provider", "unstake", "all", **acting)
    assert "0 to take out" in shell.run("provider", "unstake", "all", expect=3, **acting)


def test_cli_pool_announces_an_offer_and_takes_it_back(devnet: Devnet, shell: Shell) -> None:
    pool = str(devnet.pool())
    (shell.folder / "offer.json").write_text(json.dumps({"price_per_group": 7}))
    acting = {"STANNARY_KEYSTORE": "owner.json"}
    assert "offer 1 of pool 1 from" in shell.run("pool", "announce", pool, "offer.json", **acting)
    pending = json.loads(shell.run("pool", "show", pool))["pendingOffer"]
    assert (pending["price_per_group"], pending["coordinator"]) == (7, devnet.terms().coordinator)
    assert "no offer waiting" in shell.run("pool", "withdraw-offer", pool, **acting)
    assert json.loads(shell.run("pool", "show", pool))["pendingOffer"] is None
    (shell.folder / "offer.json").write_text(json.dumps({"quorum": 7}))
    assert "quorum is no rule" in shell.run("pool", "announce", pool, "offer.json", expect=3, **acting)


def test_cli_pool_clock_is_stopped_by_one_key_and_started_by_another(devnet: Devnet, shell: Shell) -> None:
    guards = {"pauser": devnet.sender("worker").address, "unpauser": devnet.sender("owner").address}
    pool = str(devnet.pool(**guards))
    assert "stands at" in shell.run("pool", "pause", pool, "--keystore", "worker.json")
    assert json.loads(shell.run("pool", "show", pool))["isPaused"]
    assert "NotPauser" in shell.run("pool", "unpause", pool, "--keystore", "worker.json", expect=1)
    assert "runs" in shell.run("pool", "unpause", pool, "--keystore", "owner.json")


def test_cli_wallet_new_then_show(shell: Shell) -> None:
    said = shell.run("wallet", "new", "deep/new.json", "--password-file", "password")
    address = shell.run("wallet", "show", "deep/new.json").strip()
    assert said.startswith(parse_address(address))
    assert shell.run("wallet", "show", "deep/new.json", "--password-file", "password").strip() == address
    (shell.folder / "key").write_text("11" * 32 + "\n")
    shell.run("wallet", "import", "in.json", "--key-file", "key", "--password-file", "password")
    assert "exists already" in shell.run(
        "wallet", "import", "in.json", "--key-file", "key", "--password-file", "password", expect=3
    )


def test_cli_devnet_goes_up_funds_and_down(tmp_path: Path) -> None:
    shell, port = Shell(tmp_path), local.free_port()
    somebody = "0x00000000000000000000000000000000000000aa"
    try:
        said = shell.run("devnet", "up", "--folder", "d", "--port", str(port), "--block-time", "0")
        assert f"http://127.0.0.1:{port}" in said
        at = ("--rpc-url", f"http://127.0.0.1:{port}", "--deployment", "d/deployment.json")
        shell.run("devnet", "fund", somebody, "--ether", "2", "--tokens", "0.5", *at)
        chain = Chain.open(f"http://127.0.0.1:{port}", tmp_path / "d" / "deployment.json")
        address = parse_address(somebody)
        assert (chain.balance_of(address), chain.token.balance_of(address)) == (2 * 10**18, TOKENS // 2)
    finally:
        assert "ended" in shell.run("devnet", "down", "--folder", "d")
    assert "no chain runs" in shell.run("devnet", "down", "--folder", "d")


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["nonsense"], 2, "No such command"),
        (["pool", "fund", "1", "-1"], 2, "such option"),
        (["pool", "fund", "1", "0"], 2, "more than 0"),
        (["pool", "fund", "1", "1e-19"], 2, "decimals"),
        (["pool", "fund", "1", "nan"], 2, "more than 0"),
        (["provider", "stake", "1", "--role", "trainer"], 2, "worker or validator"),
        (["provider", "status", "0x12"], 2, "40 hexadecimal digits"),
        (["provider", "stake", "1"], 3, "STANNARY_POOL"),
        (["provider", "stake", "1", "--pool", "1"], 3, "STANNARY_KEYSTORE"),
        (["provider", "stake", "1", "--pool", "1", "--keystore", "gone.json"], 3, "stannary wallet new gone.json"),
        (["provider", "stake", "1", "--pool", "9", "--keystore", "worker.json"], 1, "UnknownPool(pool=9)"),
        (["provider", "stake", "20000", "--pool", "1", "--keystore", "worker.json"], 3, "10000.000000 tokens"),
        (["pool", "show", "1", "--rpc-url", "http://127.0.0.1:1"], 4, "no answer"),
        (["pool", "show", "1", "--deployment", "gone.json"], 3, "gone.json"),
        (["pool", "create", "gone.json"], 3, "gone.json"),
    ],
)
def test_cli_failure_is_one_line_with_its_exit_code(
    devnet: Devnet, shell: Shell, words: list[str], code: int, hint: str
) -> None:
    devnet.pool(funds=0)
    said = shell.run(*words, expect=code)
    assert hint in " ".join(said.split())
    if code != 2:
        assert len(said.strip().splitlines()) == 1


def test_cli_unknown_variable_is_named(shell: Shell) -> None:
    assert "STANNARY_RPC" in shell.run("pool", "show", "1", expect=3, STANNARY_RPC="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"group_sise": 4}, "group_sise is no rule"),
        ({"quorum": None}, "quorum"),
        ({"quorum": "2"}, "quorum"),
        ({"quorum": -1}, "quorum"),
        ({"max_lag": True}, "max_lag"),
        ({"trainer": "0x12"}, "trainer"),
        ({"card_hash": "0x12"}, "card_hash"),
    ],
)
def test_terms_with_a_typing_mistake_are_refused_by_name(
    devnet: Devnet, tmp_path: Path, change: dict[str, object], hint: str
) -> None:
    document = terms_document(devnet.terms())
    file = tmp_path / "terms.json"
    file.write_text(json.dumps(document | change))
    with pytest.raises(SettingsError, match=hint):
        read_terms(file)
    file.write_text(json.dumps(document))
    assert read_terms(file) == devnet.terms()


def test_terms_may_leave_out_what_has_a_default(devnet: Devnet, tmp_path: Path) -> None:
    terms = devnet.terms()
    file = tmp_path / "terms.json"
    left_out = {*TERM_DEFAULTS, *TERMS_AS_OTHERS}
    file.write_text(json.dumps({name: value for name, value in terms_document(terms).items() if name not in left_out}))
    found = terms_document(read_terms(file))
    assert {name: found[name] for name in TERM_DEFAULTS} == dict(TERM_DEFAULTS)
    assert (found["juror_fee"], found["reveal_seconds"]) == (terms.panel_fee, terms.vote_seconds)
    assert {name for name in found if found[name] != terms_document(terms)[name]} <= left_out


def test_cli_help_names_the_roles_without_importing_them(tmp_path: Path) -> None:
    program = (
        "import sys; from stannary.cli import app; app(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "worker" in done.stdout
    for module in ("worker", "coordinator", "validator", "trainer", "demo", "torch", "vllm", "web3"):
        assert f"'{module}'" not in done.stdout


def test_cli_role_without_its_packages_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking.py").write_text("import no_such_package.part\n")
    (tmp_path / "broken.py").write_text("from stannary import no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=r"needs no_such_package, .* install stannary\[worker\]"):
        load_role(EntryPoint("worker", "lacking:app", "stannary.roles"))
    with pytest.raises(ImportError, match="no_such_name"):
        load_role(EntryPoint("worker", "broken:app", "stannary.roles"))


def test_cli_debug_shows_the_trace(shell: Shell) -> None:
    quiet = shell.run("pool", "show", "1", "--rpc-url", "http://127.0.0.1:1", expect=4)
    loud = shell.run("pool", "show", "1", "--rpc-url", "http://127.0.0.1:1", expect=4, STANNARY_DEBUG="1")
    assert "Traceback" in loud
    assert loud.endswith(quiet)
