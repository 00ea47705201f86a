"""coordinator.routes.judgement and steps: leaves of a committed step, verdicts and evidence of its panel."""

from __future__ import annotations

import pytest
from blake3 import blake3

from coordinator import queries
from coordinator.tables import CaseRow, CommitmentRow, StepRow
from stannary.errors import Refused, Unavailable
from stannary.evidence import EvidenceFile, LeafEvidence
from stannary.slots import submission_root
from stannary.structs import Verdict
from stannary.types import CaseKind, CasePhase, Hash, Outcome, Phase, Reason, Role, Ruling, to_hex
from stannary.wire import VerdictMessage, VerdictsIn
from tests.coordinator.office import DOMAIN, POOL, TERMS, Office, account_of, address_of


def deliver(office: Office, name: str, count: int) -> None:
    """Let a worker deliver some groups of step 0."""
    client = office.client(name)
    for message in client.lease(count).leases:
        data = f"group of {name} for slot {message.slot}".encode()
        client.submit(office.submit(name, message, data))
        client.upload_submission(data)


def freeze(office: Office) -> CommitmentRow:
    """Freeze step 0 as the poster does, and let the chain hold its root."""

    def work(session: object) -> CommitmentRow:
        row = session.get(StepRow, 0)  # type: ignore[attr-defined]
        frozen = queries.freeze(session, row)  # type: ignore[arg-type]
        assert frozen is not None
        return frozen

    return office.store.write(work)


@pytest.fixture
def judged(office: Office) -> Office:
    """An office whose step 0 has three leaves of two providers in eight slots, committed, with a panel of three."""
    office.stake("walter")
    for name in ("vera", "victor", "vince", "zoe"):
        office.stake(name, Role.VALIDATOR)
    deliver(office, "wendy", 2)
    deliver(office, "walter", 1)
    frozen = freeze(office)
    office.step(
        phase=Phase.AUDITED,
        panel=("vera", "victor", "vince"),
        root=frozen.submission_root,
        leaf_count=frozen.leaf_count,
    )
    return office


def verdicts_of(office: Office, name: str, outcome: Outcome = Outcome.ACCEPT) -> VerdictsIn:
    messages = []
    for leaf in office.client().leaves(0).leaves:
        verdict = Verdict(POOL, 0, leaf.submission.submission().struct_hash(), outcome, 0, Hash(b"r" * 32))
        messages.append(VerdictMessage.of(verdict, address_of(name), verdict.sign(account_of(name), DOMAIN)))
    return VerdictsIn(verdicts=messages)


def evidence_of(office: Office, name: str, explanation: str = "") -> EvidenceFile:
    leaves = tuple(
        LeafEvidence(leaf.submission.submission().struct_hash(), Outcome.ACCEPT, Reason.NONE, explanation, {}, ())
        for leaf in office.client().leaves(0).leaves
    )
    return EvidenceFile(POOL, 0, 0, address_of(name), TERMS.card_hash, "a test", leaves)


# Leaves


def test_leaves_are_ordered_by_slot_under_the_root(judged: Office) -> None:
    answer = judged.client().leaves(0)
    leaves = [leaf.submission.submission() for leaf in answer.leaves]
    assert [leaf.slot for leaf in leaves] == sorted(leaf.slot for leaf in leaves)
    assert to_hex(submission_root(leaves, 8)) == answer.submission_root
    for leaf in answer.leaves:
        leaf.lease.lease().require_signer(bytes.fromhex(leaf.lease.signature[2:]), DOMAIN, TERMS.coordinator)
        signature = bytes.fromhex(leaf.submission.signature[2:])
        leaf.submission.submission().require_signer(signature, DOMAIN, leaf.submission.submission().node)
        assert leaf.submission.submission().lease_hash == leaf.lease.lease().struct_hash()


def test_leaves_of_a_step_that_collects_are_not_shown(office: Office) -> None:
    deliver(office, "wendy", 1)
    with pytest.raises(Unavailable):
        office.client().leaves(0)


def test_leaves_are_not_shown_for_a_root_that_is_not_theirs(judged: Office) -> None:
    judged.step(phase=Phase.AUDITED, root=Hash(b"f" * 32), leaf_count=3)
    with pytest.raises(Refused) as refused:
        judged.client().leaves(0)
    assert refused.value.status == 409


