"""What a worker does next: `tick(state, inputs) -> state, action`. Pure: no clock, no I/O, no logging.

A slot goes granted -> checked -> (weights loaded) -> made -> receipted -> delivered; expiry or a refusal drops it at
any point. Every action is answered by one event; a failure that may pass is tried again while the lease lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from stannary.structs import Lease
from stannary.types import Hash
from stannary.wire import LeaseMessage
from worker.leases import StepFacts
from worker.submission import Group

FIRST_RETRY_S = 0.5
LAST_RETRY_S = 15.0
_OVER = "this worker stops by itself"
MAX_ASKED = 64
"""The most that one question may ask for. Source: stannary.wire.LeasesIn."""

Key = tuple[int, int]
"""(step, slot)."""


class Stage(IntEnum):
    """How far a slot has come."""

    GRANTED = 0
    CHECKED = 1
    MADE = 2
    RECEIPTED = 3


@dataclass(frozen=True, slots=True)
class Held:
    """One slot that the worker holds a lease on."""

    lease: Lease
    message: LeaseMessage
    """The lease as it came, with the coordinator's signature."""
    ends_at: float
    """When the lease ends, on the process's own monotonic clock."""
    stage: Stage = Stage.GRANTED
    group: Group | None = None
    attempts: int = 0
    """Failures in this stage."""
    retry_at: float = 0.0

    @property
    def key(self) -> Key:
        """Step and slot."""
        return self.lease.step, self.lease.slot


@dataclass(frozen=True, slots=True)
class State:
    """All that a worker remembers."""

    held: tuple[Held, ...] = ()
    facts: Mapping[int, StepFacts] = field(default_factory=dict)
    """What the chain said of the steps that slots are held of."""
    given_up: Mapping[Hash, float] = field(default_factory=dict)
    """Leases that this worker cannot fulfil, by hash, with their end: a coordinator hands them out again until then."""
    loaded: Hash | None = None
    """Policy root of what the engine holds."""
    ask_at: float = 0.0
    asked_in_vain: int = 0
    """Refusals and failures in a row; a plain "none now" does not count."""
    look_at: float = 0.0
    """When to see again how the provider stands."""
    is_over: bool = False
    """Whether the evidence against the provider is such that going on would cost its stake."""


# Events: what the last action came to.


@dataclass(frozen=True, slots=True)
class Granted:
    """Leases came in. `poll_s` later the next question may be asked if there were none."""

    leases: tuple[LeaseMessage, ...]
    poll_s: float


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """The question for leases failed or was refused."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A step's leases were held against the chain; `refused` slots are out."""

    facts: StepFacts
    refused: frozenset[int]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The engine holds the policy of this root."""

    policy_root: Hash


@dataclass(frozen=True, slots=True)
class Made:
    """Groups were generated and proved; slots in `lost` gave none."""

    groups: Mapping[Key, Group]
    lost: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Receipted:
    """The coordinator gave a receipt for a leaf."""

    key: Key


@dataclass(frozen=True, slots=True)
class Ended:
    """Slots are done with: delivered, or refused by the coordinator for good."""

    keys: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Failed:
    """An action on slots failed in a way that may pass."""

    keys: frozenset[Key]
    is_policy_lost: bool = False
    """Whether the engine may no longer hold the policy that it held."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The provider's standing was looked at, or could not be had; `again_s` later it is looked at again."""

    again_s: float
    must_stop: bool = False


Event = Granted | NotAnswered | Checked | Loaded | Made | Receipted | Ended | Failed | Looked


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a tick is told."""

    now: float
    """The process's monotonic clock."""
    event: Event | None
    max_leases: int
    is_stopping: bool = False


