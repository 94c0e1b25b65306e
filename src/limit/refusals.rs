//! What is refused when bytes or settings are read, condition by condition: one step inside each
//! bound is taken, one step outside is not.

use super::bytes::{size, Bytes, Reader};
use super::change::{apply, Refused};
use super::codec::{self, Trail};
use super::level::MAX_LEVEL;
use super::log::Log;
use super::{Bucket, Fixed, Limiter, Slide};
use super::{MAX_AMOUNT, MAX_COUNT, MAX_DURATION_MS, MAX_OFFSET_MS, MAX_RESET_MS};

const STATE: u8 = 4;
const OPTION: u8 = 8;
const WIDE: u8 = 16;
const TOKEN: u8 = 0;
const SLIDE: u8 = 2;
const FIXED: u8 = 3;

fn bytes(write: impl FnOnce(&mut Bytes)) -> Vec<u8> {
    let mut out = Bytes::default();
    write(&mut out);
    out.as_slice().to_vec()
}

/// A rule as it is stored: its tag, the numbers a to d, and what follows them.
fn slot(tag: u8, [a, b, c, d]: [u64; 4], rest: &[u8]) -> Vec<u8> {
    bytes(|out| {
        out.byte(tag);
        out.byte((size(a) | size(b) << 4) as u8);
        out.byte((size(c) | size(d) << 4) as u8);
        [a, b, c, d].iter().for_each(|n| out.le(*n, size(*n)));
        out.bytes(rest);
    })
}

fn one(tag: u8, numbers: [u64; 4], rest: &[u8]) -> bool {
    let packed = [&[0x10][..], &slot(tag, numbers, rest)].concat();
    let read = codec::unpack(&packed).is_some();
    assert_eq!(codec::unpack_one(&packed).is_some(), read, "{packed:?}");
    read
}

/// `(place, name)` each, and the bytes of the versions.
fn list(flags: u8, count: u64, asked: u64, names: &[u8], versions: &[u8]) -> bool {
    let packed = bytes(|out| {
        out.byte(0x10 | flags);
        if flags & 1 != 0 {
            out.u64(count);
            out.u64(asked);
        }
        if flags & 2 != 0 {
            for part in [names, versions] {
                out.size(part.len());
                out.bytes(part);
            }
        }
        for _ in 0..count {
            out.bytes(&slot(FIXED, [5, 60_000, 0, 0], &[]));
        }
    });
    let read = codec::unpack(&packed);
    assert_eq!(codec::unpack_each(&packed, |_| Some(())).is_some(), read.is_some());
    assert_eq!(codec::unpack_trail(&packed).is_some(), read.is_some());
    read.is_some()
}

#[test]
fn settings_outside_their_bounds() {
    // 3650 days, 7 days and 36500 days in milliseconds; 2^62.
    assert_eq!(MAX_DURATION_MS, 315_360_000_000);
    assert_eq!(MAX_OFFSET_MS, 604_800_000);
    assert_eq!(MAX_RESET_MS, 3_153_600_000_000);
    assert_eq!(MAX_COUNT, 4_611_686_018_427_387_904);
    let (amount, duration) = (MAX_AMOUNT, MAX_DURATION_MS);
    for (n, ok) in [(0, false), (1, true), (amount, true), (amount + 1, false)] {
        assert_eq!(Bucket::new(n, amount, 1).is_some(), ok, "capacity {n}");
        assert_eq!(Bucket::new(1, n, 1).is_some(), ok, "rate {n}");
        assert_eq!(Slide::new(n, 1, None).is_some(), ok, "limit {n}");
        assert_eq!(Fixed::new(n, 1, None).is_some(), ok, "limit {n}");
    }
    for (n, ok) in [(0, false), (1, true), (duration, true), (duration + 1, false)] {
        assert_eq!(Bucket::new(1, 1, n).is_some(), ok, "period {n}");
        assert_eq!(Slide::new(1, n, None).is_some(), ok, "window {n}");
        assert_eq!(Fixed::new(1, n, None).is_some(), ok, "window {n}");
    }
    for (n, ok) in [(0, false), (1, true), (1000, true), (1001, false)] {
        assert_eq!(Slide::new(1, 1, Some(n)).is_some(), ok, "blocks {n}");
    }
    let offset = MAX_OFFSET_MS.cast_signed();
    for (n, ok) in [(offset, true), (-offset, true), (offset + 1, false), (-offset - 1, false)] {
        assert_eq!(Fixed::new(1, 1, Some(n)).is_some(), ok, "offset {n}");
    }
    // Full again within 36500 days, to the millisecond.
    let slow = MAX_RESET_MS / MAX_DURATION_MS;
    assert!(Bucket::new(slow, 1, MAX_DURATION_MS).is_some());
    assert!(Bucket::new(slow + 1, 1, MAX_DURATION_MS).is_none());
    assert!(Bucket::new(MAX_RESET_MS, 1_000, 1_000).is_none());
    assert!(Bucket::new(MAX_RESET_MS / 1_000, 1, 1_000).is_some());
}

