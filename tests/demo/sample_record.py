"""A small record of an invented run, for tests of the page and the report."""

from __future__ import annotations

from demo.record import (
    Account,
    AccusationRecord,
    Example,
    JurorRecord,
    LeafRecord,
    Measurement,
    PolicyRecord,
    ProviderRecord,
    Record,
    StepRecord,
    ValidatorRecord,
    VoteRecord,
)
from stannary.types import Address, Outcome, Ruling

ROLES = ("honest_vllm", "honest_transformers", "cheat", "liar")
TOKEN = 10**18


def address(number: int) -> Address:
    return Address(f"0x{number:040x}")


def sample_record(steps: int = 15) -> Record:
    rows = []
    for step in range(steps):
        leaves = []
        for slot in range(16):
            role = ROLES[slot % 4] if step < 8 else ROLES[slot % 2]
            bad = role == "liar" or (role == "cheat" and step > 1)
            outcome = Outcome.FAULT if role == "liar" else Outcome.REJECT if bad else Outcome.ACCEPT
            if step == 3 and slot == 0:
                outcome = Outcome.ABSTAIN
            leaves.append(
                LeafRecord(
                    step=step,
                    slot=slot,
                    role=role,
                    provider=address(ROLES.index(role) + 1),
                    units=8 * 40,
                    outcome=outcome,
                    reason={"liar": "sampling_bound", "cheat": "activations"}[role] if bad else "none",
                    reward=0.15 + 0.03 * step,
                    leased_at=1000 + 12 * step,
                    paid_wei=0 if bad else TOKEN,
                    slashed_wei=10 * TOKEN if outcome == Outcome.FAULT else 0,
                )
            )
        start = 1000 + 12 * step
        rows.append(
            StepRecord(
                step=step,
                policy_step=max(0, step - 1),
                slots=16,
                opened_at=start - 2,
                seeded_at=start,
                committed_at=start + 6,
                audited_at=start + 8,
                finalized_at=start + 15,
                votes=tuple(VoteRecord(f"validator-{n}", start + 10 + n, start + 13) for n in range(3)),
                leaves=tuple(leaves),
            )
        )
    leaves_flat = [leaf for step in rows for leaf in step.leaves]

    def total(role: str, name: str) -> int:
        return sum(getattr(leaf, name) for leaf in leaves_flat if leaf.role == role)

    providers = tuple(
        ProviderRecord(
            role=role,
            engine="vllm" if role == "honest_vllm" else "transformers",
            provider=address(number + 1),
            node=address(number + 101),
            allocated_wei=100 * TOKEN,
            stake_wei=max(0, 100 * TOKEN - total(role, "slashed_wei")),
            slashed_wei=min(100 * TOKEN, total(role, "slashed_wei")),
            compensation_wei=2 * TOKEN if role == "honest_vllm" else 0,
            payout_wei=total(role, "paid_wei") + (2 * TOKEN if role == "honest_vllm" else 0),
        )
        for number, role in enumerate(ROLES)
    )
    paid = sum(provider.payout_wei for provider in providers)
    return Record(
        policy="toy",
        chain_id=31337,
        lr=None,
        began_at=990,
        ended_at=1000 + 12 * steps + 20,
        steps=tuple(rows),
        policies=tuple(PolicyRecord(n, 1000 + 12 * n + 1) for n in range(steps + 1)),
        providers=providers,
        validators=tuple(
            ValidatorRecord(
                name=f"validator-{n}",
                provider=address(50 + n),
                votes=steps,
                rulings=n // 3,
                allocated_wei=100 * TOKEN,
                stake_wei=100 * TOKEN,
                slashed_wei=0,
                fees_wei=steps * TOKEN,
            )
            for n in range(6)
        ),
        transactions={"SubmissionLedger.commitVote": 3 * steps, "PayoutVault.claim": 4},
        gas_used=12_345_678,
        accounts=(
            Account("StakeManager", 300 * TOKEN, 300 * TOKEN, {"deposited": 700 * TOKEN}, {"slashed": 400 * TOKEN}),
            Account("PayoutVault", 5 * TOKEN, 5 * TOKEN, {"funded": paid + 5 * TOKEN}, {"claimed": paid}),
        ),
        accusations=(
            AccusationRecord(
                case_id=1,
                step=0,
                slot=0,
                role="honest_vllm",
                accuser=address(99),
                opened_at=1016,
                resolved_at=1030,
                jurors=tuple(JurorRecord(f"validator-{n}", Ruling.ACCEPT, TOKEN // 4) for n in (3, 4, 5)),
                ruling=Ruling.ACCEPT,
                bond_wei=4 * TOKEN,
                bond_lost_wei=4 * TOKEN,
                paid_wei=TOKEN,
                compensation_wei=2 * TOKEN,
                slashed_wei=0,
            ),
        ),
        unearned=(),
        accepted_example=Example(
            leaves_flat[1],
            "validator-0",
            (
                Measurement("activations", "exponent mismatches", "3", "≤ 12", True),
                Measurement("sampling", "share of tokens not argmax", "1.2 %", "≤ 6 %", True),
            ),
        ),
        rejected_example=Example(
            leaves_flat[3],
            "validator-0",
            (Measurement("sampling", "largest gap", "7.41", "≤ 0.5", False),),
        ),
        heldout_before=0.152,
        heldout_after=0.631,
        wall_s=213.4,
        peak_rss_mb=5120,
    )
