"""Sending: simulate, estimate, check the money for fees, send, wait, read the receipt; in this one place.

Nonces survive several processes with one key: a file lock per chain and account is held from reading the pending
nonce until the node has taken the transaction; a nonce that somebody else's machine took in between is read again.
What is sent and in no block yet is written down beside the lock. If it stays out of blocks it is sent again with the
same nonce for a higher fee, by whoever waits for it or by the next that sends from this account, up to a cap.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from eth_account.signers.local import LocalAccount

from stannary.chain.connection import Call, Connection, Mined, NodeRefused
from stannary.errors import (
    ChainError,
    FeeAboveCap,
    FundsError,
    Malformed,
    Reverted,
    SettingsError,
    Unavailable,
    Unmined,
    Unreachable,
)
from stannary.fees import FeeRules, Price
from stannary.types import Address, Hash, parse_address, parse_hash, to_hex

log = logging.getLogger(__name__)

DEFAULT_WAIT_S = 120.0
"""How long `send` waits for a block."""
LOCK_WAIT_S = 60.0
"""How long a send waits for another process of the same account."""
NONCE_ATTEMPTS = 8
REPLACED_ATTEMPTS = 3
POLL_S = 0.1
GAS_MARGIN_PERCENT = 25
"""Gas offered beyond the estimate: the state may move between the estimate and the block."""
RECORD_KEPT_S = 24 * 3600.0
"""How long others leave the record of a transaction whose nonce is spent, for its sender to find."""

_NONCE_TAKEN = ("nonce too low", "replacement transaction underpriced", "already known", "already imported")


@dataclass(slots=True)
class Submitted:
    """A call that the node has taken and that may be in no block yet, perhaps sent several times with one nonce."""

    call: Call
    nonce: int
    gas: int
    price: Price
    """What was offered last."""
    transactions: list[Hash]
    """At most one of them is ever mined."""
    sent_at: float
    """Unix seconds of the last one."""
    block_number: int
    """The newest block when it was sent first, and its hash: a chain begun anew has another."""
    block_hash: Hash
    bumps: int = 0

    @property
    def transaction(self) -> Hash:
        """The last one."""
        return self.transactions[-1]

    def to_json(self) -> str:
        """Return the record of it."""
        call = self.call
        document = {
            "call": {"name": call.name, "to": call.to, "data": to_hex(call.data), "value_wei": call.value_wei},
            "nonce": self.nonce,
            "gas": self.gas,
            "fee": self.price.fee,
            "tip": self.price.tip,
            "transactions": [to_hex(one) for one in self.transactions],
            "sent_at": self.sent_at,
            "block_number": self.block_number,
            "block_hash": to_hex(self.block_hash),
            "bumps": self.bumps,
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a record. Raises: ValueError, KeyError or TypeError if it is none."""
        found = json.loads(text)
        call = found["call"]
        to = None if call["to"] is None else parse_address(call["to"])
        return cls(
            call=Call(call["name"], to, bytes.fromhex(call["data"][2:]), call["value_wei"]),
            nonce=found["nonce"],
            gas=found["gas"],
            price=Price(found["fee"], found["tip"]),
            transactions=[parse_hash(one) for one in found["transactions"]],
            sent_at=found["sent_at"],
            block_number=found["block_number"],
            block_hash=parse_hash(found["block_hash"]),
            bumps=found["bumps"],
        )


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
        fee_rules: FeeRules | None = None,
        lock_folder: Path | None = None,
    ) -> None:
        self.address: Address = parse_address(str(account.address))
        self._connection = connection
        self._account = account
        self._wait_s = wait_s
        self._fee_rules = fee_rules or FeeRules()
        self._lock_folder = lock_folder or default_lock_folder()

    def simulate(self, call: Call) -> bytes:
        """Return what a call would return if this account sent it now. Raises: Reverted, Unreachable."""
        return self._connection.simulate(call, self.address)

    def send(self, call: Call) -> Mined:
        """Simulate, send and wait until the call is in a block and has succeeded.

        Raises: Reverted, whether it shows in the simulation or only in the block; FundsError; FeeAboveCap; Unmined;
        Unreachable.
        """
        for _ in range(REPLACED_ATTEMPTS):
            try:
                return self.wait(self.submit(call))
            except _Replaced as error:
                replaced = error
        raise replaced

    def submit(self, call: Call) -> Submitted:
        """Simulate and send a call without waiting for a block.

        Raises: Reverted, FundsError, FeeAboveCap, Unreachable.
        """
        self.simulate(call)
        with self._exclusive():
            self._push_on()
            return self._submit_locked(call)

    def pay(self, to: Address, amount_wei: int) -> Mined:
        """Send coins. Raises: as `send`."""
        return self.send(Call("payment", to, b"", amount_wei))

    def send_all(self, calls: Sequence[Call]) -> list[Mined]:
        """Send calls one after the other with consecutive nonces, none of another process of this user between.

        Raises: as `send`; the calls before the one that failed stay done.
        """
        with self._exclusive():
            self._push_on()
            return [self.wait(self._submit_locked(call)) for call in calls]

    def wait(self, submitted: Submitted) -> Mined:
        """Wait until a call is in a block, offering more when it stays out.

        Raises: Reverted, Unmined, Unreachable; ChainError if another transaction took its nonce.
        """
        deadline = time.monotonic() + self._wait_s
        while True:
            mined = self.poll(submitted)
            if mined is not None:
                return mined
            if time.monotonic() > deadline:
                raise Unmined(submitted.call.name, to_hex(submitted.transaction), waited_s=self._wait_s)
            time.sleep(POLL_S)

    def poll(self, submitted: Submitted) -> Mined | None:
        """Return the outcome of a call, None while it is in no block; offers more when that has lasted.

        Raises: Reverted, Unreachable; ChainError if another transaction took its nonce.
        """
        mined = self._find(submitted.transactions)
        if mined is None and self._is_spent(submitted.nonce):
            # Mined since its receipt was asked for, or sent again by another process that found it stuck.
            mined = self._find(self._recorded(submitted))
            if mined is None:
                self._forget(submitted)
                raise _Replaced(
                    f"{submitted.call.name}: another transaction took nonce {submitted.nonce} of {self.address}; "
                    "is the same key in use on another machine?"
                )
        if mined is None:
            if time.time() - submitted.sent_at >= self._fee_rules.bump_after_s:
                self._bump(submitted)
            return None
        self._forget(submitted)
        if not mined.is_success:
            raise self._why_reverted(submitted.call, mined)
        return mined

    def next_nonce(self) -> int:
        """Return the account's next nonce, waiting transactions included."""
        return self._connection.transaction_count(self.address, is_pending=True)

    def require_fees(self, gas: int) -> None:
        """Check before long work that the account can pay for `gas` at today's price. Raises: FundsError."""
        fee, _ = self._connection.fees()
        self._require(gas, fee)

    def _submit_locked(self, call: Call) -> Submitted:
        gas = self._connection.estimate_gas(call, self.address)
        gas += gas * GAS_MARGIN_PERCENT // 100
        head = self._connection.frozen()
        asked = Price(*self._connection.fees())
        price = self._fee_rules.first(asked)
        if price is None:
            raise FeeAboveCap(call.name, asked_wei=asked.fee, cap_wei=self._fee_rules.max_fee_wei)
        self._require(gas, price.fee, call.value_wei)
        for _ in range(NONCE_ATTEMPTS):
            nonce = self.next_nonce()
            raw, transaction = self._sign(call, gas, price, nonce)
            try:
                self._hand_over(raw, transaction, call.name)
            except NodeRefused as error:
                if not any(sign in str(error).lower() for sign in _NONCE_TAKEN):
                    raise
            else:
                submitted = Submitted(call, nonce, gas, price, [transaction], time.time(), head.number, head.hash)
                self._note(submitted)
                return submitted
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

    def _bump(self, submitted: Submitted) -> None:
        """Send a call again with the same nonce for more, if the rules and the account allow it."""
        submitted.sent_at = time.time()
        price = self._fee_rules.bumped(submitted.price, Price(*self._connection.fees()))
        if price is None or submitted.bumps >= self._fee_rules.max_bumps:
            log.warning(
                "%s: in no block yet, and no more than %d wei a gas is offered",
                submitted.call.name,
                submitted.price.fee,
            )
            return
        if self._connection.balance_of(self.address) < submitted.gas * price.fee + submitted.call.value_wei:
            log.warning("%s: in no block yet, and %s cannot offer more", submitted.call.name, self.address)
            return
        raw, transaction = self._sign(submitted.call, submitted.gas, price, submitted.nonce)
        # Noted before it is sent: if the answer is lost, its receipt is still looked for.
        submitted.transactions.append(transaction)
        submitted.bumps += 1
        try:
            self._hand_over(raw, transaction, submitted.call.name)
        except NodeRefused as error:
            submitted.transactions.pop()
            submitted.bumps -= 1
            log.warning("%s: the node took no second offer: %s", submitted.call.name, error)
        else:
            submitted.price = price
            log.info("%s: in no block yet, sent again for %d wei a gas", submitted.call.name, price.fee)
        self._note(submitted)

    def _find(self, transactions: Sequence[Hash]) -> Mined | None:
        found = (self._connection.mined(transaction) for transaction in reversed(transactions))
        return next((mined for mined in found if mined is not None), None)

    def _is_spent(self, nonce: int) -> bool:
        return self._connection.transaction_count(self.address, is_pending=False) > nonce

    def _sign(self, call: Call, gas: int, price: Price, nonce: int) -> tuple[bytes, Hash]:
        fields: dict[str, int | bytes | str] = {
            "type": 2,
            "chainId": self._connection.chain_id,
            "nonce": nonce,
            "gas": gas,
            "maxFeePerGas": price.fee,
            "maxPriorityFeePerGas": price.tip,
            "value": call.value_wei,
            "data": call.data,
        }
        if call.to is not None:
            fields["to"] = call.to
        signed = self._account.sign_transaction(cast(Any, fields))
        return bytes(signed.raw_transaction), Hash(bytes(signed.hash))

    def _require(self, gas: int, fee: int, value_wei: int = 0) -> None:
        needed, present = gas * fee + value_wei, self._connection.balance_of(self.address)
        if present < needed:
            raise FundsError("ether for fees", self.address, needed_wei=needed, present_wei=present)

    def _why_reverted(self, call: Call, mined: Mined) -> Reverted:
        transaction = to_hex(mined.transaction)
        try:
            self._connection.simulate(call, self.address, self._connection.block(mined.block_number))
        except Reverted as found:
            return Reverted(call.name, found.reason, transaction, name=found.name, values=found.values)
        return Reverted(call.name, "on inclusion only; repeated after its block it passes", transaction)

    @property
    def _stem(self) -> str:
        return f"{self._connection.chain_id}-{self.address.lower()}"

    def _record(self, nonce: int) -> Path:
        return self._lock_folder / f"{self._stem}-{nonce}.json"

    def _note(self, submitted: Submitted) -> None:
        draft = self._record(submitted.nonce).with_suffix(".draft")
        draft.write_text(submitted.to_json())
        os.replace(draft, self._record(submitted.nonce))

    def _forget(self, submitted: Submitted) -> None:
        self._record(submitted.nonce).unlink(missing_ok=True)

    def _recorded(self, submitted: Submitted) -> list[Hash]:
        """Return all transactions of a call, those that another process sent included."""
        found = _read(self._record(submitted.nonce))
        return [*submitted.transactions, *(found.transactions if found is not None else ())]

    def _push_on(self) -> None:
        """Offer more for what was sent before and nobody may be waiting for: it holds up what comes now."""
        records = sorted(self._lock_folder.glob(f"{self._stem}-*.json"))
        if not records:
            return
        mined = self._connection.transaction_count(self.address, is_pending=False)
        for path in records:
            found = _read(path)
            age_s = 0.0 if found is None else time.time() - found.sent_at
            if found is None or (found.nonce < mined and age_s > RECORD_KEPT_S):
                path.unlink(missing_ok=True)
            elif found.nonce >= mined and age_s >= self._fee_rules.bump_after_s:
                if self._is_of_this_chain(found):
                    self._bump(found)
                else:
                    path.unlink(missing_ok=True)

    def _is_of_this_chain(self, submitted: Submitted) -> bool:
        try:
            return self._connection.block(submitted.block_number).hash == submitted.block_hash
        except Unavailable:
            return False

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        _make_private(self._lock_folder)
        path = self._lock_folder / f"{self._stem}.lock"
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
    """Return the folder of locks and records, one for all processes of this user, in the user's own state directory."""
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "stannary"


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.getuid():
            raise SettingsError(f"{folder} belongs to another user: set XDG_STATE_HOME to a folder of yours")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror or error}; set XDG_STATE_HOME to a folder of yours") from None


def _read(path: Path) -> Submitted | None:
    with suppress(OSError, ValueError, KeyError, TypeError, Malformed):
        return Submitted.from_json(path.read_text())
    return None
