"""Weights between strangers: manifests under a root on chain, chunks checked one by one, folders that appear whole."""

from stannary.shardcast.fetch import SourceLied, fetch, weights_url
from stannary.shardcast.folder import check_policy_folder, publish
from stannary.shardcast.manifest import Manifest, describe_folder, parse_manifest
from stannary.shardcast.policies import PolicyFolders

__all__ = [
    "Manifest",
    "PolicyFolders",
    "SourceLied",
    "check_policy_folder",
    "describe_folder",
    "fetch",
    "parse_manifest",
    "publish",
    "weights_url",
]
