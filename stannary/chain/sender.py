"""Sending: simulate, estimate, check the money for fees, send, wait, read the receipt; in this one place.

Nonces survive several processes with one key: a file lock per chain and account is held from reading the pending
nonce until the node has taken the transaction; a nonce that somebody else's machine took in between is read again.
Raising the fee of a transaction that is stuck is not done here yet: `Unmined` says so to whoever waits.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from eth_account.signers.local import LocalAccount

from stannary.chain.connection import Call, Connection, Mined, NodeRefused
from stannary.errors import ChainError, FundsError, Reverted, Unmined, Unreachable
from stannary.types import Address, Hash, parse_address, to_hex

DEFAULT_WAIT_S = 120.0
"""How long `send` waits for a block."""
LOCK_WAIT_S = 60.0
"""How long a send waits for another process of the same account."""
NONCE_ATTEMPTS = 8
REPLACED_ATTEMPTS = 3
POLL_S = 0.1
GAS_MARGIN_PERCENT = 25
"""Gas offered beyond the estimate: the state may move between the estimate and the block."""

_NONCE_TAKEN = ("nonce too low", "replacement transaction underpriced", "already known", "already imported")


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a transaction may cost. Units: wei a gas."""

    gas: int
    fee_per_gas: int
    tip_per_gas: int

    @property
    def most_wei(self) -> int:
        return self.gas * self.fee_per_gas


@dataclass(frozen=True, slots=True)
class Submitted:
    """A transaction that the node has taken and that may be in no block yet."""

    call: Call
    transaction: Hash
    nonce: int


class _Replaced(ChainError):
    """Another transaction of the same key was mined with our nonce, so ours never will be."""