#[test]
fn states_that_no_rule_has() {
    let bucket = |d: u64| [100, 10, 1000, d];
    let mark = [0; 8];
    assert!(one(TOKEN, bucket(0), &[]));
    assert!(!one(TOKEN, bucket(1), &[]), "used without a mark");
    assert!(!one(TOKEN | OPTION, bucket(0), &[]), "a cut without a state");
    assert!(!one(TOKEN | WIDE, bucket(0), &[]), "high bits without a state");
    assert!(!one(TOKEN | 32, bucket(0), &[]), "a flag that is none");
    let deepest = 2 * 100 * 1_000_000;
    assert!(one(TOKEN | STATE, bucket(deepest), &mark));
    assert!(!one(TOKEN | STATE, bucket(deepest + 1), &mark), "deeper than a bucket is");
    assert!(!one(TOKEN | STATE, bucket(1), &mark[..7]), "half a mark");
    assert!(!one(TOKEN | STATE, bucket(1), &[0; 9]), "more than a mark");
    // The high half of what is used, of a bucket that needs one.
    let large = |d: u64| [MAX_AMOUNT, MAX_AMOUNT, MAX_DURATION_MS, d];
    let wide = |high: u64| [mark, high.to_le_bytes()].concat();
    assert!(one(TOKEN | STATE | WIDE, large(1), &wide(1)));
    assert!(!one(TOKEN | STATE | WIDE, large(1), &wide(0)), "high bits of which there are none");
    assert!(!one(TOKEN | STATE | WIDE, large(1), &wide(1 << 40)), "deeper than a bucket is");
    let cut = |n: u128| [mark.to_vec(), bytes(|out| out.u128(n))].concat();
    assert!(one(TOKEN | STATE | OPTION, bucket(1), &cut(1)));
    assert!(one(TOKEN | STATE | OPTION, bucket(1), &cut(MAX_LEVEL)));
    assert!(!one(TOKEN | STATE | OPTION, bucket(1), &cut(MAX_LEVEL + 1)), "a cut too large");
    assert!(!one(TOKEN | STATE | OPTION, bucket(1), &cut(0)), "a cut of which there is none");

    let window = |c: u64, d: u64| [5, 60_000, c, d];
    assert!(one(FIXED, window(0, 0), &[]));
    assert!(one(FIXED | OPTION, window(0, 0), &[]));
    assert!(one(FIXED | OPTION, window(2, 0), &[]));
    assert!(!one(FIXED, window(2, 0), &[]), "an offset without ALIGN");
    assert!(!one(FIXED, window(0, 1), &[]), "a count without a window");
    assert!(!one(FIXED | WIDE, window(0, 0), &[]), "high bits of a count");
    assert!(!one(FIXED | WIDE | STATE, window(0, 1), &mark), "high bits of a count");
    assert!(one(FIXED | STATE, window(0, MAX_COUNT), &mark));
    assert!(!one(FIXED | STATE, window(0, MAX_COUNT + 1), &mark), "a count too large");

    assert!(one(SLIDE, window(0, 0), &[]));
    assert!(one(SLIDE | STATE, window(0, 0), &[]));
    assert!(one(SLIDE | OPTION, window(60, 0), &[]));
    assert!(!one(SLIDE, window(60, 0), &[]), "blocks without BLOCKS");
    assert!(!one(SLIDE | OPTION, window(0, 0), &[]), "BLOCKS without blocks");
    assert!(!one(SLIDE | OPTION, window(0x1_0001, 0), &[]), "blocks beyond 16 bits");
    assert!(!one(SLIDE, window(0, 1), &[]), "a count beside the log");
    assert!(!one(SLIDE | WIDE, window(0, 0), &[]), "high bits beside the log");
}

#[test]
fn numbers_longer_than_they_need_be() {
    // Capacity 100 in two bytes.
    let long = [0x10, TOKEN, 0x12, 0x02, 100, 0, 10, 0xe8, 3];
    assert!(codec::unpack(&long).is_none());
    assert_eq!(Reader(&[0x80, 0]).u64(), None);
    assert_eq!(Reader(&[0]).u64(), Some(0));
    for value in [0, 1, 127, 128, u64::MAX - 1, u64::MAX] {
        for wide in [u128::from(value), u128::from(value) << 64 | 5, u128::MAX - u128::from(value)]
        {
            let written = bytes(|out| out.u128(wide));
            assert_eq!(Reader(&written).u128(), Some(wide));
            assert_eq!(Reader(&written).u64(), u64::try_from(wide).ok());
        }
        let written = bytes(|out| out.i64(value.cast_signed()));
        assert_eq!(Reader(&written).i64(), Some(value.cast_signed()));
    }
    // One bit more than 128.
    let mut beyond = [0xff_u8; 19];
    beyond[18] = 0x04;
    assert_eq!(Reader(&beyond).u128(), None);
    beyond[18] = 0x03;
    assert_eq!(Reader(&beyond).u128(), Some(u128::MAX));
    assert_eq!(Reader(&[0xff; 40]).u128(), None);
}

