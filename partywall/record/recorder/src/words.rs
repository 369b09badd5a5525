// SPDX-License-Identifier: GPL-2.0-or-later
//! Which words of a line are used together in a visit.
//!
//! A visit reads some of the line's eight words of 8 bytes and writes some. How often
//! each combination occurs says how many transfers would go if the fields had lines
//! of their own.

use crate::format::LINE_SHIFT;
use crate::slots::{mix, more, Slot, Table};

const WORD_SHIFT: u32 = 3;
const WORDS: u32 = 1 << (LINE_SHIFT - WORD_SHIFT);

/// Combinations of words that are told apart for one line; the others count as
/// visits of all words.
pub const COMBINATIONS: u8 = 24;

/// Words of one visit: a bit for each that is read, and for each that is written.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Words {
    pub read: u8,
    pub written: u8,
}

impl Words {
    pub const NONE: Words = Words {
        read: 0,
        written: 0,
    };

    /// Those of an access of `size` bytes at `address`, as far as they lie in `line`.
    #[inline(always)]
    pub fn of(address: u64, size: u8, store: bool, line: u64) -> Words {
        let start = (line << LINE_SHIFT).max(address);
        let last = ((line << LINE_SHIFT) + (1 << LINE_SHIFT) - 1).min(address + size as u64 - 1);
        let word = |at: u64| (at >> WORD_SHIFT) as u32 & (WORDS - 1);
        let mask = ((2u32 << word(last)) - (1 << word(start))) as u8;
        if store {
            Words {
                read: 0,
                written: mask,
            }
        } else {
            Words {
                read: mask,
                written: 0,
            }
        }
    }

    #[inline(always)]
    pub fn add(&mut self, other: Words) {
        self.read |= other.read;
        self.written |= other.written;
    }

    /// All words, read and if any was written written too: more than what it stands for.
    fn all(self) -> Words {
        Words {
            read: u8::MAX,
            written: if self.written == 0 { 0 } else { u8::MAX },
        }
    }
}

/// Visits of one party to one line that used the same words.
#[derive(Clone, Copy)]
pub struct PatternSlot {
    /// As in `LineSlot`.
    pub key: u64,
    pub words: Words,
    pub visits: u32,
    /// Where the line's visit was counted that came after one of these last time.
    next: u32,
}

impl Slot for PatternSlot {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.key
    }
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        self.key == other.key && self.words == other.words
    }
    #[inline(always)]
    fn hash(&self) -> u64 {
        let words = u16::from_le_bytes([self.words.read, self.words.written]);
        mix(self.key, words as u64)
    }
}

/// The combinations of one party.
#[derive(Default)]
pub struct Patterns {
    pub slots: Table<PatternSlot>,
}

impl Patterns {
    /// A visit of the line of `key` that used `words` is over. `known`: combinations
    /// of this line so far; `last`: where the last one was counted; `times`: in so many rounds.
    #[inline(always)]
    pub fn count(&mut self, key: u64, words: Words, known: &mut u8, last: &mut u32, times: u32) {
        let guess = self.slots.get(*last).map_or(0, |s| s.next);
        let guessed = self
            .slots
            .get(guess)
            .map_or(false, |s| s.key == key && s.words == words);
        let place = if guessed {
            guess
        } else {
            self.look_for(key, words, *known, *last)
        };
        *last = place;
        let found = self.slots.at(place);
        if found.visits == 0 {
            *known = known.saturating_add(1);
        }
        found.visits = more(found.visits, times);
    }

    /// Where another combination is counted than the one that came next before.
    #[inline(never)]
    fn look_for(&mut self, key: u64, words: Words, known: u8, last: u32) -> u32 {
        let slot = |words| PatternSlot {
            key,
            words,
            visits: 0,
            next: 0,
        };
        let words = if known < COMBINATIONS || self.slots.lookup(&slot(words)).is_some() {
            words
        } else {
            words.all()
        };
        let place = self.slots.place(&slot(words), last);
        self.slots.at(last).next = place;
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mask: u8) -> Words {
        Words {
            read: mask,
            written: 0,
        }
    }

    #[test]
    fn an_access_uses_the_words_it_touches_in_that_line() {
        assert_eq!(Words::of(0x1000, 1, false, 0x40), read(1));
        assert_eq!(Words::of(0x1004, 8, false, 0x40), read(3));
        assert_eq!(Words::of(0x103f, 1, false, 0x40), read(0x80));
        assert_eq!(Words::of(0x1000, 64, false, 0x40), read(0xff));
        // across two lines
        assert_eq!(Words::of(0x103c, 8, false, 0x40), read(0x80));
        assert_eq!(Words::of(0x103c, 8, false, 0x41), read(1));
        let store = Words::of(0x1018, 4, true, 0x40);
        assert_eq!((store.read, store.written), (0, 8));
    }

    #[test]
    fn visits_with_the_same_words_are_counted_together() {
        let (mut patterns, mut known, mut last) = (Patterns::default(), 0, 0);
        for mask in [1, 2, 1, 1] {
            patterns.count(0x81, read(mask), &mut known, &mut last, 1);
        }
        assert_eq!(known, 2);
        let mut found: Vec<_> = patterns
            .slots
            .iter()
            .map(|s| (s.words.read, s.visits))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(1, 3), (2, 1)]);
    }

    #[test]
    fn too_many_combinations_count_as_all_words_and_none_is_lost() {
        let (mut patterns, mut known, mut last) = (Patterns::default(), 0, 0);
        for mask in 1..=200 {
            patterns.count(0x81, read(mask), &mut known, &mut last, 1);
            let both = Words {
                read: 0,
                written: mask,
            };
            patterns.count(0x81, both, &mut known, &mut last, 1);
        }
        patterns.count(0x81, read(1), &mut known, &mut last, 1); // still told apart
        let visits = |words: Words| {
            let found = patterns.slots.iter().find(|s| s.words == words);
            found.map_or(0, |s| s.visits)
        };
        let each = COMBINATIONS as u32 / 2;
        assert_eq!(visits(read(1)), 2);
        assert_eq!(visits(read(0xff)), 200 - each);
        assert_eq!(visits(read(0xff).all()), 200 - each);
        let rest = Words {
            read: 0xff,
            written: 0xff,
        };
        assert_eq!(visits(rest), 200 - each);
        let all: u32 = patterns.slots.iter().map(|s| s.visits).sum();
        assert_eq!(all, 401);
    }
}
