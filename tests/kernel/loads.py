# SPDX-License-Identifier: GPL-2.0-or-later
"""What a soak runs all at once, a load for each topic, and how much each has done.

A load is a shell script that works until the guest's clock says that it is over. Most
call a program of ``programs/`` again and again, each call for a few seconds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from machine import EXT4

# Waits until no network namespace is left, or for two minutes; the first one is not from
# the slab.
SETTLED = """\
for second in $(seq 120); do
	echo 1 >/sys/kernel/slab/net_namespace/shrink
	left=$(cut -d' ' -f1 /sys/kernel/slab/net_namespace/objects)
	[ $left -gt 0 ] || break
	sleep 1
done
echo left $left
"""

# Allocations that fail: also those that may wait for memory, and single pages; and no
# word of each.
FAILING = """\
mount -t debugfs debugfs /sys/kernel/debug
for which in failslab fail_page_alloc; do
	echo N >/sys/kernel/debug/$which/ignore-gfp-wait
	echo 0 >/sys/kernel/debug/$which/verbose
done
echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
echo 1 >/sys/kernel/rcu_expedited
"""

# So that a real-time task which keeps a processor leaves others nothing of it, and a wait for
# what it does that ends, whatever happens.
HELD_ALONE = """\
mount -t debugfs debugfs /sys/kernel/debug
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
for cpu in /sys/kernel/debug/sched/fair_server/cpu*; do echo 0 >$cpu/runtime; done
held() { for n in $(seq 600); do [ ! -e /held ] || return 0; usleep 100000; done; echo BROKEN; }
"""

PATIENCE = 600
"""Seconds in which loads have to end what they have begun."""


@dataclass(frozen=True)
class Load:
    """One load.

    ``step``: one round, as a script; ``operations``: how many of them the output of some
    rounds tells of; ``comms``: how names of its tasks begin; ``before``: done once, before
    any load begins; ``failing``: there for its allocations that fail, and left out where
    none do.
    """

    name: str
    topic: str
    step: Callable[[random.Random], str]
    operations: Callable[[str], int]
    comms: tuple[str, ...]
    before: str = ""
    failing: bool = False

    def script(self, chance: random.Random, rounds: int = 8) -> str:
        """What the load does until it is over; after so many rounds the first one again."""
        steps = [f"{self.step(chance)}\nover && break" for _ in range(rounds)]
        return "\n".join([". /soak/lib", "while ! over; do", *steps, "done", ""])


def _sum(*patterns: str) -> Callable[[str], int]:
    """Adds up all groups of all that the patterns find."""
    compiled = [re.compile(pattern, re.MULTILINE) for pattern in patterns]

    def operations(output: str) -> int:
        return sum(
            int(number)
            for pattern in compiled
            for found in pattern.finditer(output)
            for number in found.groups()
        )

    return operations


_ROUNDS = re.compile(r"^(?:not )?ok 1 - .*, room for (\d+), (\d+) of (\d+) rounds", re.MULTILINE)


def _charges(output: str) -> int:
    """In each round as many charges as there is room for, at least; and namespaces made."""
    charges = sum(int(room) * int(rounds) for room, _, rounds in _ROUNDS.findall(output))
    return charges + _sum(r"^(\d+) namespaces, \d+ failed")(output)


def _limits(chance: random.Random) -> str:
    rounds = [
        f"over || limits {kind} {spaces} {tasks} {room} 4"
        for kind in ("sigpending", "nproc", "msgqueue", "memlock")
        for spaces, tasks in ((0, 16), (4, 4))
        for room in (40, 64)
    ]
    chance.shuffle(rounds)
    return "\n".join(["namespaces 60 8", *rounds])


def _same(script: str) -> Callable[[random.Random], str]:
    return lambda chance: script


# Names that are not there, in a cgroup of 24 MiB; what is there is found all the while.
_CGROUP = """\
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/one /sys/fs/cgroup/other
echo 48M >/sys/fs/cgroup/one/memory.max
if [ -e /proc/sys/fs/neg-dentry-pc ]; then
	echo 1 >/proc/sys/fs/neg-dentry-pc
	echo 1 >/proc/sys/fs/neg-dentry-enforce
fi
"""


def _names(chance: random.Random) -> str:
    names, again = chance.randrange(4000, 12000), chance.randrange(100, 400)
    crowd = chance.choice((0, 20, 2000))
    return f"""\