#[test]
fn heads_that_no_list_has() {
    let none = (&[][..], &[][..]);
    assert!(list(1, 2, 1, none.0, none.1));
    assert!(list(1, 16, 16, none.0, none.1));
    assert!(!list(1, 17, 16, none.0, none.1), "too many rules");
    assert!(!list(1, 0, 0, none.0, none.1), "no rule");
    assert!(!list(1, 2, 0, none.0, none.1), "none asked for");
    assert!(!list(1, 2, 3, none.0, none.1), "more asked for than there are");
    assert!(!list(1, 1, 1, none.0, none.1), "the long form of a short list");
    for flags in [4, 8, 2] {
        assert!(!list(flags, 1, 1, &[0, 1, b'a'], &[7]), "flags {flags}");
    }
    assert!(codec::unpack(&[&[0x20][..], &slot(FIXED, [5, 60_000, 0, 0], &[])].concat()).is_none());
    assert!(codec::unpack(&[]).is_none());

    assert!(list(3, 1, 1, &[0, 1, b'a'], &[7]));
    assert!(list(3, 3, 2, &[0, 1, b'a', 1, 2, b'b', b'c'], &[7, 8]));
    assert!(!list(3, 3, 2, &[0, 1, b'a', 2, 1, b'b'], &[7, 8]), "a place that was not asked for");
    assert!(!list(3, 3, 2, &[1, 1, b'a', 0, 1, b'b'], &[7, 8]), "places out of order");
    assert!(!list(3, 3, 2, &[0, 1, b'a', 0, 1, b'b'], &[7, 8]), "a place twice");
    assert!(!list(3, 1, 1, &[0, 0], &[7]), "an empty name");
    let name = |len: u8| [vec![0, len], vec![b'a'; usize::from(len)]].concat();
    assert!(list(3, 1, 1, &name(64), &[7]));
    assert!(!list(3, 1, 1, &name(65), &[7]), "a name too long");
    assert!(!list(3, 1, 1, &[0, 2, b'a'], &[7]), "a name cut short");
    assert!(!list(3, 1, 1, &[0, 1, b'a', 0], &[7]), "half a place");
    assert!(!list(3, 1, 1, &[0, 1, b'a'], &[]), "no version");
    assert!(!list(3, 1, 1, &[0, 1, b'a'], &[7, 8]), "a version too many");
    assert!(!list(3, 1, 1, none.0, none.1), "names of which there are none");
    assert!(!list(3, 1, 1, none.0, &[7]), "a version of nothing");
    let trail = Trail { names: &[0, 1, b'a', 1, 2, b'b', b'c'], versions: &[7, 8] };
    let each: Vec<_> = trail.each().collect();
    assert_eq!(each, [(0, &b"a"[..]), (1, b"bc")]);
}

/// A log of `(step, cost)` each, as it is stored.
fn stored(entries: &[(i64, u64)]) -> Option<Log> {
    let written = bytes(|out| {
        out.size(entries.len());
        for (step, cost) in entries {
            out.i64(*step);
            out.u64(*cost);
        }
    });
    codec::read_log(&mut Reader(&written))
}

#[test]
fn logs_that_cannot_be() {
    assert_eq!(stored(&[(5, 2), (1, 3)]).map(|log| (log.len(), log.total())), Some((2, 5)));
    assert!(stored(&[]).is_none(), "an empty log");
    assert!(stored(&[(5, 2), (0, 3)]).is_none(), "a stamp twice");
    assert!(stored(&[(5, 2), (-1, 3)]).is_none(), "stamps out of order");
    assert!(stored(&[(5, 0)]).is_none(), "an entry without cost");
    assert!(stored(&[(5, MAX_COUNT)]).is_some());
    assert!(stored(&[(5, MAX_COUNT + 1)]).is_none(), "a cost too large");
    assert!(stored(&[(5, MAX_COUNT - 1), (1, 1)]).is_some());
    assert!(stored(&[(5, MAX_COUNT), (1, 1)]).is_none(), "a total too large");
    for side in [1, -1] {
        assert!(stored(&[(side << 52, 1)]).is_some());
        assert!(stored(&[((side << 52) + side, 1)]).is_none(), "a stamp too far away");
    }
    assert!(codec::read_log(&mut Reader(&[2, 2, 1])).is_none(), "shorter than it says");
    assert!(codec::read_log(&mut Reader(&[0xff, 0xff, 0xff, 0xff, 0x0f, 2, 1])).is_none());
}