def test_freeze_keeps_out_leaves_without_bytes_and_everything_later(office: Office) -> None:
    deliver(office, "wendy", 1)
    first, second = office.client("wendy").lease(2).leases
    office.client("wendy").submit(office.submit("wendy", first, b"promised only"))
    frozen = freeze(office)
    assert frozen.leaf_count == 1
    with pytest.raises(Refused) as late_bytes:
        office.client("wendy").upload_submission(b"promised only")
    with pytest.raises(Refused) as late_leaf:
        office.client("wendy").submit(office.submit("wendy", second, b"late"))
    assert (late_bytes.value.status, late_leaf.value.status) == (409, 409)
    assert office.client("wendy").lease(1).leases == []
    assert freeze(office).submission_root == frozen.submission_root


def test_step_that_is_unknown_is_not_there(office: Office) -> None:
    for ask in (office.client().step, office.client().leaves, office.client().verdicts):
        with pytest.raises(Unavailable):
            ask(5)


def test_steps_are_listed_newest_first(office: Office) -> None:
    office.step(1, phase=Phase.OPEN)
    assert [(step.step, step.phase) for step in office.client().steps().steps] == [(1, Phase.OPEN), (0, Phase.SEEDED)]


# Verdicts


def test_verdicts_of_a_panel_member_are_kept_and_the_same_again_changes_nothing(judged: Office) -> None:
    verdicts = verdicts_of(judged, "vera")
    judged.client("vera").post_verdicts(verdicts)
    judged.client("vera").post_verdicts(verdicts)
    assert judged.client().verdicts(0).verdicts == verdicts.verdicts


def test_verdicts_of_a_panel_members_node_are_kept(judged: Office) -> None:
    judged.node("vera's node", "vera")
    judged.client("vera's node").post_verdicts(verdicts_of(judged, "vera's node"))
    assert {message.node for message in judged.client().verdicts(0).verdicts} == {address_of("vera's node")}


def test_verdicts_that_differ_from_those_before_are_refused(judged: Office) -> None:
    judged.client("vera").post_verdicts(verdicts_of(judged, "vera"))
    with pytest.raises(Refused) as refused:
        judged.client("vera").post_verdicts(verdicts_of(judged, "vera", Outcome.REJECT))
    assert refused.value.status == 409


@pytest.mark.parametrize("name", ["zoe", "wendy"])
def test_verdicts_from_outside_the_panel_are_refused(judged: Office, name: str) -> None:
    with pytest.raises(Refused) as refused:
        judged.client(name).post_verdicts(verdicts_of(judged, name))
    assert refused.value.status == 403


def test_verdicts_in_anothers_name_are_refused(judged: Office) -> None:
    with pytest.raises(Refused) as refused:
        judged.client("vera").post_verdicts(verdicts_of(judged, "victor"))
    assert refused.value.status == 422


def test_verdicts_with_a_false_signature_are_refused(judged: Office) -> None:
    verdicts = verdicts_of(judged, "vera")
    bent = [message.model_copy(update={"reason": 7}) for message in verdicts.verdicts]
    with pytest.raises(Refused) as refused:
        judged.client("vera").post_verdicts(VerdictsIn(verdicts=bent))
    assert refused.value.status == 422


@pytest.mark.parametrize(
    "bend", [lambda found: found[:-1], lambda found: found[::-1], lambda found: [*found, found[0]]]
)
def test_verdicts_that_are_not_one_a_leaf_in_order_are_refused(judged: Office, bend: object) -> None:
    assert callable(bend)
    verdicts = VerdictsIn(verdicts=bend(verdicts_of(judged, "vera").verdicts))
    with pytest.raises(Refused) as refused:
        judged.client("vera").post_verdicts(verdicts)
    assert refused.value.status == 422


