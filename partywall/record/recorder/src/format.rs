// SPDX-License-Identifier: GPL-2.0-or-later
//! The recording as a file. `docs/recording.md` describes it.

use crate::caused::{Cause, Left, Way};
use crate::checked::Checked;
use crate::event::ATOMIC;
use crate::held::{who, Sums};
use crate::repeated::repeated;
use crate::table::{AccessSlot, LineSlot, Tables};
use crate::under::{self, Sets};
use crate::words::PatternSlot;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub const MAGIC: &[u8; 8] = b"PWALLREC";
// VERSION, and LINE_SHIFT: a line's number is its address shifted by that.
include!(concat!(env!("OUT_DIR"), "/format.rs"));

/// Kinds of work, which the lowest bits of a line's key tell apart.
pub mod kind {
    include!(concat!(env!("OUT_DIR"), "/kind.rs"));

    /// The key of a line in a kind of work.
    #[inline(always)]
    pub const fn key(line: u64, kind: u64) -> u64 {
        line << BITS | kind
    }

    /// The kind of work that a key is of.
    #[inline(always)]
    pub const fn of(key: u64) -> u64 {
        key & ((1 << BITS) - 1)
    }
}

/// What is known of one party beside its tables. A party is a vCPU, or a
/// kernel thread that does charged work on one.
#[derive(Default, Clone)]
pub struct Summary {
    pub cpu: u32,
    /// Base of the thread's stack; 0 for the vCPU itself.
    pub thread: u64,
    pub windows: u32,
    /// In the foreground, but for those that spin for a lock.
    pub kernel_instructions: u64,
    pub spinning_instructions: u64,
    pub user_instructions: u64,
    pub background_instructions: u64,
    /// Of those of the background, in softirqs that a system call ran.
    pub deferred_instructions: u64,
    pub calls: Vec<u64>,
}

/// A finished recording.
pub struct Recording<'a> {
    pub visit_distance: u32,
    /// Instruction, and the call that led into its function or 0.
    pub sites: &'a [(u64, u64)],
    pub stacks: &'a [u64],
    pub locks: &'a Sums,
    /// What containers left for later.
    pub left: &'a BTreeMap<Way, Left>,
    /// The guest's time could be read.
    pub clock: bool,
    pub counts: usize,
    pub parties: Vec<(Summary, &'a Tables)>,
}

fn line_of(slot: &LineSlot) -> u64 {
    slot.key >> kind::BITS
}

/// Lines that can move: several parties visited, and one of them wrote. With a ``shift``
/// of 1, pairs of lines, by the number of their first one shifted.
fn movable(parties: &[(Summary, &Tables)], shift: u32) -> HashSet<u64> {
    struct Seen {
        last: usize,
        several: bool,
        written: bool,
    }
    let mut lines: HashMap<u64, Seen> = HashMap::new();
    for (party, (_, tables)) in parties.iter().enumerate() {
        for slot in tables.lines.iter() {
            let seen = lines.entry(line_of(slot) >> shift).or_insert(Seen {
                last: party,
                several: false,
                written: false,
            });
            seen.several |= seen.last != party;
            seen.written |= slot.write_visits > 0;
        }
    }
    lines
        .into_iter()
        .filter(|(_, seen)| seen.several && seen.written)
        .map(|(line, _)| line)
        .collect()
}

