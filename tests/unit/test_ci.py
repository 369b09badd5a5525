# SPDX-License-Identifier: GPL-2.0-or-later
"""What jobs of GitHub and GitLab run: a tree checked against its base, and one comment."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
CHECK_TREE, COMMENT = CHECKOUT / "ci" / "check-tree", CHECKOUT / "ci" / "comment"

# Instead of the program: a result is what the tree has in it. $FAIL is the command that fails.
PROGRAM = """#!/bin/bash
echo "$*" >>"$CALLS"
if [ "$1" = "${FAIL:-}" ]; then
	# It may have written something before.
	while [ $# -gt 0 ]; do
		[ "$1" != --output ] || echo half >"$2"
		shift
	done
	exit 3
fi
case "$1" in
--version) echo "partywall, version 1" ;;
check) while [ $# -gt 0 ]; do
	case "$1" in --kernel-tree) tree=$2 ;; --output) output=$2 ;; esac
	shift
done
[ ! -e "$tree/left" ] || exit 9
touch "$tree/left"
cp "$tree/Makefile" "$output"
# What refreshes a suite's lists, as they are old.
[ -z "${FRESH:-}" ] || echo "$FRESH" >"$FRESH" ;;
diff) echo "### Walls: $(cat "$2") $(cat "$3")"; cmp -s "$2" "$3" ;;
compare) echo page >"$5" ;;
esac
"""


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=x", "-c", "user.email=x@x.invalid", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *own, "-C", folder, *arguments], capture_output=True, text=True, check=True
    ).stdout


class Job:
    """A tree with a change on a base, and the script run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "a tree"
        self.tree.mkdir()
        git(self.tree, "init", "-q")
        self.calls = folder / "calls"
        program = folder / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.commit("before")
        self.commit("after")

    def commit(self, text: str) -> None:
        (self.tree / "Makefile").write_text(text)
        git(self.tree, "add", "Makefile")
        git(self.tree, "commit", "-qm", text, "--allow-empty")

    def __call__(self, **environment: str) -> subprocess.CompletedProcess[str]:
        self.calls.write_text("")
        usual = {"PARTYWALL": str(self.folder / "program"), "CALLS": str(self.calls)}
        return subprocess.run(
            [CHECK_TREE, self.tree],
            env=os.environ | usual | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def out(self, name: str) -> str:
        return (self.tree / ".partywall" / "out" / name).read_text()

    def checks(self) -> int:
        return self.calls.read_text().count("check ")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_change_is_held_against_its_base(job: Job) -> None:
    done = job()
    assert done.returncode == 0, done.stderr
    assert (job.out("before.json.gz"), job.out("after.json.gz")) == ("before", "after")
    assert job.out("status") == "1\n"
    assert job.out("comment.md").startswith("<!-- partywall -->\n### Walls: before after\n")
    assert job.out("walls.html") == "page\n"
    assert done.stdout == job.out("comment.md")
    assert "--workload signal --workload overlay" in job.calls.read_text()
    # Nothing is built in the checkout.
    assert git(job.tree, "status", "--porcelain").split() == ["??", ".partywall/"]


def test_a_base_is_measured_once(job: Job) -> None:
    job()
    assert job.checks() == 2
    job.commit("after again")
    done = job(WALLS_BASE="HEAD~2")
    assert (done.returncode, job.checks()) == (0, 1)
    assert job.out("before.json.gz") == "before"
    # By another set of workloads it is another result.
    job(WALLS_BASE="HEAD~2", WALLS_WORKLOADS="fork")
    assert job.checks() == 2


def test_a_newer_configuration_of_debians_is_another_base(job: Job, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    apt = tmp_path / "bin" / "apt-cache"
    path = f"{apt.parent}:{os.environ['PATH']}"
    wanted = '[ "$*" = "pkgnames linux-image-" ] &&'
    for number, checks in ((117, 2), (117, 1), (118, 2)):
        apt.write_text(f"#!/bin/sh\n{wanted} echo linux-image-6.12.{number}-cloud-amd64\n")
        apt.chmod(0o755)
        assert job(PATH=path).returncode == 0
        assert job.checks() == checks
    # Of a tree that is newer than this release the lists of a suite say it.
    lists = job.tree / ".partywall/cache/partywall/apt/trixie-backports/lists"
    lists.mkdir(parents=True)
    for text, checks in (("7.3.4", 2), ("7.3.4", 1), ("7.3.5", 2)):
        (lists / "mirror_main_binary-amd64_Packages").write_text(text)
        assert job(PATH=path).returncode == 0
        assert job.checks() == checks


def test_base_and_change_are_measured_by_one_configuration(job: Job) -> None:
    """Also where lists of a suite are refreshed as the change is measured."""
    job()
    lists = job.tree / ".partywall/cache/partywall/apt/trixie-backports/lists"
    lists.mkdir(parents=True)
    fresh = {"FRESH": str(lists / "mirror_main_binary-amd64_Packages")}
    # The change, and the base again: the one that was kept is of other lists.
    assert job(**fresh).returncode == 0
    assert job.checks() == 2
    assert job(**fresh).returncode == 0
    assert job.checks() == 1
    assert job.out("before.json.gz") == "before"


def test_workloads_may_be_of_several_lines(job: Job) -> None:
    job(WALLS_WORKLOADS="signal overlay\nfork\n")
    assert "--workload signal --workload overlay --workload fork" in job.calls.read_text()


def test_what_is_still_chance_may_be_said(job: Job) -> None:
    job(WALLS_DIFF="--least 0.05  --allow-missing")
    (call,) = (one for one in job.calls.read_text().splitlines() if one.startswith("diff "))
    assert call.endswith("after.json.gz --least 0.05 --allow-missing --markdown")
    job()
    assert "after.json.gz --markdown" in job.calls.read_text()


def test_what_changed_nothing_is_no_failure(job: Job) -> None:
    job.commit("after")
    assert job().returncode == 0
    assert job.out("status") == "0\n"


def test_a_base_that_was_not_fetched_is_told_in_two_lines(job: Job) -> None:
    done = job(WALLS_BASE="HEAD~7")
    assert done.returncode == 2
    assert "has no commit HEAD~7\n  fetch more of its history: fetch-depth" in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("command", ["check", "diff", "compare"])
def test_what_could_not_be_compared_ends_as_the_program_does(job: Job, command: str) -> None:
    assert job(FAIL=command).returncode == 3
    assert not (job.tree / ".partywall" / "out" / "status").exists()


def test_a_base_whose_check_failed_is_not_kept(job: Job) -> None:
    assert job(FAIL="check").returncode == 3
    assert job().returncode == 0
    assert job.checks() == 2
    assert job.out("before.json.gz") == "before"


@dataclass
class Server:
    """Comments of a change, as both servers keep them; ``refuses``: with this status."""

    kept: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    refuses: int = 0
    answers: bytes | None = None
    """In place of what it has; half of a list is cut short."""
    address: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length))["body"] if length else ""
            token = self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"]
            state.asked.append((self.command, self.path, token))
            data: Any = {}
            if self.command == "GET":
                page = int(self.path.rpartition("=")[2])
                data = state.kept[(page - 1) * 100 : page * 100]
            elif self.command == "POST":
                state.kept.append({"id": len(state.kept) + 1, "body": body})
            elif (one := state.kept[int(self.path.rpartition("/")[2]) - 1]).get("anothers"):
                data = None
            else:
                one["body"] = body
            said = json.dumps(data).encode() if state.answers is None else state.answers
            self.send_response(state.refuses or (403 if data is None else 200))
            cut = 10 if state.answers == b"[{" else 0
            self.send_header("Content-Length", str(len(said) + cut))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PATCH = do_PUT = answer

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        state.address = f"http://127.0.0.1:{running.server_port}"
        yield state
        running.shutdown()