def test_verdicts_are_also_due_on_what_was_delivered_for_slots_taken_on_chain(judged: Office) -> None:
    taken = Hash(b"t" * 32)
    judged.take("wendy", slot=8)
    judged.client("vera").post_verdicts(verdicts_of(judged, "vera"))
    judged.take("wendy", slot=8, leaf_hash=taken)
    verdict = Verdict(POOL, 0, taken, Outcome.ACCEPT, 0, Hash(b"r" * 32))
    message = VerdictMessage.of(verdict, address_of("victor"), verdict.sign(account_of("victor"), DOMAIN))
    verdicts = verdicts_of(judged, "victor")
    with pytest.raises(Refused):
        judged.client("victor").post_verdicts(verdicts)
    judged.client("victor").post_verdicts(VerdictsIn(verdicts=[*verdicts.verdicts, message]))
    found = [shown for shown in judged.client().verdicts(0).verdicts if shown.node == address_of("victor")]
    assert found == [*verdicts.verdicts, message]


def test_disputes_about_leaves_are_shown_with_their_step(judged: Office) -> None:
    case = {"step": 0, "provider": address_of("wendy"), "phase": int(CasePhase.VOTING), "ruling": int(Ruling.NONE)}
    rows = [
        CaseRow(case_id=1, slot=3, kind=int(CaseKind.APPEAL), **case),
        CaseRow(case_id=2, slot=0, kind=int(CaseKind.STATISTICS), **case),
    ]
    judged.store.write(lambda session: session.add_all(rows))
    [shown] = judged.client().step(0).disputes
    assert (shown.case_id, shown.slot, shown.provider) == (1, 3, address_of("wendy"))
    assert (CaseKind(shown.kind), CasePhase(shown.phase)) == (CaseKind.APPEAL, CasePhase.VOTING)


# Evidence


def test_evidence_makes_the_round_trip(judged: Office) -> None:
    file = evidence_of(judged, "vera")
    judged.client("vera").put_evidence(file.root(), file.to_bytes())
    judged.client("vera").put_evidence(file.root(), file.to_bytes())
    assert EvidenceFile.parse(judged.client().evidence(file.root())) == file


def test_evidence_under_another_root_is_refused(judged: Office) -> None:
    with pytest.raises(Refused) as refused:
        judged.client("vera").put_evidence(Hash(b"r" * 32), evidence_of(judged, "vera").to_bytes())
    assert refused.value.status == 422


@pytest.mark.parametrize(("signer", "node", "status"), [("zoe", "zoe", 403), ("vera", "victor", 422)])
def test_evidence_of_somebody_else_is_refused(judged: Office, signer: str, node: str, status: int) -> None:
    file = evidence_of(judged, node)
    with pytest.raises(Refused) as refused:
        judged.client(signer).put_evidence(file.root(), file.to_bytes())
    assert refused.value.status == status


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format": "stannary.evidence.v1"}', b"\xff" * 100, b"[" * 100_000])
def test_evidence_that_is_none_is_refused(judged: Office, data: bytes) -> None:
    with pytest.raises(Refused) as refused:
        judged.client("vera").put_evidence(Hash(b"r" * 32), data)
    assert refused.value.status == 422


def test_evidence_files_of_one_seat_are_few(judged: Office) -> None:
    for index in range(4):
        file = evidence_of(judged, "vera", f"attempt {index}")
        judged.client("vera").put_evidence(file.root(), file.to_bytes())
    file = evidence_of(judged, "vera", "one more")
    with pytest.raises(Refused) as refused:
        judged.client("vera").put_evidence(file.root(), file.to_bytes())
    assert refused.value.status == 409
    name = blake3(file.to_bytes()).hexdigest()
    assert not list(judged.folder.rglob(name))


def test_evidence_that_nobody_put_is_not_there(judged: Office) -> None:
    with pytest.raises(Unavailable):
        judged.client().evidence(Hash(b"r" * 32))


# Nodes


def test_nodes_show_what_was_heard_and_done(judged: Office) -> None:
    from stannary.wire import HeartbeatIn

    judged.client("wendy").heartbeat(HeartbeatIn(engine="toy", state="waiting", tokens_per_s=1.5))
    node = judged.client().nodes().nodes[0]
    assert (node.node, node.provider, node.engine, node.tokens_per_s) == (
        address_of("wendy"),
        address_of("wendy"),
        "toy",
        1.5,
    )
    assert (node.leased, node.received) == (2, 2)
    assert abs(node.last_seen_at - judged.now()) < 30