class Sender:
    """An account that sends transactions; safe to use from several threads and processes."""

    def __init__(
        self,
        connection: Connection,
        account: LocalAccount,
        *,
        wait_s: float = DEFAULT_WAIT_S,
        lock_folder: Path | None = None,
    ) -> None:
        self.address: Address = parse_address(str(account.address))
        self._connection = connection
        self._account = account
        self._wait_s = wait_s
        self._lock_folder = lock_folder or default_lock_folder()

    def simulate(self, call: Call) -> bytes:
        """Return what a call would return if this account sent it now. Raises: Reverted, Unreachable."""
        return self._connection.simulate(call, self.address)

    def send(self, call: Call) -> Mined:
        """Simulate, send and wait until the call is in a block and has succeeded.

        Raises: Reverted, whether it shows in the simulation or only in the block; FundsError; Unmined; Unreachable.
        """
        for _ in range(REPLACED_ATTEMPTS):
            try:
                return self.wait(self.submit(call))
            except _Replaced as error:
                replaced = error
        raise replaced

    def submit(self, call: Call) -> Submitted:
        """Simulate and send a call without waiting for a block. Raises: Reverted, FundsError, Unreachable."""
        self.simulate(call)
        with self._exclusive():
            return self._submit_locked(call)

    def pay(self, to: Address, amount_wei: int) -> Mined:
        """Send coins. Raises: as `send`."""
        return self.send(Call("payment", to, b"", amount_wei))

    def send_all(self, calls: Sequence[Call]) -> list[Mined]:
        """Send calls one after the other with consecutive nonces, none of another process of this user between.

        Raises: as `send`; the calls before the one that failed stay done.
        """
        with self._exclusive():
            return [self.wait(self._submit_locked(call)) for call in calls]

    def wait(self, submitted: Submitted) -> Mined:
        """Wait until a transaction is in a block.

        Raises: Reverted, Unmined, Unreachable; ChainError if another transaction took its nonce.
        """
        deadline = time.monotonic() + self._wait_s
        while True:
            mined = self._connection.mined(submitted.transaction)
            if mined is not None:
                break
            self._refuse_replaced(submitted)
            if time.monotonic() > deadline:
                raise Unmined(submitted.call.name, to_hex(submitted.transaction), waited_s=self._wait_s)
            time.sleep(POLL_S)
        if not mined.is_success:
            raise self._why_reverted(submitted.call, mined)
        return mined

    def next_nonce(self) -> int:
        """Return the account's next nonce, waiting transactions included."""
        return self._connection.transaction_count(self.address, is_pending=True)

    def require_fees(self, gas: int) -> None:
        """Check before long work that the account can pay for `gas` at today's price. Raises: FundsError."""
        fee, tip = self._connection.fees()
        self._require(_Offer(gas, fee, tip))

    def _submit_locked(self, call: Call) -> Submitted:
        gas = self._connection.estimate_gas(call, self.address)
        fee, tip = self._connection.fees()
        offer = _Offer(gas + gas * GAS_MARGIN_PERCENT // 100, fee, tip)
        self._require(offer, call.value_wei)
        for _ in range(NONCE_ATTEMPTS):
            nonce = self.next_nonce()
            raw, transaction = self._sign(call, offer, nonce)
            try:
                self._hand_over(raw, transaction, call.name)
                return Submitted(call, transaction, nonce)
            except NodeRefused as error:
                if not any(sign in str(error).lower() for sign in _NONCE_TAKEN):
                    raise
            time.sleep(POLL_S)
        raise ChainError(
            f"{call.name}: nonce {nonce} of {self.address} was taken {NONCE_ATTEMPTS} times; "
            "is the same key in use on another machine?"
        )

    def _hand_over(self, raw: bytes, transaction: Hash, name: str) -> None:
        try:
            self._connection.send_raw(raw, name)
        except Unreachable:
            # The node may have taken it before the answer was lost; the same bytes cannot be mined twice.
            time.sleep(POLL_S)
            if not self._connection.is_known(transaction):
                self._connection.send_raw(raw, name)
        except NodeRefused:
            if not self._connection.is_known(transaction):
                raise

    def _refuse_replaced(self, submitted: Submitted) -> None:
        if self._connection.transaction_count(self.address, is_pending=False) <= submitted.nonce:
            return
        # Its nonce is spent. The transaction may have been mined since the receipt was asked for: ask again.
        if self._connection.mined(submitted.transaction) is None:
            raise _Replaced(
                f"{submitted.call.name}: another transaction took nonce {submitted.nonce} of {self.address}; "
                "is the same key in use on another machine?"
            )

    def _sign(self, call: Call, offer: _Offer, nonce: int) -> tuple[bytes, Hash]:
        fields: dict[str, int | bytes | str] = {
            "type": 2,
            "chainId": self._connection.chain_id,
            "nonce": nonce,
            "gas": offer.gas,
            "maxFeePerGas": offer.fee_per_gas,
            "maxPriorityFeePerGas": offer.tip_per_gas,
            "value": call.value_wei,
            "data": call.data,
        }
        if call.to is not None:
            fields["to"] = call.to
        signed = self._account.sign_transaction(cast(Any, fields))
        return bytes(signed.raw_transaction), Hash(bytes(signed.hash))

    def _require(self, offer: _Offer, value_wei: int = 0) -> None:
        needed, present = offer.most_wei + value_wei, self._connection.balance_of(self.address)
        if present < needed:
            raise FundsError("ether for fees", self.address, needed_wei=needed, present_wei=present)

    def _why_reverted(self, call: Call, mined: Mined) -> Reverted:
        transaction = to_hex(mined.transaction)
        try:
            self._connection.simulate(call, self.address, self._connection.block(mined.block_number))
        except Reverted as found:
            return Reverted(call.name, found.reason, transaction, name=found.name, values=found.values)
        return Reverted(call.name, "on inclusion only; repeated after its block it passes", transaction)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self._lock_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._lock_folder / f"{self._connection.chain_id}-{self.address.lower()}.lock"
        deadline = time.monotonic() + LOCK_WAIT_S
        with path.open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise ChainError(
                            f"another process has been sending from {self.address} for {LOCK_WAIT_S:.0f} s ({path})"
                        ) from None
                    time.sleep(POLL_S)
            yield  # closing the file ends the lock


def default_lock_folder() -> Path:
    """Return the folder of the locks, one for all processes of this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime and Path(runtime).is_dir() else Path(tempfile.gettempdir())
    return base / f"stannary-{os.getuid()}"