/// A limiter of one SLIDE rule with two entries, of cost 2 and 3 at 5 and 6 ms.
fn logged() -> Limiter {
    let packed = [&[0x10][..], &slot(SLIDE | STATE, [9, 60_000, 0, 0], &[])].concat();
    let log = stored(&[(5, 2), (1, 3)]).expect("a log");
    Limiter::new(&packed, vec![log])
}

/// A change of that limiter with this part for its log.
fn changed(part: &[u8]) -> Result<(u64, usize), Refused> {
    let packed = [&[0x10][..], &slot(SLIDE | STATE, [9, 60_000, 0, 0], &[])].concat();
    let blob = [&[0][..], &packed, part].concat();
    let mut held = logged();
    let applied = apply(&blob, Some(&mut held));
    if applied.is_err() {
        assert_eq!(held, logged(), "changed by what was refused");
    }
    applied.map(|done| (done.limiter.logs()[0].total(), done.limiter.logs()[0].len()))
}

#[test]
fn changes_of_another_state() {
    let totals = [2, 5, 12];
    let part = |kind: u8, totals: &[u8], rest: &[u8]| [&[kind][..], totals, rest].concat();
    assert_eq!(changed(&part(0, &totals, &[])), Ok((5, 2)));
    for wrong in [[1, 5, 12], [2, 4, 12], [2, 5, 10]] {
        assert_eq!(changed(&part(0, &wrong, &[])), Err(Refused::OtherState), "{wrong:?}");
        assert_eq!(changed(&part(2, &wrong, &[0, 0])), Err(Refused::OtherState), "{wrong:?}");
    }
    // Drop one; add 4 at the newest stamp, and at a later one.
    assert_eq!(changed(&part(2, &totals, &[0, 1])), Ok((3, 1)));
    assert_eq!(changed(&part(2, &totals, &[8, 0, 0, 4])), Ok((9, 2)));
    assert_eq!(changed(&part(2, &totals, &[8, 0, 2, 4])), Ok((9, 3)));
    // Moved along with the newest entry.
    assert_eq!(changed(&part(2, &totals, &[8 | 16, 0, 2, 4])), Ok((9, 2)));
    // Take 1 off the newest of the first one.
    assert_eq!(changed(&part(2, &totals, &[4, 0, 1, 1])), Ok((4, 2)));
    // The second entry at an earlier stamp.
    assert_eq!(changed(&part(2, &totals, &[1, 1, 1, 0])), Ok((5, 1)));
    assert_eq!(changed(&part(2, &totals, &[0, 2])), Err(Refused::OtherState), "nothing is left");
    assert_eq!(changed(&part(2, &totals, &[4, 0, 2, 5])), Err(Refused::OtherState));
    assert_eq!(
        changed(&part(2, &totals, &[32, 0])),
        Err(Refused::Malformed),
        "a flag that is none"
    );
    assert_eq!(changed(&part(3, &totals, &[])), Err(Refused::Malformed), "a part that is none");
    assert_eq!(changed(&part(0, &totals, &[0])), Err(Refused::Malformed), "a byte too many");
    assert_eq!(changed(&part(0, &totals[..2], &[])), Err(Refused::Malformed), "cut short");
    assert_eq!(changed(&[]), Err(Refused::Malformed), "a log without a part");
    for flags in [1, 8] {
        let far = bytes(|out| {
            out.byte(flags);
            if flags == 1 {
                out.size(1);
                out.i64(1 << 53);
                out.size(0);
            } else {
                out.size(0);
                out.i64(1 << 53);
                out.u64(1);
            }
        });
        assert_eq!(changed(&part(2, &totals, &far)), Err(Refused::Malformed), "flags {flags}");
    }
    // The head of a change.
    let fresh = slot(FIXED, [5, 60_000, 0, 0], &[]);
    for (head, ok) in
        [(&[0][..], true), (&[1, 4], true), (&[2], false), (&[], false), (&[1], false)]
    {
        let blob = [head, &[0x10], &fresh].concat();
        assert_eq!(apply(&blob, None).is_ok(), ok, "{head:?}");
    }
    let blob =
        [&[0, 0x10][..], &slot(SLIDE | STATE, [9, 60_000, 0, 0], &[]), &[0, 2, 5, 12]].concat();
    assert_eq!(apply(&blob, None).err(), Some(Refused::OtherState), "a log that is not there");
}
