"""The one exception tree, divided by who must act. Attributes are typed; the message is built inside.

StannaryError            something this software refuses or cannot do
├── OperatorError        the person at this machine must act (settings, wallet, disk)
│   ├── SettingsError    a setting is missing, unknown or malformed
│   ├── WalletError      the keystore or its password
│   └── FundsError       an account holds less than the action needs
├── NetworkError         nobody's fault; wait and try again
│   ├── Unreachable      a coordinator, relay or chain did not answer
│   └── Unavailable      it answered, but does not hold what was asked for yet
├── ChainError           the chain refused
│   ├── Reverted         a transaction or call reverted; carries the decoded error
│   ├── FeeAboveCap      the chain asks for more a unit of gas than this account may offer
│   └── Unmined          a transaction was sent and is in no block yet; sending it again may do it twice
├── PeerError            a stranger sent something wrong; the peer must act
│   ├── Malformed        a field is not what the protocol says
│   ├── BadSignature     the signer is not who it should be
│   └── Refused          the peer answered no, with a reason
├── ProofError           a proof cannot be built or parsed
├── PolicyError          a policy folder or manifest is not what it must be
├── Confinement          the process in which strangers' files are read died or was stopped; says nothing about the file
└── AbstainError         a validator cannot decide; never a verdict
"""

from __future__ import annotations

from collections.abc import Mapping


class StannaryError(Exception):
    """Something this software refuses or cannot do."""


class OperatorError(StannaryError):
    """The person at this machine must act."""


class SettingsError(OperatorError):
    """A setting is missing, unknown or malformed."""


class WalletError(OperatorError):
    """The keystore or its password is not usable."""


class FundsError(OperatorError):
    """An account holds less than the action needs."""

    def __init__(self, what: str, address: str, *, needed_wei: int, present_wei: int) -> None:
        super().__init__(
            f"{address} has {present_wei / 1e18:.6f} {what}, {needed_wei / 1e18:.6f} {what} needed: "
            f"send it at least {(needed_wei - present_wei) / 1e18:.6f} {what}"
        )
        self.what = what
        self.address = address
        self.needed_wei = needed_wei
        self.present_wei = present_wei


class NetworkError(StannaryError):
    """Nobody's fault; wait and try again."""


class Unreachable(NetworkError):
    """A coordinator, relay or chain did not answer."""


class Unavailable(NetworkError):
    """The peer answered, but does not hold what was asked for yet."""


class ChainError(StannaryError):
    """The chain refused."""


class Reverted(ChainError):
    """A transaction or call reverted."""

    def __init__(
        self,
        call: str,
        reason: str,
        transaction: str | None = None,
        *,
        name: str | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(f"{call} reverted: {reason}" + (f" (transaction {transaction})" if transaction else ""))
        self.call = call
        self.reason = reason
        self.transaction = transaction
        self.name = name
        """The contract's declared error, None if it gave none."""
        self.values = dict(values or {})
        """The declared error's arguments by name."""


class FeeAboveCap(ChainError):
    """The chain asks for more a unit of gas than this account may offer."""

    def __init__(self, call: str, *, asked_wei: int, cap_wei: int) -> None:
        super().__init__(
            f"{call}: the chain asks for up to {asked_wei / 1e9:.3f} gwei a unit of gas, at most {cap_wei / 1e9:.3f} "
            "may be offered: wait, or raise the setting max_fee_gwei"
        )
        self.call = call
        self.asked_wei = asked_wei
        self.cap_wei = cap_wei


class Unmined(ChainError):
    """A transaction was sent and is in no block yet; sending it again may do it twice."""

    def __init__(self, call: str, transaction: str, *, waited_s: float) -> None:
        super().__init__(f"{call}: transaction {transaction} is in no block after {waited_s:.0f} s; look for it first")
        self.call = call
        self.transaction = transaction
        self.waited_s = waited_s


class PeerError(StannaryError):
    """A stranger sent something wrong."""


class Malformed(PeerError):
    """A field is not what the protocol says."""

    def __init__(self, field: str, *, expected: str, got: object) -> None:
        shown = repr(got)
        super().__init__(f"{field}: expected {expected}, got {shown if len(shown) <= 80 else shown[:77] + '…'}")
        self.field = field
        self.expected = expected
        self.got = got


class BadSignature(PeerError):
    """The signer is not who it should be."""

    def __init__(self, what: str, *, expected: str, got: str) -> None:
        super().__init__(f"signature of {what}: expected {expected}, got {got}")
        self.what = what
        self.expected = expected
        self.got = got


class Refused(PeerError):
    """The peer answered no, with a reason."""

    def __init__(self, what: str, *, status: int, reason: str) -> None:
        super().__init__(f"{what} refused with {status}: {reason}")
        self.what = what
        self.status = status
        self.reason = reason


class ProofError(StannaryError):
    """A proof cannot be built or parsed."""


class PolicyError(StannaryError):
    """A policy folder or manifest is not what it must be."""


class Confinement(StannaryError):
    """The process in which strangers' files are read died or was stopped. Says nothing about the file: no verdict."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the process that reads submission files {what}")
        self.what = what


class AbstainError(StannaryError):
    """A validator cannot decide; never a verdict."""
