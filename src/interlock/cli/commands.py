"""What `interlock` can do, in one table. Imports nothing heavy: the first help page is made from it alone."""

from __future__ import annotations

import textwrap
from typing import Final, NamedTuple

SUMMARY: Final = "Runs and watches AI coding agents, and never claims more than it can prove."


class Command(NamedTuple):
    """A command's name (two words for one of a family), where its function lives, its line of help, examples, and the
    name that it had in the last release, which still works and is shown nowhere."""

    name: str
    target: str
    help: str
    examples: str = ""
    alias: str = ""


FAMILIES: Final = {
    "queue": "Show and change the queued prompts of a session.",
    "session": "Archive, copy, shorten and delete sessions.",
    "config": "Show the configuration, and check it.",
    "rules": "Rules that answer safe questions.",
    "plan": "Plans: steps over several agents, commands and your decisions.",
    "worktree": "Git worktrees of sessions: look at them, remove them.",
    "review": "Accept, send back or discard what a turn did to a file.",
    "notify": "Notifications: when an agent needs you.",
    "logins": "Browsers that are logged in to the dashboard.",
    "log": "Read, check, export and repair the log.",
    "debug": "Look behind a verdict; record and check terminals.",
}

COMMANDS: Final = (
    Command(
        "up",
        "interlock.cli.server.up:up",
        "Start the server in the background.",
        """\
  interlock up                        wait until it is ready, print its address
  interlock up --foreground           run it here, until Ctrl-C
  interlock up --port 4000            at a port of your choice""",
    ),
    Command(
        "down",
        "interlock.cli.server.down:down",
        "Stop the server; agents in tmux keep running.",
        """\
  interlock down                      and list the agents that keep running
  interlock down --stop-agents        these too
  interlock down --now                without letting it finish what it does""",
    ),
    Command(
        "status",
        "interlock.cli.server.status:status",
        "Show server status and which sessions wait for you.",
        """\
  interlock status                    exit code 0: it answers, 8: it does not
  interlock status --json             the same, for a script""",
    ),
    Command(
        "ps",
        "interlock.cli.look.ps:ps",
        "List sessions, those waiting for you first.",
        """\
  interlock ps                        what runs, and who is waiting
  interlock ps --all                  with ended sessions
  interlock ps --tree                 children below their parents
  interlock ps --watch                as it changes, until Ctrl-C
  interlock ps --json                 the summaries, for a script""",
    ),
    Command(
        "statusline",
        "interlock.cli.server.statusline:statusline",
        "One short line for tmux, starship or a shell prompt.",
        """\
  interlock statusline                2 need you · 3 working · 1 done
  interlock statusline --format tmux  the same with tmux colours
  interlock statusline --json         the numbers, for a script

Exit code 8: no server runs, or it stands still.""",
    ),
    Command(
        "top",
        "interlock.cli.top.command:top",
        "Live dashboard; answer agents with single keys.",
        """\
  interlock top                       waiting sessions first; ? lists the keys
  interlock top --theme light         for a terminal with a light background

Exit code 2: standard output is not a terminal; `interlock ps` needs none.""",
    ),
    Command(
        "open",
        "interlock.cli.browser.links:open_",
        "Open the dashboard in a browser.",
        """\
  interlock open                      logged in by a one-time link
  interlock open --no-browser         print the link only""",
    ),
    Command(
        "pair",
        "interlock.cli.browser.links:pair",
        "Log in a phone by a QR code.",
        """\
  interlock pair --url https://box.example            it may look
  interlock pair --url https://box.example --role act it may answer, too""",
    ),
    Command(
        "logins ls",
        "interlock.cli.browser.logins:ls",
        "List the browsers that are logged in.",
        """\
  interlock logins ls                 their ids, names and last use""",
    ),
    Command(
        "logins revoke",
        "interlock.cli.browser.logins:revoke",
        "Log a browser out, at once.",
        """\
  interlock logins revoke phone       by the name of its device
  interlock logins revoke log_01      by the beginning of its id""",
    ),
    Command(
        "show",
        "interlock.cli.look.show:show",
        "Show one session: status, open questions, last answer.",
        """\
  interlock show ses_01               by the beginning of its id
  interlock show parser               or of a word of its title
  interlock show ses_01 --state       its state document, with its version
  interlock show ses_01 --json""",
    ),
    Command(
        "logs",
        "interlock.cli.look.logs:logs",
        "Print a session's transcript, and follow it.",
        """\
  interlock logs ses_01               all of it
  interlock logs ses_01 -f            and live text, until Ctrl-C
  interlock logs ses_01 --last 5      the five messages that came last
  interlock logs ses_01 --turns       with where turns begin, and how they stand
  interlock logs ses_01 -f --json     the frames as the server sends them""",
    ),
    Command(
        "diff",
        "interlock.cli.workspace.diff:diff",
        "Show what each turn of a session did to the files.",
        """\
  interlock diff ses_01               turn by turn, with the lines
  interlock diff ses_01 --turn 3      what the third turn did, and nothing else
  interlock diff ses_01 --stat        files and counts
  interlock diff ses_01 --verify      and check that the log's trees are kept

Exit codes: 0 known, 3 known in part or in doubt, 7 unknown, 1 a tree is
damaged or lost, 9 damaged log.""",
    ),
    Command(
        "review accept",
        "interlock.cli.workspace.review:accept",
        "Mark files as reviewed, as a turn left them.",
        """\
  interlock review accept ses_01 src/a.py src/b.py
  interlock review accept ses_01 src/a.py --turn 3""",
    ),
    Command(
        "review send-back",
        "interlock.cli.workspace.review:send_back",
        "Send a file back to its agent, with a comment.",
        """\
  interlock review send-back ses_01 src/a.py 'name it parse_all'
  interlock review send-back ses_01 src/a.py - < comment.txt""",
    ),
    Command(
        "review discard",
        "interlock.cli.workspace.review:discard",
        "Put a file back to what it was before a turn.",
        """\
  interlock review discard ses_01 src/a.py
  interlock review discard ses_01 src/a.py --turn 3

Exit code 2: the file changed since, or a turn is open in its work tree;
then it is left as it is.""",
    ),
    Command(
        "blame",
        "interlock.cli.workspace.blame:blame",
        "Show which turn of which session last changed a file.",
        """\
  interlock blame src/parser.py       by the trees at the edges of turns
  interlock blame src/parser.py --json

Exit code 7: no known turn changed it.""",
    ),
    Command(
        "merge",
        "interlock.cli.workspace.merge:merge",
        "Take the work of a session's worktree into a branch.",
        """\
  interlock merge parser              moves the branch that it began from
  interlock merge parser --squash -m "Faster parser"  as one commit
  interlock merge parser --branch feature/parser      for a pull request

Exit code 3: conflicts; it lists their paths and changes nothing.""",
    ),
    Command(
        "worktree ls",
        "interlock.cli.workspace.worktree:ls",
        "List the git worktrees of sessions.",
        """\
  interlock worktree ls               those that are there
  interlock worktree ls --all --json""",
    ),
    Command(
        "worktree show",
        "interlock.cli.workspace.worktree:show",
        "Show the worktree of a session and what is in it.",
        """\
  interlock worktree show parser      branch, base, changes, commits""",
    ),
    Command(
        "worktree rm",
        "interlock.cli.workspace.worktree:rm",
        "Remove the worktree of a session, if nothing is lost.",
        """\
  interlock worktree rm parser --dry-run      what would be lost?
  interlock worktree rm parser --keep-branch  its commits stay on its branch
  interlock worktree rm parser --force        what would be lost is kept aside""",
    ),
    Command(
        "worktree pr",
        "interlock.cli.workspace.pr:pr",
        "Push a worktree's branch and open a pull request.",
        """\
  interlock worktree pr parser        asks first, then pushes to origin
  interlock worktree pr parser --commit -m "Faster parser" --into main --yes""",
    ),
    Command(
        "worktree prune",
        "interlock.cli.workspace.prune:prune",
        "List worktrees and kept trees that can go, or remove them.",
        """\
  interlock worktree prune            which, and why others stay
  interlock worktree prune --apply    remove those""",
    ),
    Command(
        "search",
        "interlock.cli.log.search:search",
        "Search the transcripts of all sessions by their words.",
        """\
  interlock search parser timeout         messages with both words, newest first
  interlock search '"exit code 9"'        these words in this order
  interlock search 'migrat*' -- -draft    words that begin so, without another
  interlock search flaky --session ses_01 --role answer --since 2026-01-31
  interlock search flaky --json

Exit code 3: the index is still being made, and there may be more.""",
    ),
    Command(
        "session history",
        "interlock.cli.look.spawns:spawns",
        "List process starts and exits of a session.",
        """\
  interlock session history                of all sessions
  interlock session history ses_01 --json  of one, for a script""",
        alias="spawns",
    ),
    Command(
        "usage",
        "interlock.cli.look.usage:usage",
        "Print tokens and cost, by session or by turn.",
        """\
  interlock usage                     a line for each session, and the sum
  interlock usage ses_01              a line for each turn""",
    ),
    Command(
        "run",
        "interlock.cli.work.run:run",
        "Start an agent, optionally with a prompt.",
        """\
  interlock run claude                          in a terminal; prints its id
  interlock run codex --stream "Fix the tests"  with a prompt
  interlock run claude --stream --wait "Sum up README.md"
  interlock run gemini --acp --title docs --cwd ~/site - < prompt.txt
  interlock run model --model openai:gpt-5 "Say hello"     a model API
  interlock run codex --stream --parent ses_01 "Check it"  as a child

With --wait, standard output gets the answer, and the id goes to standard
error; the exit codes are those of `interlock send --wait`.""",
    ),
    Command(
        "adopt",
        "interlock.cli.terminals.adopt:adopt",
        "Watch an agent that you started in your own tmux.",
        """\
  interlock adopt                     the only pane of your tmux: watched only
  interlock adopt work:1.0 --control  and let send, approve, interrupt reach it
  interlock adopt --all --dry-run     which agents there are, in every server
  interlock adopt --all               watch all of them

Adopted agents are stopped only by `interlock stop`, one by one.
Exit code 2: no such pane, no known CLI in it, or it is ours already;
8: no server, or the pane belongs to another home.""",
    ),
    Command(
        "resume",
        "interlock.cli.terminals.resume:resume",
        "Start agents again with their own conversations.",
        """\
  interlock resume ses_01             after a reboot, or when it has ended
  interlock resume --all              every session of ours that lost its agent
  interlock resume --all --json       for a script

Each line says whether the conversation went on: `resumed` is proven by the
CLI's own session id, `started anew` is another one, `unknown` is not proven.
Exit code 0: all went on; 3: some did; 1: none; 7: not proven.""",
    ),
    Command(
        "send",
        "interlock.cli.work.send:send",
        "Send a prompt to a session; with --wait, print the answer.",
        """\
  interlock send ses_01 "Now run the tests"     queued, durably; prints its id
  interlock send ses_01 --wait "Which failed?"  the answer, and nothing else
  interlock send ses_01 - --wait --timeout 600 < prompt.txt
  interlock send ses_01 --wait --reply-json shape.json "List the bugs"
  interlock send ses_01 --wait --reply-sentinel "Write the release note"
  interlock send ses_01 --prompt-id prm_01 --wait    one sent before

A timeout stops the waiting and never the turn, unless --cancel-on-timeout.
Exit codes with --wait: 0 completed; 1 failed, or no reply as asked for;
3 partial: what was kept is printed; 4 interrupted or taken back; 5 timed out;
6 blocked by a question; 7 no process; 8 server unreachable.""",
    ),
    Command(
        "wait",
        "interlock.cli.work.wait:wait",
        "Wait until sessions are ready, done, blocked, idle or gone.",
        """\
  interlock wait ses_01                         done; the code is how it ended
  interlock wait ses_01 --until ready --timeout 30
  interlock wait ses_01 ses_02 --any --until blocked
  interlock wait ses_01 --until status:stalled

Exit codes: 0 it is so; with --until done, how the last turn ended. Otherwise
5 timeout; 6 waiting for a human; 7 no process; 1 archived;
8 server unreachable. Of several, the first that is not 0.""",
    ),
    Command(
        "approvals",
        "interlock.cli.work.decide:approvals",
        "List open questions, with the commands that answer them.",
        """\
  interlock approvals                 every open question, the oldest first
  interlock approvals --json          for a script""",
    ),
    Command(
        "approve",
        "interlock.cli.work.decide:approve",
        "Allow what an agent asks for, this once.",
        """\
  interlock approve ses_01                      its only question
  interlock approve ses_01 2 --reason "on a branch only\"""",
    ),
    Command(
        "deny",
        "interlock.cli.work.decide:deny",
        "Refuse what an agent asks for.",
        """\
  interlock deny ses_01 --reason "not on the main branch\"""",
    ),
    Command(
        "answer",
        "interlock.cli.work.decide:answer",
        "Answer a question: by one of its options, or in words.",
        """\
  interlock answer ses_01 --option green        a label, or how it begins
  interlock answer ses_01 --option 2            or its number
  interlock answer ses_01 "the staging one"     in words
  interlock answer ses_01 apr_02 "port 8080"    where several are asked""",
    ),
    Command(
        "interrupt",
        "interlock.cli.work.control:interrupt",
        "Interrupt an agent's turn; the agent stays.",
        """\
  interlock interrupt ses_01                    was it delivered?
  interlock interrupt ses_01 --wait             and how the turn ended
  interlock interrupt ses_01 --force            kill it if its turn goes on

Exit codes: 0 delivered, and with --wait: the turn is over; 1 no effect, the
turn keeps running; 2 there is nothing to interrupt; 5 the turn goes on after
--timeout.""",
    ),
    Command(
        "seen",
        "interlock.cli.work.seen:seen",
        "Mark a session as seen; it leaves DONE on every board.",
        """\
  interlock seen ses_01               `show` and `attach` mark it by themselves""",
    ),
    Command(
        "stop",
        "interlock.cli.work.control:stop",
        "Stop a session's agent and every process it started.",
        """\
  interlock stop ses_01               the session stays; `start` continues it""",
    ),
    Command(
        "start",
        "interlock.cli.work.control:start",
        "Start or restart a session's agent.",
        """\
  interlock start ses_01              also one whose server is gone""",
    ),
    Command(
        "session archive",
        "interlock.cli.work.control:delete",
        "Archive a session; its log is kept.",
        """\
  interlock session archive ses_01                                asks first
  interlock session archive ses_01jk5v3z9c0000000000000000 --yes  a whole id""",
        alias="delete",
    ),
    Command(
        "attach",
        "interlock.cli.work.attach:attach",
        "Attach to an agent's terminal; Ctrl-b d detaches.",
        """\
  interlock attach ses_01             see it, and type there
  interlock attach ses_01 --print     only the command""",
    ),
    Command(
        "debug screen",
        "interlock.cli.look.screen:screen",
        "Print what an agent's terminal shows, without attaching.",
        """\
  interlock debug screen ses_01         once
  interlock debug screen ses_01 -f      as it changes, until Ctrl-C
  interlock debug screen ses_01 --json  rows, cursor, and how old they are""",
        alias="screen",
    ),
    Command(
        "queue ls",
        "interlock.cli.work.queue:ls",
        "List queued prompts.",
        """\
  interlock queue ls ses_01           in the order in which they will be sent""",
    ),
    Command(
        "queue edit",
        "interlock.cli.work.queue:edit",
        "Edit a queued prompt.",
        """\
  interlock queue edit ses_01 1 "Run the tests twice"
  interlock queue edit ses_01 prm_01 - < prompt.txt""",
    ),
    Command(
        "queue rm",
        "interlock.cli.work.queue:rm",
        "Remove a queued prompt.",
        """\
  interlock queue rm ses_01 2         the second one""",
    ),
    Command(
        "queue pause",
        "interlock.cli.work.queue:hold",
        "Pause the queue.",
        """\
  interlock queue pause ses_01 --reason "the build is red\"""",
        alias="queue hold",
    ),
    Command(
        "queue resume",
        "interlock.cli.work.queue:go",
        "Resume the queue.",
        """\
  interlock queue resume ses_01       as before""",
        alias="queue go",
    ),
    Command(
        "debug turns",
        "interlock.cli.log.turns:turns",
        "List the turns of a session: state and evidence.",
        """\
  interlock debug turns ses_01           every turn, in order
  interlock debug turns ses_01 --last 3  the three that began last
  interlock debug turns ses_01 --json    the records, for a script""",
        alias="turns",
    ),
    Command(
        "why",
        "interlock.cli.explain.why:why",
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
        "debug diagnose",
        "interlock.cli.explain.diagnose:diagnose",
        "Check a session: what is wrong, where, and what to do next.",
        """\
  interlock debug diagnose ses_01         what is wrong, and what was checked
  interlock debug diagnose ses_01 --json  the whole report, for a script

Exit codes: 0 ready, with or without warnings; 1 blocked; 9 damaged log.""",
        alias="diagnose",
    ),
    Command(
        "debug replay",
        "interlock.cli.explain.replay:replay",
        "Show the context that a model would receive.",
        """\
  interlock debug replay ses_01            the items, one line each
  interlock debug replay ses_01 --json     the items whole, one JSON a line
  interlock debug replay ses_01 --explain  for every event why it is in or out
  interlock debug replay ses_01 --digest   its digest""",
        alias="replay",
    ),
    Command(
        "session rename",
        "interlock.cli.work.seen:rename",
        "Give a session another title.",
        """\
  interlock session rename ses_01 "flaky test"   `r` on the board does the same""",
    ),
    Command(
        "session fork",
        "interlock.cli.log.session_changes:fork",
        "Copy a session, up to the end of a turn, into a new one.",
        """\
  interlock session fork ses_01 --dry-run   what would be copied
  interlock session fork ses_01             at the last possible place
  interlock session fork ses_01 --at trn_7  at the end of a turn
  interlock session fork ses_01 --at trn_7 --summarize  with a summary""",
        alias="fork",
    ),
    Command(
        "session compact",
        "interlock.cli.log.session_changes:compact",
        "Summarise older turns in the model's context.",
        """\
  interlock session compact ses_01 --dry-run  the summary that would be written
  interlock session compact ses_01 --keep-turns 2  keep the last two

The log itself keeps every event.""",
        alias="compact",
    ),
    Command(
        "session purge",
        "interlock.cli.log.session_changes:rm",
        "Permanently delete a session; a tombstone is kept.",
        """\
  interlock session purge ses_01      asks first
  interlock session purge ses_01jk5v3z9c0000000000000000 --yes  a whole id""",
        alias="rm",
    ),
    Command(
        "debug inspect",
        "interlock.cli.terminals.inspecting:inspect_pane",
        "Identify the agent in a tmux pane and show its status.",
        """\
  interlock debug inspect %3          a look, and the rule behind it
  interlock debug inspect work:1.0 --follow  each change, until Ctrl-C
  interlock debug inspect %3 --socket work --json

Exit code 6: it waits for a person; 7: its screen does not say.""",
    ),
    Command(
        "debug record",
        "interlock.cli.terminals.record:record",
        "Record what a pane of tmux shows, with styles and title.",
        """\
  interlock debug record %3 -o session.ndjson.gz
  interlock debug record %3 -o session.ndjson.gz --seconds 60""",
        alias="record",
    ),
    Command(
        "debug track",
        "interlock.cli.terminals.track:track",
        "Replay a recording of a terminal: one verdict a frame.",
        """\
  interlock debug track session.ndjson.gz  what changed, and by which rule
  interlock debug track session.ndjson.gz --json  one JSON object a frame
  tail -f session.ndjson | interlock debug track -  while it is being recorded""",
        alias="track",
    ),
    Command(
        "debug score",
        "interlock.cli.terminals.score:score",
        "Compare the verdicts on recordings with their truth.",
        """\
  interlock debug score recordings/         a row for each CLI
  interlock debug score recordings/ --show  the frame and rule of each miss
  interlock debug score recordings/ --hz 1 --drop 0.3 --jitter 0.5

Exit code 1: a reading was unsafe (blocked or working read as idle, or a
completion while the turn went on).""",
        alias="score",
    ),
    Command(
        "debug lab",
        "interlock.cli.terminals.lab:lab",
        "Check a version of an agent CLI against a scripted model.",
        """\
  interlock debug lab claude          the pinned version, every scenario
  interlock debug lab codex@0.160.1 --scenario deny --scenario interrupt-tool
  interlock debug lab claude --executable ~/bin/claude  the one that you have
  interlock debug lab all --keep recordings/  every pinned CLI, with recordings
  interlock debug lab --list          CLIs and scenarios

Exit code 1: a prompt was lost or doubled, an interrupt did not interrupt, an
end was wrong or made up, or a reading was unsafe.""",
        alias="lab",
    ),
    Command(
        "log ls",
        "interlock.cli.log.reading:ls",
        "List the sessions of a home.",
        """\
  interlock log ls                      the first hundred, by id
  interlock log ls --prefix ses_01      those whose id starts so
  interlock log ls --after ses_01jk5    the next page
  interlock log ls --json""",
    ),
    Command(
        "log show",
        "interlock.cli.log.reading:show",
        "Print the events of a session, oldest first.",
        """\
  interlock log show ses_01                           one line an event
  interlock log show ses_01 --after 100 --limit 50    a part
  interlock log show ses_01 --type turn_failed --type run_state
  interlock log show ses_01 --turn trn_7 --json       the events whole, as JSON""",
    ),
    Command(
        "log tail",
        "interlock.cli.log.reading:tail",
        "Print the last events of a session or of all, and follow new ones.",
        """\
  interlock log tail ses_01             the last ten events
  interlock log tail ses_01 -f          and each new one, until Ctrl-C
  interlock log tail --all -f --json    every session, one JSON object a line""",
    ),
    Command(
        "log export",
        "interlock.cli.log.files:export",
        "Write sessions as NDJSON, exactly as they are stored.",
        """\
  interlock log export ses_01 --output ses_01.ndjson
  interlock log export --all | gzip > log.ndjson.gz""",
    ),
    Command(
        "log import",
        "interlock.cli.log.files:import_",
        "Append the events of an NDJSON file; can be run again.",
        """\
  interlock log import ses_01.ndjson --dry-run    check every line
  interlock log import ses_01.ndjson
  zcat log.ndjson.gz | interlock log import -     from a pipe""",
    ),
    Command(
        "log verify",
        "interlock.cli.log.repair:verify",
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
        "interlock.cli.log.repair:repair",
        "Repair a damaged log: print the plan, or apply it.",
        """\
  interlock log repair                  what is damaged, and what would be done
  interlock log repair ses_01 --apply   do it for one session
  interlock log repair --salvage        when SQLite itself cannot read the file""",
    ),
    Command(
        "log purge",
        "interlock.cli.log.purge:purge",
        "Permanently delete old sessions; tombstones are kept.",
        """\
  interlock log purge --before 2026-01-31 --dry-run    which ones
  interlock log purge --before 2026-01-31              asks first
  interlock log purge --before 2026-01-31 --yes        for a script""",
    ),
    Command(
        "log archive",
        "interlock.cli.log.archive:archive",
        "Move old sessions into compressed files; they stay readable.",
        """\
  interlock log archive --before 90d --dry-run    which ones
  interlock log archive --before 2026-01-31       those that ended before
  interlock log archive --session ses_01 --json   one, for a script""",
    ),
    Command(
        "log restore",
        "interlock.cli.log.archive:restore",
        "Move an archived session back into the database.",
        """\
  interlock log restore ses_01""",
    ),
    Command(
        "log vacuum",
        "interlock.cli.log.archive:vacuum",
        "Return the log's unused space to the disk.",
        """\
  interlock log vacuum           also while a server runs""",
    ),
    Command(
        "debug shim",
        "interlock.cli.terminals.shim:shim",
        "Run an agent in a wrapper that captures its status reports.",
        """\
  interlock debug shim -- claude      as if it ran without the shim
  interlock debug shim --status-file s.ndjson -- codex  keep its reports
  interlock debug shim --status-socket PATH -- claude  or sent to a Unix socket

The exit code, or the signal, is the command's own; 127 not found, 126 not
executable.""",
        alias="shim",
    ),
    Command(
        "hooks",
        "interlock.cli.setup.hooks:hooks",
        "Install status hooks for Claude Code or Codex.",
        """\
  interlock hooks install claude      once; run it again after an update
  interlock hooks status codex        are they there, and is more needed?
  interlock hooks uninstall claude    as it was before""",
    ),
    Command(
        "debug profiles",
        "interlock.cli.setup.profiles:profiles",
        "List the profiles that read screens, or check a file.",
        """\
  interlock debug profiles  yours, then those that come with Interlock
  interlock debug profiles my-claude.toml  is it a good profile?""",
        alias="profiles",
    ),
    Command(
        "doctor",
        "interlock.cli.setup.doctor:doctor",
        "Check this machine: what is broken and how to fix it.",
        """\
  interlock doctor                    every check, with a remedy where one helps
  interlock doctor --json             the same, for a script

Exit code 1: a check failed; 11: no agent is installed. Nothing is changed.""",
    ),
    Command(
        "service",
        "interlock.cli.install.service:service",
        "Start the server with the machine (systemd, launchd).",
        """\
  interlock service install           a user unit, started now
  interlock service status            is it there, enabled, active?
  interlock service remove            the server ends, agents in tmux go on""",
    ),
    Command(
        "uninstall",
        "interlock.cli.install.uninstall:uninstall",
        "List what Interlock put on this machine, or remove it.",
        """\
  interlock uninstall                 what would be removed; changes nothing
  interlock uninstall --yes           remove what is listed""",
    ),
    Command(
        "config show",
        "interlock.cli.setup.config:show",
        "Print every value of the configuration, and its origin.",
        """\
  interlock config show               all of it
  interlock config show run           one section, or one key
  interlock config show --changed     what is not a default
  INTERLOCK_RUN_STALL_AFTER_SECONDS=60 interlock config show run""",
    ),
    Command(
        "config path",
        "interlock.cli.setup.config:path",
        "Print where the configuration file is, or would be.",
        """\
  "${EDITOR:-vi}" "$(interlock config path)\"""",
    ),
    Command(
        "config check",
        "interlock.cli.setup.config:check",
        "Check the configuration, and list every mistake.",
        """\
  interlock config check              one line a mistake: file, line and key""",
    ),
    Command(
        "rules ls",
        "interlock.cli.rules.files:ls",
        "List the rules that apply in a folder.",
        """\
  interlock rules ls                  yours, and those of this project
  interlock rules ls --cwd ~/site --json""",
    ),
    Command(
        "rules check",
        "interlock.cli.rules.files:check",
        "Check rule files, and list every problem.",
        """\
  interlock rules check               those that apply here
  interlock rules check draft.toml    a file of your choice""",
    ),
    Command(
        "rules test",
        "interlock.cli.rules.trying:try_out",
        "Show what the rules decide about a command.",
        """\
  interlock rules test 'git log; rm x'      part by part; nothing runs
  interlock rules test --session parser     what it asked, by the rules of today

Exit codes: 0 allowed; 6 a person is asked; 1 denied; 2 a file cannot be used.""",
    ),
    Command(
        "rules suggest",
        "interlock.cli.rules.trying:suggest",
        "Propose rules for what you allowed three times.",
        """\
  interlock rules suggest             prints them; nothing is written""",
    ),
    Command(
        "rules trust",
        "interlock.cli.rules.standing:trust",
        "Trust the rules of a project, as they stand now.",
        """\
  interlock rules trust               the project in this folder
  interlock rules trust --forget      stop trusting it""",
    ),
    Command(
        "rules pause",
        "interlock.cli.rules.standing:pause",
        "Pause automatic approval by rules.",
        """\
  interlock rules pause               in every session, until resumed
  interlock rules pause ses_01 --for 30""",
    ),
    Command(
        "rules resume",
        "interlock.cli.rules.standing:resume",
        "Resume automatic approval by rules.",
        """\
  interlock rules resume              every pause ends
  interlock rules resume ses_01       that of one session""",
    ),
    Command(
        "rules import",
        "interlock.cli.rules.importing:import_rules",
        "Print the lists of Claude Code or Codex as rules.",
        """\
  interlock rules import claude       of ~/.claude/settings.json
  interlock rules import codex team.rules >> rules.toml

Exit code 3: some have no equivalent here; standard error says which.""",
    ),
    Command(
        "plan check",
        "interlock.cli.plans.checking:check",
        "Check a plan, and show what it would do.",
        """\
  interlock plan check review.plan.toml     every problem, or the steps in order
  interlock plan check review --param focus=security,races
  interlock plan check review --json          the same, for a script

Exit codes: 0 it can run; 2 it has problems.""",
    ),
    Command(
        "plan run",
        "interlock.cli.plans.running:run",
        "Run a plan over agents, commands and your answers.",
        """\
  interlock plan run review.plan.toml              prints the workflow's id
  interlock plan run review --param range=v1..v2 --wait
  interlock plan run review --id wf_monday         starts it only once

Exit codes with --wait: 0 completed; 3 partial; 1 failed; 5 timed out;
6 a step waits for you; 4 stopped.""",
    ),
    Command(
        "plan ls",
        "interlock.cli.plans.running:ls",
        "List workflows (runs of plans), oldest first.",
        """\
  interlock plan ls
  interlock plan ls --json""",
    ),
    Command(
        "plan show",
        "interlock.cli.plans.running:show",
        "Show the steps of a workflow and what waits for you.",
        """\
  interlock plan show wf_monday
  interlock plan show wf_monday --json

Exit codes are those of `interlock plan wait`; 7 while it runs.""",
    ),
    Command(
        "plan wait",
        "interlock.cli.plans.running:wait",
        "Wait until a workflow has ended or needs you.",
        """\
  interlock plan wait wf_monday
  interlock plan wait wf_monday --timeout 600

Exit codes: 0 completed; 3 partial; 1 failed; 5 timed out;
6 a step waits for you; 4 stopped.""",
    ),
    Command(
        "plan stop",
        "interlock.cli.plans.running:stop",
        "Stop a workflow with its children and commands.",
        """\
  interlock plan stop wf_monday --reason 'the branch is gone'""",
    ),
    Command(
        "plan release",
        "interlock.cli.plans.running:release",
        "Run a step again that waits for your decision.",
        """\
  interlock plan release wf_monday build --reason 'the disk has room again'""",
    ),
    Command(
        "plan give-up",
        "interlock.cli.plans.running:give_up",
        "Give up a step that waits for your decision.",
        """\
  interlock plan give-up wf_monday build --reason 'done by hand'""",
    ),
    Command(
        "plan answer",
        "interlock.cli.plans.running:answer",
        "Answer a gate: a step that asks you.",
        """\
  interlock plan answer wf_monday publish go
  interlock plan answer wf_monday publish stop --reason 'not today'""",
    ),
    Command(
        "plan trust",
        "interlock.cli.plans.trusting:trust",
        "Allow a project's plan to run, as the file stands now.",
        """\
  interlock plan trust review                 after you have read it
  interlock plan trust review --forget        stop trusting it""",
    ),
    Command(
        "notify test",
        "interlock.cli.setup.notify:try_out",
        "Send a test notice by every channel that is configured.",
        """\
  interlock notify test               the result of each channel
  interlock notify test --json        the same, for a script
  INTERLOCK_NOTIFY_DESKTOP=1 interlock notify test

Exit codes: 0 delivered; 1 none was; 3 some were; 7 nothing could be tried.""",
    ),
    Command(
        "debug machines",
        "interlock.cli.setup.machines:machines",
        "List the state machines, or print one: laws and table.",
        alias="machines",
    ),
    Command(
        "demo",
        "interlock.cli.demo.command:demo",
        "Watch scripted agents in every state; no agent is needed.",
        """\
  interlock demo                      a board to play with; q ends it
  interlock demo --tell               the story, line by line as it happens
  interlock demo --log                only the log: turns, a crash, verdicts

Nothing is left behind: it has a home, a server and a tmux of its own.""",
    ),
    Command(
        "completion", "interlock.cli.setup.completion:completion", "Print or install a completion script for a shell."
    ),
    Command("version", "interlock.cli.setup.version:version", "Print the version."),
)

