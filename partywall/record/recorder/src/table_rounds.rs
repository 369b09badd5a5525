// SPDX-License-Identifier: GPL-2.0-or-later
//! A round that was done many times, counted at once.

use super::Tables;
use crate::cycles::Stretch;
use crate::turns::Owners;
use std::collections::HashMap;

/// What becomes of visits under locks, which may be taken back if there are any.
pub enum Noted {
    /// They are counted.
    No,
    /// And noted.
    Yes(Notes),
    /// They were noted before.
    Before,
}

/// Of each place where visits under locks are counted: by how many they changed, and whether there
/// was none when one was to be taken back.
#[derive(Default)]
pub struct Notes(HashMap<u32, (i32, bool)>);

impl Noted {
    pub fn changed(&mut self, place: u32, change: i32) {
        if let Noted::Yes(notes) = self {
            notes.0.entry(place).or_default().0 += change;
        }
    }

    pub fn missed(&mut self, place: u32) {
        if let Noted::Yes(notes) = self {
            notes.0.entry(place).or_default().1 = true;
        }
    }
}

impl Notes {
    /// Whether each later round changes the same: nowhere there are fewer after it, and where
    /// there was none to be taken back there is none then.
    fn stay(&self) -> bool {
        let mut all = self.0.values();
        all.all(|(change, missed)| *change >= 0 && !(*missed && *change > 0))
    }
}

impl Tables {
    /// Counts a round so many times, after it was counted twice and nothing else since, in one
    /// slice of the emulator's. Returns how many of them were counted at once.
    pub fn repeat(&mut self, round: &[&Stretch], times: u32, owners: &mut Owners) -> u32 {
        let mut left = times;
        let mut at_once = 0;
        let events: usize = round.iter().map(|stretch| stretch.count()).sum();
        let all = self.foreground_accesses + self.background_accesses;
        // A number that is full does not get larger each time.
        if left > 2 && all + 2 * events as u64 * left as u64 <= u32::MAX as u64 {
            let changes = self.changes;
            self.noted = Noted::Yes(Notes::default());
            round.iter().for_each(|stretch| stretch.all(self, owners));
            left -= 1;
            let notes = match std::mem::replace(&mut self.noted, Noted::Before) {
                Noted::Yes(notes) => notes,
                _ => Notes::default(),
            };
            // Lines that are not in the round are too far behind then to go on, however many
            // rounds follow.
            let far = self.changes.wrapping_sub(changes) > self.visit_distance;
            if far && notes.stay() {
                self.times = left;
                round.iter().for_each(|stretch| stretch.all(self, owners));
                for (place, (change, _)) in notes.0 {
                    self.visits_under.at(place).visits += change as u32 * left;
                }
                self.times = 1;
                at_once = std::mem::take(&mut left);
            }
            self.noted = Noted::No;
        }
        for _ in 0..left {
            round.iter().for_each(|stretch| stretch.all(self, owners));
        }
        at_once
    }
}