[ ! -e /proc/sys/fs/neg-dentry-dir-max ] || echo {crowd} >/proc/sys/fs/neg-dentry-dir-max
n=$((n + 1)) && d=/new/$n && mkdir $d $d/a $d/b
in_one missing storm $d 5
in_one missing flood $d/a {names} 2
over || missing again $d/b {again} 3
over || missing files $d/b 50
rm -rf $d
over || echo 2 >/proc/sys/vm/drop_caches"""


# No file of which reading has an effect, or has no end.
_READ = """\
{
	find /proc/sys /proc/net/ /sys/class/net/ /sys/devices/virtual/net -type f ! -name stat_refresh
	for task in /proc/[0-9]*; do
		for file in status limits mountinfo cgroup net/dev; do echo $task/$file; done
	done
} >/tmp/files 2>/dev/null
xargs -n 20 cat </tmp/files >/dev/null 2>&1
echo "read $(wc -l </tmp/files)"
echo "found $(find /sys/fs/cgroup /sys/module /sys/bus -type f -maxdepth 3 2>/dev/null | wc -l)"
usleep 200000"""

_POLICY = """\
mkdir -p /sys/kernel/security
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
cp /bin/exits /bin/confined
cat /soak/policy >/sys/kernel/security/apparmor/.replace || echo "BROKEN no AppArmor"
"""

# Labels are replaced while signals and capabilities are judged by them, and tasks become
# other users. Not the one of the limits, whose charges are counted.
_CONFINED = """\
touch /tmp/replaces
(
	replaced=0
	while [ -e /tmp/replaces ]; do
		cat /soak/policy >/sys/kernel/security/apparmor/.replace && replaced=$((replaced + 1))
		usleep 100000
	done
	echo "replaced $replaced"
) &
sh -c 'printf "exec partywall-container" >/proc/self/attr/exec; exec confined $1' - $(left) &
for round in 1 2 3 4 5; do
	for user in 2000 2001 2002 2003; do
		over || {
			/sbin/setpriv --reuid=$user --regid=$user --clear-groups sh -c '
				for n in 1 2 3 4 5 6 7 8; do [ -r /soak/lib ]; [ -w /etc/passwd ]; done
				trap : 34; kill -34 $$'
			echo users 16
		}
	done
done
wait $!
rm /tmp/replaces
wait"""

# One in 1,000 fails, so that most programs start.
CHANCES = """\
for which in failslab fail_page_alloc; do
	echo Y >/sys/kernel/debug/$which/task-filter
	echo 10 >/sys/kernel/debug/$which/interval
	echo -1 >/sys/kernel/debug/$which/times
	echo 1 >/sys/kernel/debug/$which/probability
done
"""

_BEAR = """\
cp /bin/netns /bin/netns-fails
cp /bin/exits /bin/exits-fails
mkdir -p /tmp/fails/lower /tmp/fails/upper /tmp/fails/work /tmp/fails/merged
"""

_MAY_FAIL = (
    "ls none-$n",
    "kill -34 $$",
    "unshare -U true",
    "unshare -n -i -m cat /proc/sys/net/core/somaxconn",
    "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged",
    "mkdir merged/$n; rmdir merged/$n",
    "umount -l merged",
    "mkdir /sys/fs/cgroup/fails; rmdir /sys/fs/cgroup/fails",
    "/sbin/setpriv --reuid=2004 --clear-groups cat /proc/self/limits",
    "find /sys/class/net/lo/ -type f",
)


# What fails here fails for a reason. It may be the shell that does, and what comes after it
# is not tried then: so each round has an order of its own.
def _fails(chance: random.Random) -> str:
    commands = "\n".join(f"\t{one}; echo did" for one in chance.sample(_MAY_FAIL, len(_MAY_FAIL)))
    return f"""\
