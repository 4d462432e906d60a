"""The files of rules as they stand when a question comes: links, changes, pauses, and what cannot be read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from interlock.lifecycle.rules.verdict import AskedCall
from interlock.runtime.rules.keeper import RuleKeeper, RuleStanding, read_standing, write_standing
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId

SESSION = SessionId("ses_1")
EDIT = '[[rule]]\nid = "edit"\nthen = "allow"\ntool = ["Edit"]\npaths = ["src"]\n'
LS = '[[rule]]\nid = "ls"\nthen = "allow"\ncommand = ["ls"]\n'
NO_LS = LS.replace("allow", "deny")


class Place:
    """A home, a configuration folder and a project."""

    def __init__(self, folder: Path) -> None:
        self.home, self.config, self.project = (folder / name for name in ("home", "config", "project"))
        for one in (self.home, self.config, self.project / "src", self.project / ".interlock"):
            one.mkdir(parents=True)
        self.user = self.config / "rules.toml"
        self.theirs = self.project / ".interlock" / "rules.toml"
        self.keeper = RuleKeeper(self.home, {"INTERLOCK_CONFIG": str(self.config / "config.toml")})

    def said(self, arguments: Json, tool: str = "Bash", session_id: SessionId = SESSION) -> str:
        call = AskedCall(agent="claude", tool=tool, arguments=arguments, folder=str(self.project))
        return self.keeper(session_id, call, date(2030, 1, 1)).then.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def test_a_link_that_leads_out_of_an_allowed_folder_is_asked(place: Place) -> None:
    place.user.write_text(EDIT)
    (place.project / "src" / "out").symlink_to(place.home)
    (place.project / "src" / "in").mkdir()
    assert place.said({"file_path": "src/in/new.py"}, "Edit") == "allow"
    assert place.said({"file_path": "src/out/x"}, "Edit") == "ask"
    assert place.said({"file_path": "src/a\0b"}, "Edit") == "ask"


def test_what_stands_in_a_file_holds_from_the_next_question_on(place: Place) -> None:
    assert place.said({"command": "ls"}) == "ask"
    place.user.write_text(LS)
    assert place.said({"command": "ls"}) == "allow"
    place.user.write_text(NO_LS)
    assert place.said({"command": "ls"}) == "deny"
    place.user.write_text("=")
    assert place.said({"command": "ls"}) == "ask"


def test_a_file_that_cannot_be_read_asks_for_everything(place: Place) -> None:
    """Trap 26 of the plan: a broken file."""
    place.user.write_text(LS)
    place.theirs.mkdir()
    assert place.said({"command": "ls"}) == "ask"


def test_a_project_s_file_is_trusted_by_its_digest_alone(place: Place) -> None:
    place.theirs.write_text(LS)
    assert place.said({"command": "ls"}) == "ask"
    (file,) = place.keeper.files(str(place.project), RuleStanding())
    write_standing(place.home, RuleStanding(trusted={file.path: file.digest}))
    assert place.said({"command": "ls"}) == "allow"
    place.theirs.write_text(LS + "# more\n")
    assert place.said({"command": "ls"}) == "ask"


def test_a_pause_stops_allowing_only_and_ends_by_itself(place: Place) -> None:
    place.user.write_text(LS + NO_LS.replace('"ls"', '"rm"'))
    now = datetime.now(UTC)
    cases: list[tuple[dict[str, datetime | None], str, str]] = [
        ({SESSION: None}, "ask", "allow"),
        ({"*": None}, "ask", "ask"),
        ({"*": now + timedelta(days=1)}, "ask", "ask"),
        ({"*": now - timedelta(days=1)}, "allow", "allow"),
    ]
    for paused, there, elsewhere in cases:
        write_standing(place.home, RuleStanding(paused=paused))
        assert (place.said({"command": "ls"}), place.said({"command": "rm"})) == (there, "deny")
        assert place.said({"command": "ls"}, session_id=SessionId("ses_2")) == elsewhere


def test_a_standing_that_is_not_understood_asks_for_everything(place: Place) -> None:
    place.user.write_text(LS)
    (place.home / "rules.json").write_text('{"paused": 1}')
    assert place.said({"command": "ls"}) == "ask"
    with pytest.raises(UsageError, match="not understood"):
        read_standing(place.home)


def test_a_standing_that_is_no_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "rules.json").mkdir()
    with pytest.raises(UsageError, match=r"is not a plain file; look at what it is, and move it away$"):
        read_standing(tmp_path)
    (tmp_path / "home").write_text("no folder")
    with pytest.raises(UsageError, match=r"a part of the path is not a folder; check the path$"):
        read_standing(tmp_path / "home")
