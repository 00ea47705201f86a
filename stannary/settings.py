"""What every role's settings share: where the chain, the wallet and the coordinator are, and how variables are read.

A field is given as an option, as STANNARY_<ROLE>_<FIELD> or as STANNARY_<FIELD>; the first found counts. A variable of
our prefix that no field explains is an error that names it, so that a typing mistake never runs with a default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from stannary.errors import SettingsError
from stannary.fees import GWEI, FeeRules

PREFIX = "STANNARY_"
ROLES = ("coordinator", "worker", "validator", "trainer", "watch", "demo")
DEBUG_VARIABLE = "STANNARY_DEBUG"
"""Set to 1 it shows stack traces; it belongs to no role."""


class RoleSettings(BaseSettings):
    """Base of a role's settings, built once at start; a subclass names its role, adds fields and narrows these."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True)
    ROLE: ClassVar[str] = ""

    rpc_url: str = Field(default="http://127.0.0.1:8545", repr=False)
    """The chain's JSON-RPC address; not shown, since such addresses often hold a key."""
    deployment: Path = Path("deployment.json")
    """The file with the addresses of the contracts."""
    coordinator_url: str | None = None
    keystore: Path | None = None
    """The key that this role acts with."""
    password_file: Path | None = None
    """Holds the keystore's password; asked for on the terminal unless set."""
    pool: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    run_dir: Path = Path("runs")
    """Where the role keeps its files."""
    max_fee_gwei: Annotated[float, Field(gt=0, le=1e9)] = 500.0
    """The most that one unit of gas may cost."""
    bump_after_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """A transaction that is in no block after this time is sent again for more."""
    max_bumps: Annotated[int, Field(ge=0, le=64)] = 8
    """How often at most."""

    @property
    def fee_rules(self) -> FeeRules:
        """What a sender may pay."""
        return FeeRules(
            bump_after_s=self.bump_after_s, max_bumps=self.max_bumps, max_fee_wei=int(self.max_fee_gwei * GWEI)
        )

    @classmethod
    def load(cls, **given: object) -> Self:
        """Build the settings from options and the environment; options win, None is no option.

        Raises: SettingsError for a missing, malformed or unknown setting, without repeating its value.
        """
        refuse_unknown(os.environ, cls.variables())
        try:
            return cls(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        except ValidationError as error:
            raise SettingsError("; ".join(cls._explain(issue) for issue in error.errors(include_input=False))) from None

    @classmethod
    def variables(cls) -> set[str]:
        """Return the names of the variables that this role reads."""
        names = {PREFIX + field.upper() for field in cls.model_fields}
        if cls.ROLE:
            names |= {f"{PREFIX}{cls.ROLE.upper()}_{field.upper()}" for field in cls.model_fields}
        return names | {PREFIX + field.upper() for field in RoleSettings.model_fields}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read options first, then the role's own variables, then the shared ones; no files."""
        del env_settings, dotenv_settings, file_secret_settings
        shared = EnvSettingsSource(settings_cls, env_prefix=PREFIX)
        if not cls.ROLE:
            return init_settings, shared
        return init_settings, EnvSettingsSource(settings_cls, env_prefix=f"{PREFIX}{cls.ROLE.upper()}_"), shared

    @classmethod
    def _explain(cls, issue: Any) -> str:
        field = ".".join(str(part) for part in issue["loc"])
        variable = PREFIX + (f"{cls.ROLE.upper()}_" if cls.ROLE else "") + field.upper().replace(".", "_")
        if issue["type"] == "missing":
            return f"setting {field} is missing: set {variable} or give --{field.replace('_', '-')}"
        return f"setting {field} ({variable}): {issue['msg']}"


def refuse_unknown(environment: Mapping[str, str], known: set[str]) -> None:
    """Refuse a variable with our prefix that is not known and belongs to no other role. Raises: SettingsError."""
    others = tuple(f"{PREFIX}{role.upper()}_" for role in ROLES)
    own = tuple(prefix for prefix in others if any(name.startswith(prefix) for name in known))
    for name in sorted(environment):
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in known or upper == DEBUG_VARIABLE:
            continue
        if upper.startswith(others) and not upper.startswith(own):
            continue  # another role reads and judges it
        raise SettingsError(f"unknown setting {name}; known: {', '.join(sorted(known))}")