# Actions: what to do next.


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the coordinator for leases."""

    count: int


@dataclass(frozen=True, slots=True)
class Check:
    """Read a step from the chain and hold its leases against it."""

    step: int
    slots: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Fetch a policy step's weights and load them; the slots wait for it."""

    policy_step: int
    policy_root: Hash
    slots: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Generate:
    """Generate and prove the groups of slots of one step, in one engine call."""

    facts: StepFacts
    slots: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Send a leaf for a receipt."""

    slot: Held
    group: Group


@dataclass(frozen=True, slots=True)
class Upload:
    """Upload the bytes of a leaf."""

    slot: Held
    group: Group


@dataclass(frozen=True, slots=True)
class Drop:
    """Say that slots are given up, and why; the state has forgotten them already."""

    slots: tuple[Held, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Look:
    """See how the provider stands with the panels."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do for some time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """End the process."""


Action = Ask | Check | Load | Generate | Submit | Upload | Drop | Look | Rest | Stop


def tick(state: State, inputs: Inputs) -> tuple[State, Action]:
    """Take in what the last action came to and choose the next one."""
    if inputs.event is not None:
        state = _absorb(state, inputs.event, inputs.now)
    given_up = {lease: ends_at for lease, ends_at in state.given_up.items() if ends_at > inputs.now}
    state = replace(state, given_up=given_up)
    expired = tuple(held for held in state.held if held.ends_at <= inputs.now)
    if expired:
        return _keep(state, lambda held: held.ends_at > inputs.now), Drop(expired, "the lease ended")
    if state.is_over:
        # What it holds was made as what is held against it, and would be held against it too.
        return (replace(state, held=()), Drop(state.held, _OVER)) if state.held else (state, Stop())
    if inputs.is_stopping:
        return _last(state)
    due = [held for held in state.held if held.retry_at <= inputs.now]
    return state, (
        _delivery(due)
        or _look(state, inputs.now)
        or _production(state, due)
        or _question(state, inputs)
        or _rest(state, inputs.now)
    )


def back_off_s(attempts: int) -> float:
    """Return the seconds to wait after so many failures in a row."""
    return float(min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(attempts - 1, 10)))


def _absorb(state: State, event: Event, now: float) -> State:
    match event:
        case Granted(leases, poll_s):
            known = {held.key for held in state.held}
            new = [_held(message, now) for message in leases]
            fresh = {
                held.key: held
                for held in new
                if held.key not in known and held.lease.struct_hash() not in state.given_up
            }
            ask_at = now if fresh else now + poll_s
            return replace(state, held=(*state.held, *fresh.values()), ask_at=ask_at, asked_in_vain=0)
        case NotAnswered():
            tries = state.asked_in_vain + 1
            return replace(state, ask_at=now + back_off_s(tries), asked_in_vain=tries)
        case Checked(facts, refused):
            state = _give_up(state, lambda held: held.lease.step == facts.step and held.lease.slot in refused)
            state = replace(state, facts={**state.facts, facts.step: facts})

            def checked(held: Held) -> Held:
                left = held.lease.valid_until - facts.pool_time
                return _advance(replace(held, ends_at=min(held.ends_at, now + left)), Stage.CHECKED)

            return _change(state, lambda held: held.lease.step == facts.step and held.stage is Stage.GRANTED, checked)
        case Loaded(policy_root):
            return replace(
                _change(state, lambda held: held.stage is Stage.CHECKED, lambda held: _advance(held, held.stage)),
                loaded=policy_root,
            )
        case Made(groups, lost):
            return _change(
                _give_up(state, lambda held: held.key in lost),
                lambda held: held.key in groups,
                lambda held: replace(_advance(held, Stage.MADE), group=groups[held.key]),
            )
        case Receipted(key):
            return _change(state, lambda held: held.key == key, lambda held: _advance(held, Stage.RECEIPTED))
        case Ended(keys):
            return _keep(state, lambda held: held.key not in keys)
        case Failed(keys, is_policy_lost):
            state = _change(state, lambda held: held.key in keys, lambda held: _fail(held, now))
            return replace(state, loaded=None) if is_policy_lost else state
        case Looked(again_s, must_stop):
            return replace(state, look_at=now + again_s, is_over=must_stop)


def _last(state: State) -> tuple[State, Action]:
    """Stopping: deliver what is made and has not failed before, give up the rest, then end."""
    action = _delivery([held for held in state.held if held.attempts == 0])
    if action is not None:
        return state, action
    if state.held:
        return replace(state, held=()), Drop(state.held, "this worker stops")
    return state, Stop()


def _delivery(due: Iterable[Held]) -> Action | None:
    for held in sorted(due, key=lambda held: (-held.stage, held.ends_at)):
        if held.group is not None:
            return Upload(held, held.group) if held.stage is Stage.RECEIPTED else Submit(held, held.group)
    return None


def _look(state: State, now: float) -> Look | None:
    return Look() if state.look_at <= now else None


def _production(state: State, due: Iterable[Held]) -> Action | None:
    unmade = [held for held in due if held.stage < Stage.MADE]
    for step in sorted({held.lease.step for held in unmade}):
        of_step = [held for held in unmade if held.lease.step == step]
        granted = tuple(held for held in of_step if held.stage is Stage.GRANTED)
        if granted:
            return Check(step, granted)
        facts, slots = state.facts[step], tuple(of_step)
        if state.loaded != facts.policy_root:
            return Load(facts.policy_step, facts.policy_root, slots)
        return Generate(facts, slots)
    return None


def _question(state: State, inputs: Inputs) -> Action | None:
    is_busy = any(held.stage < Stage.MADE for held in state.held)
    room = inputs.max_leases - len(state.held)
    if is_busy or room <= 0 or state.ask_at > inputs.now:
        return None
    # Leases given up come again in place of new ones, so as many more are asked for.
    return Ask(min(room + len(state.given_up), MAX_ASKED))


def _rest(state: State, now: float) -> Rest:
    moments = [state.ask_at] if not any(held.stage < Stage.MADE for held in state.held) else []
    moments.append(state.look_at)
    moments += [moment for held in state.held for moment in (held.retry_at, held.ends_at) if moment > now]
    return Rest(max(0.0, min((moment for moment in moments if moment > now), default=now + FIRST_RETRY_S) - now))


def _held(message: LeaseMessage, now: float) -> Held:
    # A grant is at most as old as its answer; the check against the pool's clock may only shorten this.
    lease = message.lease()
    return Held(lease, message, ends_at=now + (lease.valid_until - lease.valid_from))


def _keep(state: State, is_kept: Callable[[Held], bool]) -> State:
    held = tuple(each for each in state.held if is_kept(each))
    steps = {each.lease.step for each in held}
    return replace(
        state,
        held=held,
        facts={step: facts for step, facts in state.facts.items() if step in steps},
    )


def _give_up(state: State, is_given_up: Callable[[Held], bool]) -> State:
    more = {held.lease.struct_hash(): held.ends_at for held in state.held if is_given_up(held)}
    return replace(_keep(state, lambda held: not is_given_up(held)), given_up={**state.given_up, **more})


def _change(state: State, is_meant: Callable[[Held], bool], change: Callable[[Held], Held]) -> State:
    return replace(state, held=tuple(change(held) if is_meant(held) else held for held in state.held))


def _advance(held: Held, stage: Stage) -> Held:
    return replace(held, stage=stage, attempts=0, retry_at=0.0)


def _fail(held: Held, now: float) -> Held:
    attempts = held.attempts + 1
    return replace(held, attempts=attempts, retry_at=now + back_off_s(attempts))