sh -c '
echo 1 >/proc/self/make-it-fail
cd /tmp/fails
trap : 34
for n in 1 2 3 4 5 6 7 8; do
{commands}
done' 2>/dev/null | grep -c ^did | sed 's/^/did /'
while umount -l /tmp/fails/merged 2>/dev/null; do :; done
over || sh -c 'echo 1 >/proc/self/make-it-fail; exec exits-fails 5' 2>/dev/null"""


# Of a setup of a namespace one allocation fails, each time another one.
def _setups(chance: random.Random) -> str:
    return f"netns-fails fail 2 {chance.choice((401, 499, 599, 701))}"


_FAILING_TOPIC = "failing allocations"

LOADS = (
    Load(
        "limits",
        "limits, user namespaces",
        _limits,
        _charges,
        ("limits", "namespaces"),
        before="echo 100000 >/proc/sys/user/max_user_namespaces\n",
    ),
    Load(
        "signals",
        "signals, exits",
        _same("exits $(left)"),
        _sum(r"^sent (\d+), taken \d+, (\d+) exits"),
        ("exits", "exe"),
    ),
    Load(
        "netns",
        "network namespaces",
        _same("netns storm $(left)\nover || netns churn 2 10"),
        _sum(r"^storm (\d+) made, (\d+) links, (\d+) moves", r"^churn (\d+) namespaces"),
        ("netns",),
    ),
    Load(
        "overlay",
        "overlays",
        _same("mounts $(left)"),
        _sum(r"^(\d+) operations, (\d+) mounts, (\d+) asynchronous"),
        ("mounts", "iou-wrk", "iou-sqp"),
    ),
    Load(
        "names",
        "names that are not there",
        _names,
        _sum(r"^storm (\d+) changes, (\d+) looks", r"^(?:flood|again|files) (\d+)"),
        ("missing",),
        before=f"{EXT4}{_CGROUP}",
    ),
    Load(
        "confined",
        "AppArmor, credentials",
        _same(_CONFINED),
        _sum(r"^sent (\d+), taken \d+, (\d+) exits", r"^(?:users|replaced) (\d+)"),
        ("confined", "setpriv"),
        before=_POLICY,
    ),
    Load(
        "readers",
        "readers of /proc and /sys",
        _same(_READ),
        _sum(r"^(?:read|found) (\d+)"),
        ("find", "xargs", "cat"),
    ),
    Load(
        "fails",
        _FAILING_TOPIC,
        _fails,
        _sum(r"^did (\d+)", r"^sent (\d+), taken \d+, (\d+) exits"),
        ("exits-fails", "unshare", "mount", "umount"),
        before=_BEAR,
        failing=True,
    ),
    Load(
        "setups",
        _FAILING_TOPIC,
        _setups,
        _sum(r"^fail (\d+) allocations"),
        ("netns-fails",),
        failing=True,
    ),
)

OTHERS = "other tasks"
"""Topic of what kernel threads, interrupts and shells do."""

TOPICS = (*dict.fromkeys(load.topic for load in LOADS), OTHERS)

PROGRAMS = ("exits", "limits", "missing", "mounts", "namespaces", "netns")


def topic(comm: str | None) -> str:
    """Whose task a name is: the load with the longest beginning of it."""
    comms = {begin: load.topic for load in LOADS for begin in load.comms}
    begins = [begin for begin in comms if comm and comm.startswith(begin)]
    return comms[max(begins, key=len)] if begins else OTHERS


# For all loads: whether it is over, and how long a program may work from now on.
_LIBRARY = """\
over() {
	read -r now rest </proc/uptime
	[ ${now%.*} -ge $(cat /soak/end) ]
}
left() {
	read -r now rest </proc/uptime
	now=$(($(cat /soak/end) - ${now%.*}))
	[ $now -le 20 ] || now=20
	[ $now -ge 1 ] || now=1
	echo $now
}
in_one() { sh -c 'echo $$ >/sys/fs/cgroup/one/cgroup.procs; exec "$@"' - "$@"; }
n=0
"""

# What was left before the loads is not theirs.
_CLEAN = """\
leaks=/sys/kernel/debug/kmemleak
if [ -e $leaks ]; then
	echo scan >$leaks; sleep 6; echo scan >$leaks; echo clear >$leaks
fi
"""

# As `SETTLED`, for as long as there become fewer of them. The last ones that died are freed
# when the next one has died, on stock's kernel; so there is a next one, and it is left.
_SETTLES = """\
least=1000000 same=0 waited=0
while [ $least -gt 1 ] && [ $same -lt 90 ]; do
	[ $((waited % 10)) -ne 0 ] || unshare -n true
	sleep 1
	echo 1 >/sys/kernel/slab/net_namespace/shrink
	left=$(cut -d' ' -f1 /sys/kernel/slab/net_namespace/objects)
	if [ $left -lt $least ]; then least=$left same=0; else same=$((same + 1)); fi
	waited=$((waited + 1))
