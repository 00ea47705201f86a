"""The eight contracts of a deployment, by the names of their sources."""

from __future__ import annotations

from contracts import ContractName

TOKEN: ContractName = "MockToken"  # noqa: S105  a name
STAKE_MANAGER: ContractName = "StakeManager"
POOL_REGISTRY: ContractName = "PoolRegistry"
SUBMISSION_LEDGER: ContractName = "SubmissionLedger"
PAYOUT_VAULT: ContractName = "PayoutVault"
DISPUTE_COURT: ContractName = "DisputeCourt"
VOTING_PANEL: ContractName = "VotingPanel"
PLANTED_FAULTS: ContractName = "PlantedFaults"
