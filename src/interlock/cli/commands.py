"""What `interlock` can do, in one table. Imports nothing heavy: the first help page is made from it alone."""

from __future__ import annotations

from typing import Final, NamedTuple

SUMMARY: Final = "Runs and watches AI coding agents, and never claims more than it can prove."


class Command(NamedTuple):
    """A command's name (two words for one of a family), where its function lives, its line of help, and examples."""

    name: str
    target: str
    help: str
    examples: str = ""


FAMILIES: Final = {"log": "Read, check, move and mend the log itself."}

COMMANDS: Final = (
    Command(
        "turns",
        "interlock.cli.turns:turns",
        "Say how each turn of a session stands, and on what evidence.",
        """\
  interlock turns ses_01              every turn, in order
  interlock turns ses_01 --last 3     the three that began last
  interlock turns ses_01 --json       the records, for a script""",
    ),
    Command(
        "why",
        "interlock.cli.why:why",
        "Explain one turn: the verdict and its chain of evidence.",
        """\
  interlock why ses_01                      the turn that began last
  interlock why ses_01 --turn 2             the second one, or give its id
  interlock why ses_01 --at 120             as the log stood at event 120
  interlock why ses_01 --at 2026-01-31T12:00:00Z

The exit code tells the turn's state: 0 completed, 1 failed, 3 partial_failed,
4 interrupted, 5 timed_out, 6 waiting, 7 running, abandoned or no such turn;
9 if the log is damaged.""",
    ),
    Command(
        "diagnose",
        "interlock.cli.diagnose:diagnose",
        "Check a session: what is wrong, where, and what to do next.",
        """\
  interlock diagnose ses_01           what is wrong, and what was checked
  interlock diagnose ses_01 --json    the whole report, for a script

Exit codes: 0 ready, with or without warnings; 1 blocked; 9 damaged log.""",
    ),
    Command(
        "replay",
        "interlock.cli.replay:replay",
        "Print what a model would be given of a session, item by item.",
        """\
  interlock replay ses_01                  the items, one line each
  interlock replay ses_01 --json           the items whole, one JSON a line
  interlock replay ses_01 --explain        for every event why it is in or out
  interlock replay ses_01 --digest         its digest""",
    ),
    Command(
        "fork",
        "interlock.cli.session_write:fork",
        "Begin a new session as a copy of another, up to the end of a turn.",
        """\
  interlock fork ses_01 --dry-run                 what would be copied
  interlock fork ses_01                           at the last possible place
  interlock fork ses_01 --at trn_7                at the end of a turn
  interlock fork ses_01 --at trn_7 --summarize    and say what came after it""",
    ),
    Command(
        "compact",
        "interlock.cli.session_write:compact",
        "Let a summary stand for the older turns in what a model is given.",
        """\
  interlock compact ses_01 --dry-run          the summary that would be written
  interlock compact ses_01 --keep-turns 2     keep the last two as they are

The log itself keeps every event.""",
    ),
    Command(
        "rm",
        "interlock.cli.session_write:rm",
        "Purge one session; a tombstone with its chain head stays.",
        """\
  interlock rm ses_01                                  asks first
  interlock rm ses_01jk5v3z9c0000000000000000 --yes    for a script: a whole id""",
    ),
    Command(
        "adopt",
        "interlock.cli.adopt:adopt",
        "Say which agent runs in a pane of tmux, and how it stands.",
        """\
  interlock adopt %3                      a look, and the rule behind it
  interlock adopt work:1.0 --follow       a line for each change, until Ctrl-C
  interlock adopt %3 --socket work --json

Exit code 6: it waits for a person; 7: its screen does not say.""",
    ),
    Command(
        "record",
        "interlock.cli.record:record",
        "Record what a pane of tmux shows, with styles and title.",
        """\
  interlock record %3 -o session.ndjson.gz
  interlock record %3 -o session.ndjson.gz --seconds 60""",
    ),
    Command(
        "track",
        "interlock.cli.track:track",
        "Replay a recording of a terminal: one verdict a frame.",
        """\
  interlock track session.ndjson.gz           what changed, and by which rule
  interlock track session.ndjson.gz --json    one JSON object a frame
  tail -f session.ndjson | interlock track -  while it is being recorded""",
    ),
    Command(
        "score",
        "interlock.cli.score:score",
        "Compare the verdicts on recordings with their truth.",
        """\
  interlock score recordings/                 a row for each CLI
  interlock score recordings/ --show          the frame and rule of each miss
  interlock score recordings/ --hz 1 --drop 0.3 --jitter 0.5

Exit code 1: a reading was unsafe (blocked or working read as idle, or a
completion while the turn went on).""",
    ),
    Command(
        "log ls",
        "interlock.cli.log_commands:ls",
        "List the sessions of a home.",
        """\
  interlock log ls                      the first hundred, by id
  interlock log ls --prefix ses_01      those whose id starts so
  interlock log ls --after ses_01jk5    the next page
  interlock log ls --json""",
    ),
    Command(
        "log show",
        "interlock.cli.log_commands:show",
        "Print the events of a session, oldest first.",
        """\
  interlock log show ses_01                           one line an event
  interlock log show ses_01 --after 100 --limit 50    a part
  interlock log show ses_01 --type turn_failed --type run_state
  interlock log show ses_01 --turn trn_7 --json       the events whole, as JSON""",
    ),
    Command(
        "log tail",
        "interlock.cli.log_commands:tail",
        "Print the last events of a session or of all, and follow new ones.",
        """\
  interlock log tail ses_01             the last ten events
  interlock log tail ses_01 -f          and each new one, until Ctrl-C
  interlock log tail --all -f --json    every session, one JSON object a line""",
    ),
    Command(
        "log export",
        "interlock.cli.log_files:export",
        "Write sessions as NDJSON, exactly as they are stored.",
        """\
  interlock log export ses_01 --output ses_01.ndjson
  interlock log export --all | gzip > log.ndjson.gz""",
    ),
    Command(
        "log import",
        "interlock.cli.log_files:import_",
        "Append the events of an NDJSON file; can be run again.",
        """\
  interlock log import ses_01.ndjson --dry-run    check every line
  interlock log import ses_01.ndjson
  zcat log.ndjson.gz | interlock log import -     from a pipe""",
    ),
    Command(
        "log verify",
        "interlock.cli.log_verify:verify",
        "Check that every event is there and unchanged; print the heads.",
        """\
  interlock log verify                                  all, and the file
  interlock log verify ses_01                           one session
  interlock log verify ses_01 --anchor VERSION:HEAD     was it ever so?

Note anchors where nobody who can write to the log can change them: a cut
tail or a rewrite of everything shows only against one.""",
    ),
    Command(
        "log repair",
        "interlock.cli.log_repair:repair",
        "Mend a damaged log: print the plan, or carry it out.",
        """\
  interlock log repair                  what is damaged, and what would be done
  interlock log repair ses_01 --apply   do it for one session
  interlock log repair --salvage        when SQLite itself cannot read the file""",
    ),
    Command(
        "log purge",
        "interlock.cli.log_write:purge",
        "Purge whole sessions that are old; tombstones stay.",
        """\
  interlock log purge --before 2026-01-31 --dry-run    which ones
  interlock log purge --before 2026-01-31              asks first
  interlock log purge --before 2026-01-31 --yes        for a script""",
    ),
    Command(
        "shim",
        "interlock.cli.shim:shim",
        "Run an agent in a terminal of its own that hears its status.",
        """\
  interlock shim -- claude                        as if it ran without the shim
  interlock shim --status-file s.ndjson -- codex  what it says of itself, kept
  interlock shim --status-socket PATH -- claude   or sent to a Unix socket

The exit code, or the signal, is the command's own; 127 not found, 126 not
executable.""",
    ),
    Command(
        "hooks",
        "interlock.cli.hooks:hooks",
        "Let Claude Code or Codex tell of itself by its hooks.",
        """\
  interlock hooks install claude      once; run it again after an update
  interlock hooks status codex        are they there, and is more needed?
  interlock hooks uninstall claude    as it was before""",
    ),
    Command(
        "profiles",
        "interlock.cli.profiles:profiles",
        "List the profiles that read screens, or check a file.",
        """\
  interlock profiles                  yours, then those that come with Interlock
  interlock profiles my-claude.toml   is it a good profile?""",
    ),
    Command("machines", "interlock.cli.machines:machines", "List the state machines, or print one: laws and table."),
    Command("demo", "interlock.cli.demo:demo", "Show what works today, on this machine, without an agent."),
    Command("completion", "interlock.cli.completion:completion", "Print or install a completion script for a shell."),
    Command("version", "interlock.cli.version:version", "Print the version."),
)

_EXAMPLES: Final = """\
Examples:
  interlock log ls                 the sessions of this home
  interlock why SESSION            how its last turn stands, and on what evidence
  interlock diagnose SESSION       what is wrong with it, and what to do next
  interlock machines run           one machine: its laws, its diagram, its table
  interlock COMMAND --help         what one command takes

SESSION is an id, or the beginning of one. The log is in --home PATH, else in
INTERLOCK_HOME, else in the XDG state folder.

Exit codes: 0 completed, 1 failed, 2 usage, 3 partial, 4 interrupted,
5 timed out, 6 blocked, 7 unknown, 8 unreachable, 9 damaged log."""


def root_help() -> str:
    """The page that `interlock`, `interlock --help` and `interlock -h` print."""
    flags = (("--help, -h", "Print this page."), ("--version", "Print the version."))
    rows = (*((command.name, command.help) for command in COMMANDS), *flags)
    listed = "\n".join(f"  {name:<12} {text}" for name, text in rows)
    return f"Usage: interlock COMMAND\n\n{SUMMARY}\n\nCommands:\n{listed}\n\n{_EXAMPLES}"