done
echo left $least
"""

# Twice: what changes between two scans is no leak, and the first one may not have seen
# what is freed by and by.
_LEAKS = """\
for which in failslab fail_page_alloc; do
	[ ! -e /sys/kernel/debug/$which ] || echo 0 >/sys/kernel/debug/$which/probability
done
umount -l /new /tmp/fails/merged 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
"""

_SCAN = """\
if [ -e $leaks ]; then
	sleep 15
	echo scan >$leaks; sleep 15; echo scan >$leaks || echo "BROKEN kmemleak gave up"
	echo "LEAKS begin"
	head -c 400000 $leaks
	echo "LEAKS end"
fi
"""


def files(seed: int) -> dict[str, bytes]:
    """Scripts of the loads, by path in the guest."""
    made = {"/soak/lib": _LIBRARY.encode()}
    for load in LOADS:
        # Of its own, so that a load is the same whatever others there are.
        chance = random.Random(f"{seed} {load.name}")
        made[f"/soak/{load.name}"] = load.script(chance).encode()
    return made


def script(seconds: int) -> str:
    """Runs all loads for so long, lets things settle, and prints what they and kmemleak say."""
    begins = "".join(
        f"{'[ ! -e /proc/self/make-it-fail ] || ' if load.failing else ''}begin {load.name}\n"
        for load in LOADS
    )
    return f"""\
{"".join(load.before for load in LOADS)}mkdir -p /sys/kernel/debug
if [ -e /proc/self/make-it-fail ]; then
{FAILING}{CHANCES}else
	mount -t debugfs debugfs /sys/kernel/debug
fi
{_CLEAN}begin() {{
	begun="$begun $1"
	(sh /soak/$1 >/tmp/said-$1 2>&1; touch /tmp/ended-$1) &
}}
read -r now rest </proc/uptime
echo $((${{now%.*}} + {seconds})) >/soak/end
{begins}sleep {seconds}
for second in $(seq {PATIENCE}); do
	works=
	for load in $begun; do [ -e /tmp/ended-$load ] || works="$works $load"; done
	[ -n "$works" ] || break
	sleep 1
done
for load in $works; do echo "BROKEN $load does not end"; done
[ -z "$works" ] || echo w >/proc/sysrq-trigger
for load in $begun; do
	echo "LOAD $load begins"
	sort /tmp/said-$load | uniq -c | head -c 2000000
	echo "LOAD $load ends"
done
{_LEAKS}{_SETTLES}{_SCAN}"""


@dataclass(frozen=True)
class Done:
    """What loads said: operations by topic; what went wrong; kmemleak's list."""

    operations: dict[str, int]
    wrong: list[str]
    leaks: str


# Of these a word that something failed is what they are for.
_MAY_BREAK = ("fails",)


def _counted(lines: str) -> str:
    """What ``uniq -c`` made one line of."""
    found = re.findall(r"^ *(\d+) (.*\n)", lines, re.MULTILINE)
    return "".join(line * int(times) for times, line in found)


def done(output: str) -> Done:
    """Reads what `script` printed."""
    operations: dict[str, int] = {}
    wrong = re.findall(
        r"^BROKEN \S+ does not end$|^BROKEN (?:kmemleak|no AppArmor).*", output, re.M
    )
    for load in LOADS:
        name = re.escape(load.name)
        found = re.search(rf"^LOAD {name} begins\n(.*?)^LOAD {name} ends$", output, re.M | re.S)
        if found is None:
            continue
        said = _counted(found[1])
        count = load.operations(said)
        operations[load.topic] = operations.get(load.topic, 0) + count
        if load.name not in _MAY_BREAK:
            bad = re.findall(r"^(?:BROKEN|not ok|# round) .*", said, re.M)
            wrong += [f"{load.name}: {line}" for line in dict.fromkeys(bad)]
        if not count:
            wrong.append(f"{load.name}: did nothing")
    left = re.search(r"^left (\d+)$", output, re.MULTILINE)
    if left and int(left[1]) > 1:
        wrong.append(f"netns: {left[1]} network namespaces are left")
    leaks = re.search(r"^LEAKS begin\n(.*?)(?:^LEAKS end$|\Z)", output, re.M | re.S)
    return Done(operations, wrong, leaks[1] if leaks else "")
