"""Attacks that edit an honest recording, or what is signed about it. Each must be found each time, by its own check."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.zoo.decoding import Decoder, Wish, decode
from benchmarks.zoo.files import HOSTILE, swollen
from benchmarks.zoo.material import Group, Recording, Workshop
from benchmarks.zoo.stage import (
    COLLECT_SECONDS,
    NODE,
    OPENED,
    PROVIDER,
    STRANGER,
    Claim,
    Forgery,
    Pool,
    Stage,
    address,
    prove,
)
from demo.adversaries import edit
from stannary.rollout import Rollout, encode_group
from stannary.slots import taken_lease_hash
from stannary.structs import Domain
from stannary.toploc import PRIME, PROOF_BYTES, TOP_K
from stannary.types import ZERO_HASH, Reason

EDITED_TOKENS = 3
"""Of each rollout that is edited after it was proved."""
WHOLE, NOTHING = 1.0, 0.0
"""What a forgery costs of honest work: the completions that it edits, or next to nothing."""


class Unfit(Exception):
    """No recorded group can be made into this attack: more must be recorded."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is handed in."""

    rollouts: Sequence[Rollout]
    slot: int
    forgery: Forgery = field(default_factory=Forgery)
    stage: Stage | None = None
    """Another step than that of the material."""