# Titles of the first help page, with the commands and families below each. `tests/cli/test_main.py`: each stands once.
GROUPS: Final = (
    ("Work", "run plan send wait interrupt stop start attach adopt resume"),
    ("Answer", "approvals approve deny answer rules"),
    ("Look", "top ps show seen logs diff review blame search why usage statusline"),
    ("Browser", "open pair logins"),
    ("Manage", "up down status worktree merge doctor hooks queue session config notify completion service uninstall"),
    ("Log and debug", "log debug"),
    ("Try", "demo version"),
)

_EXAMPLES: Final = """\
Examples:
  interlock run claude "Fix the failing test"   start an agent on a prompt
  interlock top                                 watch and answer all agents
  interlock approve SESSION                     allow what it asks, this once
  interlock send SESSION "And now the docs"     queue the next prompt
  interlock why SESSION                         how its last turn ended
  interlock COMMAND --help                      its options, with examples

SESSION is an id, the beginning or end of one, or a word of the title. The log
is in --home PATH, else in INTERLOCK_HOME, else in the XDG state folder.

Exit codes: 0 completed, 1 failed, 2 usage, 3 partial, 4 interrupted,
5 timed out, 6 blocked, 7 unknown, 8 unreachable, 9 damaged log, 10 starting,
11 no agent."""


def root_help() -> str:
    """The page that `interlock`, `interlock --help` and `interlock -h` print."""
    helps = {command.name: command.help for command in COMMANDS} | {name: family_help(name) for name in FAMILIES}
    parts = ["\n".join((f"{title}:", *(_line(name, helps[name]) for name in names.split()))) for title, names in GROUPS]
    flags = "  --help, -h   Print this page.\n  --version    Print the version."
    return "\n\n".join((f"Usage: interlock COMMAND\n\n{SUMMARY}", *parts, flags, _EXAMPLES))


def family_help(family: str) -> str:
    """A family's line of help, with the commands in it."""
    members = [command.name.partition(" ")[2] for command in COMMANDS if command.name.startswith(f"{family} ")]
    return f"{FAMILIES[family]}\n{', '.join(members)}"


def _line(name: str, text: str) -> str:
    first, *more = text.splitlines()
    wrapped = [line for one in more for line in textwrap.wrap(one, 79 - 15)]
    return "\n".join((f"  {name:<12} {first}", *(f"{'':15}{line}" for line in wrapped)))
