// SPDX-License-Identifier: GPL-2.0-or-later
//! A round that was done many times, counted at once.

use super::Tables;
use crate::cycles::Stretch;
use crate::turns::Owners;

/// What becomes of visits under locks, which may be taken back.
pub enum Noted {
    /// They are counted.
    No,
    /// And noted: at which place how many.
    Yes(Vec<(u32, i32)>),
    /// They were noted before.
    Before,
}

/// What was noted of each place, in all.
fn sums(mut noted: Vec<(u32, i32)>) -> Vec<(u32, i32)> {
    noted.sort_unstable();
    noted.dedup_by(|next, one| {
        let same = next.0 == one.0;
        one.1 += if same { next.1 } else { 0 };
        same
    });
    noted
}

impl Tables {
    /// Counts a round so many times. It was counted twice, with nothing before, between or since,
    /// in one slice of the emulator's.
    pub fn repeat(&mut self, round: &[&Stretch], times: u32, owners: &mut Owners) {
        let mut left = times;
        let events: usize = round.iter().map(|stretch| stretch.count()).sum();
        let all = self.foreground_accesses + self.background_accesses;
        // A number that is full does not get larger each time.
        if left > 2 && all + 2 * events as u64 * left as u64 <= u32::MAX as u64 {
            let changes = self.changes;
            self.noted = Noted::Yes(Vec::new());
            round.iter().for_each(|stretch| stretch.all(self, owners));
            left -= 1;
            let noted = match std::mem::replace(&mut self.noted, Noted::Before) {
                Noted::Yes(noted) => sums(noted),
                _ => Vec::new(),
            };
            // Of what is not in the round all is as far behind then as after one more; and what is
            // taken back each time must be there each time.
            let far = self.changes.wrapping_sub(changes) > self.visit_distance;
            if far && noted.iter().all(|(_, more)| *more >= 0) {
                self.times = left;
                round.iter().for_each(|stretch| stretch.all(self, owners));
                for (place, more) in noted {
                    self.visits_under.at(place).visits += more as u32 * left;
                }
                self.times = 1;
                left = 0;
            }
            self.noted = Noted::No;
        }
        for _ in 0..left {
            round.iter().for_each(|stretch| stretch.all(self, owners));
        }
    }
}
