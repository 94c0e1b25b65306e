//! What a sliding log holds, call by call: entries of a stepped clock, the longest log, refunds.

use super::bytes::{Bytes, Reader};
use super::codec::Trail;
use super::few::Few;
use super::inspect::{inspect, kept_rules, Detail};
use super::proofs::{store, START};
use super::refund::{refund, Costs};
use super::steady::Steady;
use super::time::{Micros, Millis};
use super::*;

const MS: Millis = START / 1000;
const HOUR_MS: Millis = 3_600_000;

fn slide(limit: u64) -> Ask {
    let rule = Rule::Slide(Slide::new(limit, 3_600_000, None).expect("settings"));
    Ask { rule, cost: 1, shadow: false }
}

/// With a longest log, the charge is forced: others never reach it.
fn decided(
    held: &mut Option<Limiter>,
    asks: &[Ask],
    after_us: Micros,
    max_log: Option<u64>,
) -> Result<(), Wait> {
    let (force, max_log) = (max_log.is_some(), max_log.unwrap_or(50));
    let request = Request { asks, trail: Trail::default(), plain: false, force, max_log };
    let decision = decide(held.as_ref(), request, START + after_us).expect("fits");
    if !decision.passes() {
        return Err(decision.rows(false, true).last().expect("a row").wait);
    }
    store(held, &decision.write(true).expect("a charge writes"));
    Ok(())
}

fn charged(limit: u64, max_log: Option<u64>, after_us: &[Micros]) -> Option<Limiter> {
    let mut held = None;
    for at in after_us {
        assert_eq!(decided(&mut held, &[slide(limit)], *at, max_log), Ok(()), "at {at}");
    }
    held
}

/// Entries, oldest and newest stamp in ms after the start, and what is used.
fn seen(held: Option<&Limiter>, after_us: Micros) -> (usize, Millis, Millis, u64) {
    let views = inspect(held.expect("a key"), START + after_us).expect("whole").expect("counts");
    let view = views.first().expect("a rule");
    let Detail::Log { entries, span: Some((oldest, newest)) } = view.detail else {
        panic!("{view:?}")
    };
    (entries, oldest - MS, newest - MS, view.used)
}

#[test]
fn entries_are_counted_and_those_of_a_stepped_clock_once() {
    let held = charged(100, None, &[0, 1_000, 1_000, 5_000]);
    for (at, is) in [
        (10_000, (3, 0, 5, 4)),
        (5_000, (3, 0, 5, 4)),
        // What lies a millisecond ahead keeps its stamp.
        (4_000, (3, 0, 5, 4)),
        // Else it counts as of now, apart from the others or with the one of the same stamp.
        (2_000, (3, 0, 2, 4)),
        (1_000, (2, 0, 1, 4)),
        (0, (2, 0, 1, 4)),
        (-1_000, (2, -1, 0, 4)),
        (-10_000, (1, -10, -10, 4)),
    ] {
        assert_eq!(seen(held.as_ref(), at), is, "at {at}");
    }
    let held = charged(100, None, &[0]);
    assert_eq!(seen(held.as_ref(), -1_000), (1, 0, 0, 1));
}

#[test]
fn the_longest_log_grows_its_newest_entry() {
    let held = charged(3, Some(3), &[0, 1_000, 2_000, 3_000, 9_000]);
    assert_eq!(seen(held.as_ref(), 9_000), (3, 0, 9, 5));
    assert_eq!(seen(held.as_ref(), 1_000 * HOUR_MS + 2_000), (1, 9, 9, 3));

    // An entry of this very millisecond takes the cost, although it is not the newest.
    let held = charged(2, Some(2), &[1_000, 1_500, 1_000]);
    assert_eq!(seen(held.as_ref(), 1_500), (2, 1, 2, 3));
    assert_eq!(seen(held.as_ref(), 1_000 * HOUR_MS + 1_000), (1, 2, 2, 1));

    // So does what a stepped clock has put there.
    let held = charged(2, Some(2), &[0, 5_000, -1_000]);
    assert_eq!(seen(held.as_ref(), 0), (2, -1, 0, 3));
    assert_eq!(seen(held.as_ref(), 1_000 * HOUR_MS - 1_000), (1, 0, 0, 1));
}

/// Forced charges may use more than a log counts. What no longer adds anything moves no entry either, and
/// the reply says so, by the way of one rule, of a list in place and of any other list.
#[test]
fn a_log_that_takes_no_more_stays_and_says_so() {
    let five_s = START + 5_000_000;
    for max_log in [1, 50] {
        let mut full = charged(1, Some(50), &[0]).expect("a key");
        full.log_mut(0).expect("a log").add(MS, MAX_COUNT);
        let asks = [slide(1)];
        let request =
            Request { asks: &asks, trail: Trail::default(), plain: false, force: true, max_log };

        let alone = solo::decide(Some(&full), &asks[0], true, max_log, five_s).expect("one rule");
        let mut steady = Steady::<1>::new(request, five_s);
        assert_eq!(steady.look(Some(&full)), Some(true));
        let mut rows = Few::none();
        steady.conclude(Some(&full), true, &mut rows);
        let decision = decide(Some(&full), request, five_s).expect("fits");
        let listed = decision.rows(true, true).last().expect("a row").reset_ms;
        assert_eq!([alone.row.reset_ms, rows.all()[0].reset_ms, listed], [3_595_000; 3]);

        let mut held = Some(full.clone());
        store(&mut held, &decision.write(true).expect("a charge writes"));
        assert_eq!(seen(held.as_ref(), 5_000_000), (1, 0, 0, MAX_COUNT));
    }
}

#[test]
fn a_wait_ends_with_the_entry_that_leaves_first() {
    let mut held = charged(2, None, &[0, 5_000]);
    // The later one counts as of now, one millisecond before the earlier.
    assert_eq!(decided(&mut held, &[slide(2)], -1_000, None), Err(Wait::After(3_600_000)));
    assert_eq!(decided(&mut held, &[slide(2)], 5_000, None), Err(Wait::After(3_599_995)));
}

#[test]
fn a_position_that_a_refund_empties_goes_unless_it_is_asked_for() {
    let bucket = Rule::Token(Bucket::new(10, 1, 3_600_000).expect("settings"));
    let bucket = Ask { rule: bucket, cost: 1, shadow: false };
    for (last, left) in [(1, 1), (2, 2)] {
        let mut held = None;
        let asks = [bucket, slide(5)];
        assert_eq!(decided(&mut held, &asks, 0, None), Ok(()));
        assert_eq!(decided(&mut held, &asks[..last], 1_000, None), Ok(()));
        let mut limiter = held.expect("a key");
        let given = refund(&limiter, Costs(&[0, 5]), None, START + 2_000).expect("whole");
        let write = given.and_then(|g| g.write).expect("gives back");
        write.update(&mut limiter);
        assert_eq!(limiter.list().expect("whole").slots.len(), left, "asked for {last}");
        assert_eq!(kept_rules(&limiter, START + 2_000).expect("whole").len(), left);
    }
}

#[test]
fn numbers_of_every_length_come_back() {
    for bits in 0..128 {
        for value in [1_u128 << bits, (1_u128 << bits) - 1, u128::MAX >> bits] {
            let mut out = Bytes::default();
            out.u128(value);
            assert_eq!(Reader(out.as_slice()).u128(), Some(value), "{value:#x}");
        }
    }
}