@dataclass(slots=True)
class Material:
    """Honest groups of one step, and what else a forger may use."""

    workshop: Workshop
    pool: Pool
    recording: Recording
    foreign: Recording
    """Of another step."""
    claim: Claim
    stage: Stage = field(init=False)
    _kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stage = self.workshop.stage(self.pool, self.claim, self.recording)

    @property
    def cap(self) -> int:
        """The most tokens of a completion."""
        return self.stage.rules.max_completion_tokens

    @property
    def end(self) -> int:
        """An id that ends a completion."""
        return min(self.stage.exact.tokens.end_ids)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what was made under this name, or make it."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def group(self, index: int) -> Group:
        """Return an honest group; its slot is its index."""
        return self.recording.groups[index % len(self.recording.groups)]

    def slot(self, index: int) -> int:
        """Return the slot of a group."""
        return index % len(self.recording.groups)

    def rollouts(self, index: int) -> list[Rollout]:
        """Return an honest group with its proofs."""
        return proved(self.group(index))

    def reproved(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[Rollout]:
        """Prove any tokens by an honest prefill of the right policy."""
        return prove(prompt, completions, self.stage.rounded.states(prompt, completions))

    def decoder(self) -> Decoder:
        """Return the right policy, to go on generating with."""
        decoder: Decoder = self.once("decoder", lambda: Decoder(self.claim.folder))
        return decoder

    def fitting(self, index: int, rank: Callable[[Group], int]) -> int:
        """Return the slot of the group that ranks `index`-th among those that rank above 0, from the first again if
        there are fewer. Raises: Unfit if there is none.
        """
        ranks = [rank(group) for group in self.recording.groups]
        slots = sorted((slot for slot, own in enumerate(ranks) if own > 0), key=lambda slot: -ranks[slot])
        if not slots:
            raise Unfit("no recorded group is fit for it")
        return slots[index % len(slots)]


def proved(group: Group) -> list[Rollout]:
    """Return a recorded group with proofs of its states."""
    return prove(group[0].prompt, [each.completion for each in group], [each.states for each in group])


@dataclass(frozen=True, slots=True)
class Forged:
    """An attack that must be found every time."""

    name: str
    expected: tuple[Reason, ...]
    make: Callable[[Material, int], Attempt]
    """Makes the attempt of a number."""
    cost_share: float = WHOLE


# What is signed.


def _signed(forgery: Callable[[Material, int], Forgery]) -> Callable[[Material, int], Attempt]:
    """Hand in honest work under a forged signature, place or lease."""

    def make(material: Material, index: int) -> Attempt:
        return Attempt(material.rollouts(index), material.slot(index), forgery(material, index))

    return make


def _foreign(forgery: Forgery) -> Callable[[Material, int], Attempt]:
    """Hand in old work."""

    def make(material: Material, index: int) -> Attempt:
        old = material.foreign.groups[index % len(material.foreign.groups)]
        return Attempt(proved(old), material.slot(index), forgery)

    return make


def _units(change: Callable[[Material, int], int]) -> Callable[[Material, int], Forgery]:
    def forgery(material: Material, index: int) -> Forgery:
        units = sum(len(rollout.completion) for rollout in material.group(index))
        return Forgery(submission={"units": change(material, units)})

    return forgery


def _beyond_the_step(material: Material, index: int) -> Attempt:
    slot = material.slot(index)
    task = material.workshop.kind.task
    shorter = Stage(
        material.pool, material.claim, material.recording.seed,
        slots=slot, group_size=task.group_size, max_tokens=task.max_tokens,
    )  # fmt: skip
    return Attempt(material.rollouts(index), slot, stage=shorter)


def _not_taken(material: Material, _index: int) -> Forgery:
    rules, slot = material.stage.rules, len(material.recording.groups)
    lease_hash = taken_lease_hash(rules.domain, rules.pool, material.stage.facts.step, slot, PROVIDER)
    return Forgery(submission={"slot": slot, "lease_hash": lease_hash}, has_lease=False)


def _elsewhere(material: Material, _index: int) -> Forgery:
    return Forgery(domain=replace(material.stage.rules.domain, chain_id=1))


def _next_slot(material: Material, index: int) -> Attempt:
    """A worker with a lease of its own copies another's file."""
    return Attempt(material.rollouts(index), material.slot(index + 1), Forgery(node=STRANGER))


SIGNED = (
    Forged("leaf signed by a stranger", (Reason.SIGNATURE,), _signed(lambda *_: Forgery(signer=STRANGER))),
    Forged(
        "leaf in the name of another provider",
        (Reason.SIGNATURE,),
        _signed(lambda *_: Forgery(node=STRANGER, submission={"provider": PROVIDER}, lease={"provider": PROVIDER})),
    ),
    Forged("leaf of another chain", (Reason.SIGNATURE,), _signed(_elsewhere)),
    Forged(
        "leaf of another step", (Reason.SLOT,), _signed(lambda *_: Forgery(submission={"step": 1}, lease={"step": 1}))
    ),
    Forged(
        "leaf of another pool", (Reason.SLOT,), _signed(lambda *_: Forgery(submission={"pool": 2}, lease={"pool": 2}))
    ),
    Forged("slot beyond the step", (Reason.SLOT,), _beyond_the_step),
    Forged("slot said to be taken on chain", (Reason.SLOT,), _signed(_not_taken)),
    Forged(
        "old file, leaf and lease of another step",
        (Reason.SLOT,),
        _foreign(Forgery(submission={"step": 1}, lease={"step": 1})),
        NOTHING,
    ),
    Forged(
        "old file, leaf and lease of another pool",
        (Reason.SLOT,),
        _foreign(Forgery(submission={"pool": 2}, lease={"pool": 2})),
        NOTHING,
    ),
    Forged(
        "old file, leaf and lease of another chain",
        (Reason.SIGNATURE,),
        _foreign(Forgery(domain=Domain(1, address(STRANGER)))),
        NOTHING,
    ),
    Forged("old file under a new leaf", (Reason.PROMPT,), _foreign(Forgery()), NOTHING),
    Forged("lease signed by the worker itself", (Reason.LEASE,), _signed(lambda *_: Forgery(lessor=NODE))),
    Forged(
        "lease of another slot",
        (Reason.LEASE,),
        _signed(lambda material, index: Forgery(lease={"slot": material.slot(index + 1)})),
    ),
    Forged(
        "lease of another policy step",
        (Reason.LEASE,),
        _signed(lambda material, _: Forgery(lease={"policy_step": material.stage.facts.policy_step + 1})),
    ),
    Forged("lease on another card", (Reason.LEASE,), _signed(lambda *_: Forgery(lease={"card_hash": ZERO_HASH}))),
    Forged("lease of another protocol", (Reason.LEASE,), _signed(lambda *_: Forgery(lease={"protocol_version": 2}))),
    Forged(
        "lease beyond the collection",
        (Reason.LEASE,),
        _signed(lambda *_: Forgery(lease={"valid_until": OPENED + COLLECT_SECONDS + 1})),
    ),
    Forged(
        "another's leaf copied in its slot",
        (Reason.LEASE,),
        _signed(lambda *_: Forgery(node=STRANGER, lease={"node": address(NODE), "provider": PROVIDER})),
        NOTHING,
    ),
    Forged(
        "another's file copied under a lease of the copier's making",
        (Reason.LEASE,),
        _signed(lambda *_: Forgery(node=STRANGER, lessor=STRANGER)),
        NOTHING,
    ),
    Forged("another's file copied into an own slot", (Reason.PROMPT,), _next_slot, NOTHING),
    Forged(
        "units claimed beyond the lease", (Reason.UNITS,), _signed(_units(lambda m, _: m.stage.rules.max_units + 1))
    ),
    Forged(
        "units over-claimed",
        (Reason.UNITS,),
        _signed(_units(lambda m, units: units + 1 if units < m.stage.rules.max_units else units - 2)),
    ),
    Forged("units under-claimed", (Reason.UNITS,), _signed(_units(lambda _, units: units - 1))),
)


# What the file is.


def _file(write: Callable[[Sequence[Rollout]], bytes]) -> Callable[[Material, int], Attempt]:
    def make(material: Material, index: int) -> Attempt:
        rollouts = material.rollouts(index)
        return Attempt(rollouts, material.slot(index), Forgery(data=write(rollouts)))

    return make


def _exchanged(material: Material, index: int) -> Attempt:
    """Commit to one file and serve another, as good as it is."""
    rollouts = material.rollouts(index)
    committed = encode_group([replace(rollouts[0], proofs=()), *rollouts[1:]])
    return Attempt(rollouts, material.slot(index), Forgery(data=committed, served=encode_group(rollouts)))


def _smaller(material: Material, index: int) -> Attempt:
    return Attempt(material.rollouts(index)[:-1], material.slot(index))


def _larger(material: Material, index: int) -> Attempt:
    """Hand in the shortest rollout twice, where the lease has room for it."""
    most = material.stage.rules.max_units
    slot = material.fitting(index, lambda group: 1 + most - sum(len(each.completion) for each in group))
    rollouts = material.rollouts(slot)
    return Attempt([*rollouts, min(rollouts, key=lambda each: len(each.completion))], slot)


FILES = (
    *(Forged(f"file: {name}", (Reason.SCHEMA, Reason.GROUP), _file(write)) for name, write in HOSTILE.items()),
    Forged("file beyond the size limit", (Reason.SIZE,), _file(swollen)),
    Forged("file other than the committed one", (Reason.UNAVAILABLE,), _exchanged),
    Forged("group of one rollout less", (Reason.GROUP,), _smaller),
    Forged("group of one rollout more", (Reason.GROUP, Reason.UNITS), _larger),
)


# What the prompt and the tokens are.


def _other_prompt(alter: Callable[[Material, int], tuple[int, ...]], name: str) -> Callable[[Material, int], Attempt]:
    """Generate by the rule and prove honestly, but under another prompt than the slot's."""

    def make(material: Material, index: int) -> Attempt:
        def generate() -> list[list[Rollout]]:
            slots = range(len(material.recording.groups))
            prompts = [alter(material, slot) for slot in slots]
            wishes = [Wish(prompts[slot], seed) for slot in slots for seed in material.stage.seeds(slot)]
            made = decode([material.decoder()], wishes, material.cap)
            size = material.stage.rules.group_size
            parts = [made[slot * size : (slot + 1) * size] for slot in slots]
            return [
                prove(prompts[slot], [each.tokens for each in part], [each.states for each in part])
                for slot, part in zip(slots, parts, strict=True)
            ]

        groups: list[list[Rollout]] = material.once(name, generate)
        return Attempt(groups[material.slot(index)], material.slot(index))

    return make


def _token_changed(material: Material, slot: int) -> tuple[int, ...]:
    prompt = material.stage.prompt(slot)
    place = len(prompt) // 2
    return (*prompt[:place], prompt[place] ^ 1, *prompt[place + 1 :])


def _system_message(material: Material, slot: int) -> tuple[int, ...]:
    """Put a message of the worker's own before the question; without a chat template, a word twice."""
    prompt = material.stage.prompt(slot)
    if material.workshop.kind.task.environment != "reasoning_gym":
        return (*prompt[:2], *prompt[1:])
    from transformers import AutoTokenizer

    tokenizer: Any = material.once(
        "tokenizer", lambda: AutoTokenizer.from_pretrained(material.claim.folder, local_files_only=True)
    )
    problem = material.pool.environment.problem(material.stage.facts.seeds.slot_seed(slot))
    messages = [
        {"role": "system", "content": "Answer with the number alone."},
        {"role": "user", "content": str(problem.data["question"])},
    ]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def _shortened(material: Material, index: int) -> Attempt:
    """Cut every completion in half: what is left is honest to the last bit."""
    halves = [
        replace(each, completion=each.completion[:half], states=each.states[:half])
        for each in material.group(index)
        if (half := max(1, len(each.completion) // 2))
    ]
    return Attempt(proved(tuple(halves)), material.slot(index))


def _rewritten(
    change: Callable[[Material, int, list[tuple[int, ...]]], Sequence[Sequence[int]]], *, is_ended: bool = False
) -> Callable[[Material, int], Attempt]:
    """Change tokens, and prove them by an honest prefill; `is_ended` asks for groups with an end before the cap."""

    def make(material: Material, index: int) -> Attempt:
        slot = material.slot(index) if not is_ended else material.fitting(index, lambda group: _ended(material, group))
        group = material.recording.groups[slot]
        changed = [tuple(own) for own in change(material, slot, [each.completion for each in group])]
        return Attempt(material.reproved(group[0].prompt, changed), slot)

    return make


def _ended_early(material: Material, _slot: int, rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [(*row[: len(row) // 2], material.end) for row in rows]


def _edited_for_reward(material: Material, slot: int, rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    problem = material.pool.environment.problem(material.stage.facts.seeds.slot_seed(slot))
    folder = material.claim.folder
    return [edit(material.pool.environment, problem, row, folder)[: material.cap] for row in rows]


def _flooded(material: Material, slot: int, rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Repeat what is there, without its end, up to the cap, and put the right answer behind it."""
    found = []
    for row in _edited_for_reward(material, slot, rows):
        kept = [token for token in row if token != material.end] or [min(rows[0])]
        flood = (kept * material.cap)[: material.cap - min(len(kept), material.cap)]
        found.append((*flood, *kept)[-material.cap :])
    return found


def _poisoned(_material: Material, _slot: int, rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Replace the last quarter by the beginning, and keep how it ends: whatever is graded stands before."""
    found = []
    for row in rows:
        start = len(row) - max(2, len(row) // 4)
        poison = [row[place % max(1, start)] for place in range(len(row) - start - 1)]
        found.append((*row[:start], *poison, row[-1]))
    return found


def _padded(material: Material, rows: list[tuple[int, ...]], token: int | None) -> list[tuple[int, ...]]:
    return [
        (*row, *([material.end if token is None else token] * min(8, material.cap - len(row))))
        if row[-1] == material.end
        else row
        for row in rows
    ]


def _endless(material: Material, index: int) -> Attempt:
    """Bar the end id from being chosen, and generate by the rule to the cap."""

    def generate() -> list[list[Rollout]]:
        ends = list(material.stage.exact.tokens.end_ids)
        barred = Decoder(
            material.claim.folder, alter=lambda logits: logits.index_fill(1, torch.tensor(ends), -torch.inf)
        )
        wishes = [
            Wish(each.prompt, each.seed, each.completion[:-1] if each.completion[-1] in ends else each.completion)
            for group in material.recording.groups
            for each in group
        ]
        made = decode([barred], wishes, material.cap)
        size = material.stage.rules.group_size
        return [
            material.reproved(wishes[start].prompt, [each.tokens for each in made[start : start + size]])
            for start in range(0, len(made), size)
        ]

    groups: list[list[Rollout]] = material.once("endless", generate)
    slot = material.fitting(index, lambda group: _ended(material, group))
    return Attempt(groups[slot], slot)


def _over_cap(material: Material, index: int) -> Attempt:
    """Go on by the rule beyond the cap in one rollout, as far as the units of the lease reach."""

    def generate() -> list[tuple[int, list[tuple[int, ...]]]]:
        fit, wishes, rooms = [], [], []
        for slot, group in enumerate(material.recording.groups):
            room = material.stage.rules.max_units - sum(len(each.completion) for each in group)
            place = next((at for at, each in enumerate(group) if len(each.completion) == material.cap), None)
            if room > 0 and place is not None and group[place].completion[-1] != material.end:
                fit.append((slot, place))
                rooms.append(room)
                wishes.append(Wish(group[place].prompt, group[place].seed, group[place].completion))
        made = decode([material.decoder()], wishes, 2 * material.cap)
        found = []
        for (slot, place), room, own in zip(fit, rooms, made, strict=True):
            rows = [each.completion for each in material.recording.groups[slot]]
            rows[place] = own.tokens[: material.cap + room]
            found.append((slot, rows))
        # Those first that end by themselves: of them only the cap can tell.
        return sorted(
            found,
            key=lambda entry: all(row[-1] == material.end or len(row) == material.cap for row in entry[1]),
            reverse=True,
        )

    found: list[tuple[int, list[tuple[int, ...]]]] = material.once("over cap", generate)
    if not found:
        raise Unfit("no recorded group has a completion at the cap and units left")
    slot, rows = found[index % len(found)]
    return Attempt(material.reproved(material.recording.groups[slot][0].prompt, rows), slot)


def _ended(material: Material, group: Group) -> int:
    """Count the rollouts that ended before the cap."""
    return sum(len(each.completion) < material.cap for each in group)


def _emptied(material: Material, index: int) -> Attempt:
    first, *rest = material.rollouts(index)
    return Attempt([replace(first, completion=(), proofs=()), *rest], material.slot(index))


def _with_id(token: Callable[[Material], int]) -> Callable[[Material, int], Attempt]:
    """Put an id that cannot be sampled in the middle of one rollout."""

    def make(material: Material, index: int) -> Attempt:
        first, *rest = material.rollouts(index)
        row = list(first.completion)
        row[len(row) // 2] = token(material)
        return Attempt([replace(first, completion=tuple(row)), *rest], material.slot(index))

    return make


def _suppressed(material: Material, index: int) -> Attempt:
    """Sample an id that the policy's own rules suppress."""
    unused = material.stage.exact.vocabulary - 1
    folder: Path = material.once("suppressing", lambda: material.workshop.suppressing([unused]))
    stage: Stage = material.once(
        "suppressing stage", lambda: material.workshop.stage(material.pool, Claim(folder), material.recording)
    )
    return replace(_with_id(lambda _: unused)(material, index), stage=stage)


def _edited_after(material: Material, index: int) -> Attempt:
    """Edit a few tokens and keep the proofs."""
    chance = random.Random(index)  # noqa: S311  no secret
    rollouts = []
    for rollout in material.rollouts(index):
        row = list(rollout.completion)
        for place in chance.sample(range(max(1, len(row) - 1)), min(EDITED_TOKENS, max(1, len(row) - 1))):
            row[place] = chance.choice(
                [token for token in set(row) - {material.end} if token != row[place]] or [row[place]]
            )
        rollouts.append(replace(rollout, completion=tuple(row)))
    return Attempt(rollouts, material.slot(index))


def _rotated(material: Material, index: int) -> Attempt:
    first, *rest = material.rollouts(index)
    return Attempt([*rest, first], material.slot(index))


def _repeated(material: Material, index: int) -> Attempt:
    rollouts = material.rollouts(index)
    return Attempt([rollouts[0]] * len(rollouts), material.slot(index))


SAMPLED = (Reason.SAMPLING, Reason.SAMPLING_BOUND)
TOKENS = (
    Forged("another prompt, generated under it", (Reason.PROMPT,), _other_prompt(_token_changed, "changed prompt")),
    Forged("a message before the question", (Reason.PROMPT,), _other_prompt(_system_message, "system message")),
    Forged("completions cut in half", (Reason.TERMINATION,), _shortened, 0.5),
    Forged("an end set halfway, proved anew", SAMPLED, _rewritten(_ended_early), 0.5),
    Forged("the end barred up to the cap", SAMPLED, _endless),
    Forged(
        "end tokens behind the end",
        (Reason.TERMINATION,),
        _rewritten(lambda m, _s, rows: _padded(m, rows, None), is_ended=True),
    ),
    Forged(
        "other tokens behind the end",
        (Reason.TERMINATION,),
        _rewritten(lambda m, _s, rows: _padded(m, rows, rows[0][0]), is_ended=True),
    ),
    Forged("a completion beyond the cap", (Reason.LENGTH,), _over_cap),
    Forged("a completion of no token", (Reason.LENGTH,), _emptied),
    Forged("an id beyond the vocabulary", (Reason.TOKEN,), _with_id(lambda m: m.stage.exact.vocabulary)),
    Forged("an id below zero", (Reason.TOKEN,), _with_id(lambda _: -1)),
    Forged("an id that the policy suppresses", (Reason.TOKEN,), _suppressed),
    Forged("tokens edited after proving", (*SAMPLED, Reason.ACTIVATIONS), _edited_after),
    Forged("the answer edited, proved anew", SAMPLED, _rewritten(_edited_for_reward)),
    Forged("rollouts in another order", SAMPLED, _rotated),
    Forged("one rollout in every place", SAMPLED, _repeated, 0.25),
    Forged("tokens poisoned behind what is graded, proved anew", SAMPLED, _rewritten(_poisoned)),
    Forged("the right answer behind a flood of tokens, proved anew", SAMPLED, _rewritten(_flooded)),
)


# What the proofs are.


def _proofs(change: Callable[[Material, int, list[Rollout]], list[Rollout]]) -> Callable[[Material, int], Attempt]:
    def make(material: Material, index: int) -> Attempt:
        return Attempt(change(material, index, material.rollouts(index)), material.slot(index))

    return make


def _each_proof(change: Callable[[bytes], bytes]) -> Callable[[Material, int], Attempt]:
    return _proofs(
        lambda _m, _i, rollouts: [replace(each, proofs=tuple(map(change, each.proofs))) for each in rollouts]
    )


def _one(change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]) -> Callable[[Material, int], Attempt]:
    """Spoil the proofs of the last rollout only."""
    return _proofs(lambda _m, _i, rollouts: [*rollouts[:-1], replace(rollouts[-1], proofs=change(rollouts[-1].proofs))])


def _polynomial(*coefficients: int) -> bytes:
    words = (PRIME, *coefficients, *([0] * (TOP_K - len(coefficients))))
    return b"".join(word.to_bytes(2, "big") for word in words)


def _between_chunks(material: Material, index: int) -> Attempt:
    slot = material.fitting(index, lambda group: max(len(each.proofs) for each in proved(group)) - 1)
    rollouts = [replace(each, proofs=each.proofs[::-1]) for each in material.rollouts(slot)]
    return Attempt(rollouts, slot)


def _between_rollouts(material: Material, index: int) -> Attempt:
    """Rotate all proofs of a group, however they fall into rollouts."""
    rollouts = material.rollouts(index)
    every = [proof for each in rollouts for proof in each.proofs]
    every = [*every[1:], every[0]]
    found, start = [], 0
    for each in rollouts:
        found.append(replace(each, proofs=tuple(every[start : start + len(each.proofs)])))
        start += len(each.proofs)
    return Attempt(found, material.slot(index))


def _foreign_proofs(material: Material, index: int, rollouts: list[Rollout]) -> list[Rollout]:
    pool = [proof for group in material.foreign.groups for each in proved(group) for proof in each.proofs]
    found, start = [], index
    for each in rollouts:
        found.append(replace(each, proofs=tuple(pool[(start + k) % len(pool)] for k in range(len(each.proofs)))))
        start += len(each.proofs)
    return found


def _by_chance(_material: Material, index: int, rollouts: list[Rollout]) -> list[Rollout]:
    chance = random.Random(index)  # noqa: S311  no secret
    return [
        replace(each, proofs=tuple(_polynomial(*(chance.randrange(PRIME) for _ in range(TOP_K))) for _ in each.proofs))
        for each in rollouts
    ]


DRIFTED = (Reason.ACTIVATIONS,)
PROOFS = (
    Forged("proofs of a constant", DRIFTED, _each_proof(lambda _: _polynomial(0x4000))),
    Forged("proofs of zero", DRIFTED, _each_proof(lambda _: _polynomial())),
    Forged("proofs by chance", DRIFTED, _proofs(_by_chance)),
    Forged("proofs of another submission", DRIFTED, _proofs(_foreign_proofs)),
    Forged("proofs exchanged between chunks", DRIFTED, _between_chunks),
    Forged("proofs exchanged between rollouts", DRIFTED, _between_rollouts),
    Forged("proofs of nothing but zero bytes", (Reason.PROOF_FORMAT,), _each_proof(lambda own: bytes(len(own)))),
    Forged(
        "a modulus that no builder writes",
        (Reason.PROOF_FORMAT,),
        _one(lambda proofs: ((1 << 15).to_bytes(2, "big") + proofs[0][2:], *proofs[1:])),
    ),
    Forged(
        "a coefficient outside the field",
        (Reason.PROOF_FORMAT,),
        _one(lambda proofs: (proofs[0][:-2] + PRIME.to_bytes(2, "big"), *proofs[1:])),
    ),
    Forged("half a proof", (Reason.PROOF_FORMAT,), _one(lambda proofs: (*proofs[:-1], proofs[-1][: PROOF_BYTES // 2]))),
    Forged("a proof missing", (Reason.PROOF_COUNT,), _one(lambda proofs: proofs[:-1])),
    Forged("a proof too many", (Reason.PROOF_COUNT,), _one(lambda proofs: (*proofs, proofs[-1]))),
)

FORGED: Mapping[str, Forged] = {attack.name: attack for attack in (*SIGNED, *FILES, *TOKENS, *PROOFS)}


def attempt(attack: Forged, material: Material, index: int) -> tuple[Stage, Attempt]:
    """Return what is handed in, and to whom."""
    made = attack.make(material, index)
    return made.stage or material.stage, made


def identities_share_seeds(material: Material, count: int) -> int:
    """Return for how many slots two workers are asked for the same prompt and noise: new keys buy no new draws."""
    asked = []
    for node in (NODE, STRANGER):
        leases = [material.stage.lease(slot, node) for slot in range(count)]
        seeds = material.stage.facts.seeds
        asked.append([[seeds.rollout_seed(lease.slot, rollout) for rollout in range(4)] for lease in leases])
    return sum(own == other for own, other in zip(*asked, strict=True))