impl Recording<'_> {
    /// Writes to `out`. Lines that one party alone visited, or nobody wrote,
    /// can't move; they are counted, not listed. But of a pair of lines that would move
    /// if it were one, both are listed, without what was done there.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let pairs = movable(&self.parties, 1);
        let movable = movable(&self.parties, 0);
        let listed = |line: u64| movable.contains(&line);
        let mut locks: Vec<_> = self
            .locks
            .of
            .iter()
            .filter(|(address, _)| listed(**address >> LINE_SHIFT))
            .collect();
        locks.sort_unstable_by_key(|(address, _)| **address);
        let mut holds: Vec<_> = self
            .locks
            .holds
            .iter()
            .filter(|((address, ..), _)| listed(*address >> LINE_SHIFT))
            .collect();
        holds.sort_unstable_by_key(|(key, _)| **key);
        let slots = self.parties.iter();
        let slots = slots.flat_map(|(_, tables)| tables.visits_under.iter());
        let held = |lock: u64| self.locks.of.contains_key(&lock) && listed(lock >> LINE_SHIFT);
        let mut known = Sets::default();
        let under = under::sum(slots, &self.locks.sets, &mut known, listed, held);
        let spans = self
            .locks
            .spans
            .kept(|at| self.clock && listed(at >> LINE_SHIFT));
        let reasons: usize = holds.iter().map(|(_, hold)| hold.reasons.len()).sum();
        let mut waits: Vec<_> = self.locks.waits.iter().collect();
        waits.sort_unstable_by_key(|(key, _)| **key);
        let mut w = Checked::new(BufWriter::with_capacity(1 << 20, out));
        w.put(MAGIC)?;
        for value in [
            VERSION,
            self.parties.len() as u32,
            self.visit_distance,
            self.sites.len() as u32,
            self.stacks.len() as u32,
            self.counts as u32,
            locks.len() as u32,
            holds.len() as u32,
            reasons as u32,
            waits.len() as u32,
            self.locks.instruction_ns as u32 * self.clock as u32,
            under.sets.len() as u32,
            under.visits.len() as u32,
            spans.len() as u32,
            self.left.len() as u32,
        ] {
            w.u32(value)?;
        }
        for (address, caller) in self.sites {
            w.u64(*address)?;
            w.u64(*caller)?;
        }
        for stack in self.stacks {
            w.u64(*stack)?;
        }
        for (address, sum) in locks {
            for value in [
                *address,
                sum.exclusive,
                sum.shared,
                sum.own,
                sum.all,
                sum.slept,
                sum.waited,
            ] {
                w.u64(value)?;
            }
        }
        for (key, hold) in &holds {
            for value in hold.words(key) {
                w.u64(value)?;
            }
        }
        for (key, hold) in &holds {
            let [address, taker, kind] = who(key);
            for (reason, (times, ns)) in &hold.reasons {
                for value in [
                    address,
                    taker,
                    kind,
                    reason.function as u64,
                    reason.at,
                    *times,
                    *ns,
                ] {
                    w.u64(value)?;
                }
            }
        }
        for (key, wait) in waits {
            for value in wait.words(key) {
                w.u64(value)?;
            }
        }
        for span in spans {
            for value in span.words() {
                w.u64(value)?;
            }
        }
        for ((context, by), left) in self.left {
            // What is everybody's is done for all of them.
            let all = left.containers.contains(&Cause::ALL.container);
            let containers = if all {
                u64::MAX
            } else {
                left.containers.len() as u64
            };
            for value in [
                *context as u64,
                by.site,
                by.late as u64,
                left.times,
                left.done,
                containers,
            ] {
                w.u64(value)?;
            }
        }
        for set in under.sets {
            w.u64(set.len() as u64)?;
            for lock in set {
                w.u64(*lock)?;
            }
        }
        for ((key, set), visits) in under.visits {
            for value in [key, set, visits] {
                w.u64(value)?;
            }
        }
        let rows = repeated(&self.parties, self.locks, listed);
        for ((summary, tables), repeated) in self.parties.iter().zip(rows) {
            let mut lines: Vec<&LineSlot> = tables
                .lines
                .iter()
                .filter(|s| pairs.contains(&(line_of(s) >> 1)))
                .collect();
            let still = tables.lines.iter().count() - lines.len();
            lines.sort_unstable_by_key(|s| s.key);
            let mut accesses: Vec<&AccessSlot> = tables
                .accesses
                .iter()
                .filter(|s| {
                    listed(s.address >> LINE_SHIFT)
                        || listed((s.address + s.what.size() as u64 - 1) >> LINE_SHIFT)
                })
                .collect();
            accesses.sort_unstable_by_key(|s| {
                (
                    s.address,
                    self.sites[s.what.number() as usize],
                    s.what.context(),
                    s.what.size(),
                    s.what.flags(),
                )
            });
            let mut patterns: Vec<&PatternSlot> = tables
                .patterns
                .slots
                .iter()
                .filter(|s| listed(s.key >> kind::BITS))
                .collect();
            patterns.sort_unstable_by_key(|s| (s.key, s.words.read, s.words.written));
            w.u32(summary.cpu)?;
            w.u32(summary.windows)?;
            w.u32(lines.len() as u32)?;
            w.u32(accesses.len() as u32)?;
            w.u32(still as u32)?;
            w.u32(patterns.len() as u32)?;
            w.u32(repeated.len() as u32)?;
            for value in [
                summary.thread,
                summary.kernel_instructions,
                summary.spinning_instructions,
                summary.user_instructions,
                summary.background_instructions,
                summary.deferred_instructions,
                tables.foreground_accesses,
                tables.background_accesses,
            ] {
                w.u64(value)?;
            }
            for n in 0..self.counts {
                w.u64(*summary.calls.get(n).unwrap_or(&0))?;
            }
            for s in lines {
                w.u64(s.key)?;
                w.u32(s.read_visits)?;
                w.u32(s.write_visits)?;
                w.u32(s.turns.turns)?;
                w.u32(s.turns.returns)?;
                w.u32(s.turns.crossings)?;
                w.u32(s.turns.slices)?;
            }
            for s in patterns {
                w.u64(s.key)?;
                w.put(&[s.words.read, s.words.written])?;
                w.u32(s.visits)?;
            }
            for (key, one) in repeated {
                w.u64(key)?;
                w.u64((one.loose as u64) << 32 | one.again as u64)?;
            }
            for s in accesses {
                w.u64(s.address)?;
                w.u32(s.what.number())?;
                w.put(&s.what.context().to_le_bytes())?;
                w.put(&[s.what.size(), s.what.is(ATOMIC) as u8])?;
                w.u32(s.reads)?;
                w.u32(s.writes)?;
            }
        }
        w.end()
    }

    /// Writes beside `path` and renames, so that no half-written file bears the name.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let part = path.with_extension("part");
        let file = File::create(&part)?;
        self.write(&file)?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caused::By;
    use crate::event::{Event, What, STORE};
    use crate::held::{Kind, Wait, Who, NOWHERE};
    use crate::spans::Span;
    use crate::turns::Owners;

    fn touch(tables: &mut Tables, address: u64, store: bool) {
        let what = What::new(0, 8, if store { ATOMIC | STORE } else { ATOMIC });
        let event = Event { address, what };
        tables.count(&[event], 0x100, kind::FOREGROUND, &mut Owners::default());
    }

    /// A recording of these parties, without sites.
    fn of<'a>(locks: &'a Sums, parties: Vec<(Summary, &'a Tables)>) -> Recording<'a> {
        Recording {
            left: Box::leak(Box::default()),
            visit_distance: 4,
            sites: &[],
            stacks: &[],
            locks,
            clock: true,
            counts: 0,
            parties,
        }
    }

    #[test]
    fn lists_lines_that_move_and_counts_the_others() {
        let mut a = Tables::new(4, 1);
        let mut b = Tables::new(4, 1);
        for (tables, own) in [(&mut a, 0x9000u64), (&mut b, 0xa000)] {
            touch(tables, 0x1000, true); // moves
            touch(tables, 0x2000, false); // everybody reads
            touch(tables, own, true); // nobody else's
            tables.close();
        }
        let mut locks = Sums::new(2);
        locks.of.entry(0x1000).or_default().exclusive = 3;
        locks.of.entry(0x2000).or_default().exclusive = 4; // on a line that stays
        for address in [0x1000, 0x2000] {
            locks.spans.add(Span {
                address,
                from: 5,
                to: 7,
                cpu: 1,
                wanted: false,
                shared: false,
                taker: 0x77,
                reason: NOWHERE,
            });
        }
        let hold = locks.hold(0x1000, 0x77, Kind::Exclusive, Who::default());
        hold.reasons.insert(NOWHERE, (1, 5));
        locks.hold(0x2000, 0x77, Kind::Exclusive, Who::THREAD);
        locks.waits.insert((NOWHERE, false), Wait::default());
        let parties = vec![(Summary::default(), &a), (Summary::default(), &b)];
        let callbacks = Left {
            times: 7,
            done: 2,
            containers: [1, 3, 4].into_iter().collect(),
        };
        let by = By {
            site: 0x77,
            late: true,
        };
        let left = [((0x6010, by), callbacks)].into_iter().collect();
        let recording = Recording {
            left: &left,
            sites: &[(0xffff_ffff_8100_0000, 0)],
            ..of(&locks, parties)
        };
        let mut out = Vec::new();
        recording.write(&mut out).unwrap();
        // header, one site, one lock, how it was held and why asleep, one wait, one span, what was left by one call; per party: a header, one line, one pattern, one access; trailer
        assert_eq!(
            out.len(),
            8 + 60 + 16 + 56 + 128 + 56 + 88 + 64 + 48 + 2 * (28 + 64 + 32 + 14 + 24) + 12
        );
        assert_eq!(&out[..8], MAGIC);
        let row: Vec<u8> = [0x6010u64, 0x77, 1, 7, 2, 3]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        assert_eq!(out.windows(48).filter(|at| *at == row).count(), 1);
        let length = u64::from_le_bytes(out[out.len() - 12..out.len() - 4].try_into().unwrap());
        assert_eq!(length as usize, out.len() - 12);
    }

    #[test]
    fn lists_both_lines_of_a_pair_that_would_move_as_one() {
        let mut a = Tables::new(4, 1);
        let mut b = Tables::new(4, 1);
        for (tables, own) in [(&mut a, 0x9000u64), (&mut b, 0x9040)] {
            touch(tables, own, true); // one's own line, beside the other's
            touch(tables, own + 0x1080, true); // 0xa080 and 0xa0c0: a pair as well
            touch(tables, own * 2, true); // 0x12000 and 0x12080: two pairs
            tables.close();
        }
        let parties = vec![(Summary::default(), &a), (Summary::default(), &b)];
        let mut found: Vec<u64> = movable(&parties, 1).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [0x9000 >> 7, 0xa080 >> 7]);
        assert!(movable(&parties, 0).is_empty());
        let mut out = Vec::new();
        of(&Sums::new(2), parties).write(&mut out).unwrap();
        // Two lines of each party, and neither an access nor a pattern.
        assert_eq!(out.len(), 8 + 60 + 2 * (28 + 64 + 2 * 32) + 12);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = File::create("/dev/full").unwrap();
        assert!(of(&Sums::new(2), vec![]).write(&full).is_err());
    }
}
