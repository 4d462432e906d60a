"""`interlock debug profiles`: which screens are known, from which file, and whether a file is a good profile."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from interlock.agents.profiles import builtin_profiles, read_profile_file, user_profiles, user_profiles_folder
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag
from interlock.screen.profile import Profile, Versions


class ListedProfile(Struct, frozen=True):
    """One profile, as `profiles --json` prints it."""

    id: str
    cli: str
    title: str
    versions: str
    rules: int
    source: str


def profiles(*files: Path, json: JsonFlag = False) -> int:
    """List the profiles that read screens: yours first, then those that come with Interlock. With files, check them.

    A broken profile is refused with its file and line (exit code 2).
    """
    if files:
        found = [(read_profile_file(path), str(path)) for path in files]
    else:
        own = [(profile, "yours") for profile in user_profiles(user_profiles_folder())]
        found = own + [(profile, "built in") for profile in builtin_profiles()]
    listed = [_listed(profile, source) for profile, source in found]
    if json:
        output.print_json({"profiles": listed})
        return ExitCode.COMPLETED
    output.print_table(
        ("PROFILE", "CLI", "VERSIONS", "RULES", "SOURCE"),
        [(one.id, one.title, one.versions, str(one.rules), one.source) for one in listed],
    )
    if not files:
        output.print_text(f"\nyours are read from {user_profiles_folder()}")
    return ExitCode.COMPLETED


def _listed(profile: Profile, source: str) -> ListedProfile:
    return ListedProfile(
        profile.id, profile.cli, profile.title, _interval(profile.versions), len(profile.rules), source
    )


def _interval(versions: Versions) -> str:
    start, before = (
        None if bound is None else ".".join(map(str, bound)) for bound in (versions.start, versions.before)
    )
    if start is None and before is None:
        return "any"
    return " ".join(text for text in (start and f"from {start}", before and f"before {before}") if text)
