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
            let slices = &tables.slices;
            for value in [
                summary.cpu,
                summary.windows,
                lines.len() as u32,
                accesses.len() as u32,
                still as u32,
                patterns.len() as u32,
                repeated.len() as u32,
                slices.count,
                slices.after_others,
                slices.after_containers,
            ] {
                w.u32(value)?;
            }
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
#[path = "format_tests.rs"]
mod tests;
