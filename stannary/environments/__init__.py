"""Environments: prompts derived from slot seeds, rewards that anyone recomputes. No torch, no engine, no chain here."""

from stannary.environments.environment import Environment, Problem, Task
from stannary.environments.identity import describe_environment, load_environment

__all__ = ["Environment", "Problem", "Task", "describe_environment", "load_environment"]
