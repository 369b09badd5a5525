// SPDX-License-Identifier: GPL-2.0-or-later
//! What the file holds, to the byte.

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
        8 + 60 + 16 + 56 + 128 + 56 + 88 + 64 + 48 + 2 * (40 + 64 + 32 + 14 + 24) + 12
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
    assert_eq!(out.len(), 8 + 60 + 2 * (40 + 64 + 2 * 32) + 12);
}

#[test]
fn a_full_disk_is_an_error() {
    let full = File::create("/dev/full").unwrap();
    assert!(of(&Sums::new(2), vec![]).write(&full).is_err());
}
