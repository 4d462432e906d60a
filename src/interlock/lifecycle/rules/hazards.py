"""What no rule may allow, or only word by word: programs that run others, flags that write, places that hold secrets.

Laws:
1. A program that runs what it is given is allowed only with a word of its own after it: `make test`, never `make ...`.
2. What stands in `NEVER_ALLOWED`, removes by force, rewrites history or names a protected place is asked, whatever the
   rules say; a `deny` still holds for it.
3. A flag is known by its beginning, too: programs take abbreviations, and letters joined to one flag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from interlock.lifecycle.rules.shell_grammar import SimpleCommand

CARRIERS: Final = frozenset(
    {"bash", "sh", "zsh", "fish", "dash", "ksh", "python", "python3", "node", "deno", "bun", "perl", "ruby", "php"}
    | {"awk", "gawk", "mawk", "sed", "eval", "exec", "source", ".", "command", "builtin", "sudo", "doas", "ssh", "scp"}
    | {"docker", "podman", "kubectl", "xargs", "parallel", "find", "watch", "npx", "uvx", "npm", "pnpm", "yarn", "uv"}
    | {"make", "git", "rm", "env", "tar", "vi", "vim", "less", "more", "man", "tmux", "screen", "cargo", "go", "pip"}
    | {"nohup", "nice", "timeout", "stdbuf", "setsid", "time", "flock", "script", "strace", "gdb", "interlock", "gh"}
    | {"cd", "pushd", "popd", "export", "declare", "typeset", "local", "readonly", "alias", "unalias", "set", "shopt"}
    | {
        "trap",
        "hash",
        "enable",
        "unset",
        "let",
        "test",
        "read",
        "mapfile",
        "readarray",
        "getopts",
        "wait",
        "dd",
        "rsync",
    }
)
NEVER_ALLOWED: Final = frozenset(
    {"sudo", "doas", "su", "dd", "shutdown", "reboot", "halt", "poweroff", "killall", "pkill", "shred", "wipefs"}
    | {"fdisk", "parted", "chroot", "mount", "umount", "eval", "exec", "source", ".", "trap", "hash", "interlock"}
)
_PROTECTED: Final = frozenset(
    {".git", ".hg", ".ssh", ".gnupg", ".aws", ".kube", ".netrc", ".interlock", ".claude", ".claude.json", ".codex"}
    | {".gemini", ".qwen", ".opencode", ".mcp.json", ".cursor", ".vscode", ".husky", ".envrc", ".npmrc", ".pypirc"}
    | {".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".gitconfig"}
    | {".gitattributes", ".gitmodules", ".ssh-agent", "id_rsa", "id_ed25519", "authorized_keys", "rules.toml"}
)
_SHARP: Final[Mapping[str, tuple[str, ...]]] = {
    "git": ("--output*", "--ext-diff", "--textconv", "-O*", "--open-files-in-pager*", "--exec*", "--upload-pack*"),
    "find": ("-exec*", "-ok*", "-delete", "-fprint*", "-fls"),
    "rg": ("--pre*", "--hostname-bin*", "-z", "--search-zip"),
    "sort": ("-o*", "--output*", "--compress-program*", "-T*", "--temporary-directory*"),
    "printf": ("-v*",),
    "tree": ("-o*",),
    "jq": ("--from-file*", "-f*"),
}
_FORBIDDEN_VARIABLES: Final = frozenset(
    {"PATH", "NODE_OPTIONS", "BASH_ENV", "ENV", "RUBYOPT", "JAVA_TOOL_OPTIONS", "PAGER", "EDITOR", "VISUAL", "IFS"}
    | {"HOME", "SHELL", "CDPATH", "BROWSER", "TMPDIR", "MAKEFLAGS", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND"}
    | {"LESSOPEN", "LESSCLOSE", "RIPGREP_CONFIG_PATH"}
)
_FORBIDDEN_PREFIXES: Final = ("LD_", "DYLD_", "PYTHON", "GIT_", "PERL5", "SSH_", "BASH_", "npm_config_", "NPM_CONFIG_")
_HISTORY: Final = frozenset(
    {"rebase", "filter-branch", "filter-repo", "update-ref", "reflog", "replace", "config", "gc"}
)
_REMOVES_BY_FORCE: Final = ("-r*", "-R*", "-f*", "--recursive", "--force", "--no-preserve-root")
_FORCED_PUSH: Final = ("-f*", "--force*", "--mirror", "-d*", "--delete", "--prune")
_BY_SUBCOMMAND: Final[Mapping[str, tuple[str, ...]]] = {
    "push": _FORCED_PUSH,
    "reset": ("--hard", "--merge", "--keep"),
    "commit": ("--amend", "--no-verify", "-n*"),
    "clean": ("-f*", "--force", "-x*", "-d*"),
    "branch": ("-D*", "-d*", "--delete", "-f*", "--force", "-M*"),
    "checkout": ("-f*", "--force"),
    "stash": ("--all",),
}


def program_of(word: str) -> str:
    """The name of a program, without its folder."""
    return word.rpartition("/")[2]


def is_forbidden_variable(name: str) -> bool:
    """Whether a variable changes which program runs, or what it loads."""
    return name in _FORBIDDEN_VARIABLES or name.startswith(_FORBIDDEN_PREFIXES)


def is_protected(path: str) -> bool:
    """Whether a path names settings, hooks, keys or secrets."""
    parts = path
    for mark in "=:,\\":
        parts = parts.replace(mark, "/")
    return any(_is_protected_name(part.casefold()) for part in parts.split("/"))


def _is_protected_name(name: str) -> bool:
    return name in _PROTECTED or name.startswith(".env") or name.endswith((".plan.toml", ".pem"))


def has_flag(words: Iterable[str], flags: Iterable[str]) -> str:
    """The first word that may be one of these flags; blank: none may. Law 3."""
    known = tuple(flags)
    return next((word for word in words if any(_may_be(word, flag) for flag in known)), "")


def _may_be(word: str, flag: str) -> bool:
    literal, is_open = flag.removesuffix("*"), flag.endswith("*")
    name = word.partition("=")[0]
    if literal.startswith("--"):
        is_short_form = len(name) > 3 and name.startswith("--") and literal.startswith(name)
        return is_short_form or name == literal or (is_open and word.startswith(literal))
    if len(literal) == 2 and literal.startswith("-"):
        return word.startswith("-") and not word.startswith("--") and literal[1] in word[1:]
    return name == literal or (is_open and word.startswith(literal))


def sharp_flag(command: SimpleCommand) -> str:
    """A flag of a known program that runs or writes something, and that `...` never reaches; blank: none."""
    return has_flag(command.words[1:], _SHARP.get(program_of(command.words[0]), ()))


def never_allowed(command: SimpleCommand) -> str:
    """Why no rule may allow this command; blank: one may. Law 2."""
    program, rest = program_of(command.words[0]), command.words[1:]
    named = next((word for word in command.words if is_protected(word)), "")
    if named:
        return f"{named!r} is a protected place"
    if program in NEVER_ALLOWED or program.startswith("mkfs"):
        return f"{program} is never allowed by a rule"
    if program == "rm" and (flag := has_flag(rest, _REMOVES_BY_FORCE)):
        return f"rm with {flag} is never allowed by a rule"
    return _never_git(rest) if program == "git" else ""


def _never_git(rest: tuple[str, ...]) -> str:
    if not rest:
        return ""
    if rest[0].startswith("-"):
        return f"git with {rest[0]} before its command is never allowed by a rule"
    if rest[0] in _HISTORY:
        return f"git {rest[0]} is never allowed by a rule"
    flag = has_flag(rest[1:], _BY_SUBCOMMAND.get(rest[0], ()))
    if not flag and rest[0] == "push":
        flag = next((word for word in rest[1:] if word.startswith(("+", ":"))), "")
    return f"git {rest[0]} with {flag} is never allowed by a rule" if flag else ""