def comment(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = folder / "comment.md"
    path.write_text(text)
    return subprocess.run(
        [sys.executable, COMMENT, path],
        env={"PATH": os.environ["PATH"]} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def github(server: Server, folder: Path) -> dict[str, str]:
    event = folder / "event.json"
    event.write_text('{"pull_request": {"number": 7}}')
    return {
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_API_URL": server.address,
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_TOKEN": "secret",
    }


def gitlab(server: Server, folder: Path) -> dict[str, str]:
    return {
        "CI_MERGE_REQUEST_IID": "7",
        "CI_API_V4_URL": server.address,
        "CI_MERGE_REQUEST_PROJECT_ID": "3",
        "WALLS_TOKEN": "secret",
    }


@pytest.mark.parametrize(
    ("environment", "where", "token"),
    [
        (github, "/repos/a/b/issues/7/comments", "Bearer secret"),
        (gitlab, "/projects/3/merge_requests/7/notes", "secret"),
    ],
)
def test_there_is_one_comment_and_the_last_one_stands(
    server: Server, tmp_path: Path, environment: Any, where: str, token: str
) -> None:
    told = environment(server, tmp_path)
    server.kept += [{"id": n + 1, "body": f"of somebody else {n}"} for n in range(120)]
    for text in ("<!-- partywall -->\nfirst\n", "<!-- partywall -->\nsecond\n"):
        done = comment(text, tmp_path, **told)
        assert done.returncode == 0, done.stderr
    ours = [one["body"] for one in server.kept if one["body"].startswith("<!-- partywall -->")]
    assert ours == ["<!-- partywall -->\nsecond\n"]
    assert len(server.kept) == 121
    assert ("POST", where, token) in server.asked


@pytest.mark.parametrize(
    "strangers",
    [{"author_association": "NONE", "user": {"type": "User"}}, {"anothers": True}],
)
def test_what_a_stranger_wrote_with_the_same_first_line_stays(
    server: Server, tmp_path: Path, strangers: dict[str, Any]
) -> None:
    server.kept.append({"id": 1, "body": "<!-- partywall -->\nnot ours\n", **strangers})
    done = comment("<!-- partywall -->\nours\n", tmp_path, **github(server, tmp_path))
    assert (done.returncode, done.stderr) == (0, "comment: written\n")
    assert [one["body"].split("\n")[1] for one in server.kept] == ["not ours", "ours"]
    server.kept[1] |= {"author_association": "NONE", "user": {"type": "Bot"}}
    comment("<!-- partywall -->\nnew\n", tmp_path, **github(server, tmp_path))
    assert [one["body"].split("\n")[1] for one in server.kept] == ["not ours", "new"]


def test_a_job_that_may_only_read_does_not_fail(server: Server, tmp_path: Path) -> None:
    server.refuses = 403
    done = comment("<!-- partywall -->\n", tmp_path, **github(server, tmp_path))
    assert done.returncode == 0
    assert done.stderr == "comment: none: this job may not (403 Forbidden)\n"


def test_a_server_that_fails_is_asked_again_and_fails_no_job(
    server: Server, tmp_path: Path
) -> None:
    server.refuses = 500
    done = comment("<!-- partywall -->\n", tmp_path, **github(server, tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert len(server.asked) == 2


@pytest.mark.parametrize("answers", [b"[{", b"{}x", b'{"message": "odd"}', b'["odd"]'])
def test_a_server_whose_answer_is_odd_fails_no_job(
    server: Server, tmp_path: Path, answers: bytes
) -> None:
    server.answers = answers
    done = comment("<!-- partywall -->\n", tmp_path, **github(server, tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert done.stderr.startswith("comment: none: ")


def test_without_a_change_there_is_no_comment(server: Server, tmp_path: Path) -> None:
    done = comment("x\n", tmp_path)
    assert (done.returncode, done.stderr.startswith("comment: none: ")) == (0, True)
    told = github(server, tmp_path)
    Path(told["GITHUB_EVENT_PATH"]).write_text("{}")
    assert comment("x\n", tmp_path, **told).stderr == "comment: none: this is no pull request\n"
    assert server.asked == []


def test_a_long_comment_is_cut(server: Server, tmp_path: Path) -> None:
    comment("<!-- partywall -->\n" + "x" * 100_000, tmp_path, **github(server, tmp_path))
    assert len(server.kept[0]["body"]) < 65_536


def test_no_input_becomes_a_part_of_a_script() -> None:
    text = (CHECKOUT / "action.yaml").read_text()
    scripts = re.findall(r"^( +)(?:- )?run: (.*(?:\n\1  .*)*)", text, re.MULTILINE)
    assert len(scripts) == text.count("shell: bash")
    assert not any("${{" in script for _, script in scripts)


def test_what_others_provide_is_named_by_its_commit() -> None:
    used = re.findall(r"^ +uses: (\S+)", (CHECKOUT / "action.yaml").read_text(), re.MULTILINE)
    assert len(used) == 2
    # Nor does an example name anything otherwise, but for ourselves.
    shown = re.findall(r"\buses: (\S+)", (CHECKOUT / "docs/ci.md").read_text())
    used += [one for one in shown if not one.startswith("OWNER/")]
    assert len(used) == 3
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used)


def test_jobs_of_a_matrix_can_keep_pages_of_different_names() -> None:
    action = yaml.safe_load((CHECKOUT / "action.yaml").read_text())
    (kept,) = [one for one in action["runs"]["steps"] if "upload-artifact" in one.get("uses", "")]
    (name,) = re.findall(r"^\$\{\{ inputs\.(\w+) \}\}$", kept["with"]["name"])
    assert action["inputs"][name]["default"] == "walls"
