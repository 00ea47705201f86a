"""The chain's interface as data: ABI and creation bytecode of each contract, from committed JSON.

Owns the reading of `contracts/abi/*.json`. Must not know web3, a node or an address: Python needs no Node to use this.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast, get_args

__all__ = ["CONTRACT_NAMES", "ContractName", "abi", "bytecode"]

ContractName = Literal[
    "MockToken",
    "StakeManager",
    "PoolRegistry",
    "SubmissionLedger",
    "PayoutVault",
    "DisputeCourt",
    "VotingPanel",
    "PlantedFaults",
]

CONTRACT_NAMES: tuple[ContractName, ...] = get_args(ContractName)
"""In the order in which one account must create them (see contracts/README.md)."""


def abi(name: ContractName) -> list[dict[str, Any]]:
    """ABI of a contract. The caller may keep it, but must not change it.

    Raises: ValueError for a name that is no contract of ours.
    """
    return cast(list[dict[str, Any]], _document(name)["abi"])


def bytecode(name: ContractName) -> str:
    """Creation bytecode of a contract, as 0x-prefixed hex without constructor arguments.

    Raises: ValueError for a name that is no contract of ours.
    """
    return cast(str, _document(name)["bytecode"])


@cache
def _document(name: str) -> dict[str, Any]:
    if name not in CONTRACT_NAMES:
        raise ValueError(f"no contract {name!r}; expected one of {', '.join(CONTRACT_NAMES)}")
    text = (files(__name__) / "abi" / f"{name}.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))
