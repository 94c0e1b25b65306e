use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;

fn top(size: usize) -> Top {
    Top { seed: 42, sketch: Sketch::new(size, 42), ..Top::new(size) }
}

fn rows(top: &Top, count: usize) -> Vec<(String, u64, i32)> {
    let text = |row: Row| (String::from_utf8_lossy(&row.key).into_owned(), row.denied, row.db);
    top.most_denied(count).into_iter().map(text).collect()
}

/// Keys drawn by Zipf's law: the n-th most frequent comes 1/n^s as often as the first.
struct Zipf {
    sums: Vec<f64>,
    rng: StdRng,
}

impl Zipf {
    fn new(keys: i32, s: f64, seed: u64) -> Self {
        let add = |sum: &mut f64, n: i32| {
            *sum += f64::from(n).powf(-s);
            Some(*sum)
        };
        let sums = (1..=keys).scan(0.0, add).collect();
        Self { sums, rng: StdRng::seed_from_u64(seed) }
    }

    fn draw(&mut self) -> usize {
        let x = self.rng.random_range(0.0..*self.sums.last().unwrap());
        self.sums.partition_point(|sum| *sum <= x)
    }
}

#[test]
fn counts_are_exact_while_all_keys_fit() {
    let mut top = top(100);
    let mut truth = HashMap::new();
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..100_000 {
        // Some keys differ by database alone.
        let (key, db) = (rng.random_range(0..50_u32).pow(2) % 50, rng.random_range(0..2));
        *truth.entry((key, db)).or_insert(0_u64) += 1;
        top.denied(db, format!("user:{key}").as_bytes());
    }
    top.list.assert_whole();
    assert!(truth.len() > 20);
    let all = rows(&top, usize::MAX);
    assert_eq!(all.len(), truth.len());
    for ((key, db), denied) in truth {
        assert!(all.contains(&(format!("user:{key}"), denied, db)), "{key} {db} {denied}");
    }
    assert!(all.windows(2).all(|pair| pair[0].1 >= pair[1].1));
    assert_eq!(rows(&top, 3), all[..3]);
}

/// Over several shapes of traffic: the true top 10 are the listed top 10, no count is above the truth,
/// and none of the ten is more than 1 % + 10 below it.
#[test]
fn skewed_traffic_shows_its_true_top() {
    for (s, seed) in [(0.8, 1), (1.0, 2), (1.2, 3), (1.5, 4)] {
        let mut zipf = Zipf::new(200_000, s, seed);
        let mut top = top(128);
        let mut truth = vec![0_u64; 200_000];
        for _ in 0..2_000_000 {
            let key = zipf.draw();
            truth[key] += 1;
            top.denied(0, format!("key:{key}").as_bytes());
        }
        top.list.assert_whole();
        let number = |name: &str| name[4..].parse::<usize>().unwrap();
        let all = rows(&top, 128);
        assert_eq!(all.len(), 128);
        for (name, denied, _) in &all {
            assert!(*denied <= truth[number(name)], "{s}: {name} {denied}");
        }
        let mut order: Vec<usize> = (0..truth.len()).collect();
        order.sort_by_key(|key| Reverse(truth[*key]));
        let mut found: Vec<usize> = all[..10].iter().map(|row| number(&row.0)).collect();
        found.sort_by_key(|key| Reverse(truth[*key]));
        assert_eq!(found, order[..10], "{s}");
        for (name, denied, _) in &all[..10] {
            let short = truth[number(name)] - denied;
            assert!(short <= truth[number(name)] / 100 + 10, "{s}: {name} is {short} short");
        }
    }
}

/// One denial in two hundred hits one of five keys, all others a key of their own, and the list was full of
/// those before: the five are found.
#[test]
fn few_heavy_keys_are_found_in_a_flood() {
    let mut top = top(10);
    let mut rng = StdRng::seed_from_u64(5);
    let mut truth = [0_u64; 5];
    for n in 0..1_000_000_u32 {
        if n > 1000 && rng.random_ratio(1, 200) {
            let key = rng.random_range(0..5);
            truth[key] += 1;
            top.denied(0, format!("heavy:{key}").as_bytes());
        } else {
            top.denied(0, format!("random:{n}").as_bytes());
        }
    }
    top.list.assert_whole();
    for (name, denied, _) in rows(&top, 5) {
        let number: usize = name.strip_prefix("heavy:").expect("a heavy key").parse().unwrap();
        assert!(denied <= truth[number] && denied * 10 > truth[number] * 9, "{name}: {denied}");
    }
}

#[test]
fn keys_that_come_once_enter_a_full_list_no_more() {
    let mut top = top(10);
    for n in 0..10 {
        top.denied(0, format!("early:{n}").as_bytes());
    }
    for n in 0..100_000 {
        top.denied(0, format!("random:{n}").as_bytes());
    }
    let all = rows(&top, 10);
    assert!(all.iter().all(|row| row.0.starts_with("early:") && row.1 == 1), "{all:?}");
}

#[test]
fn long_keys_are_bounded_and_told_apart() {
    let mut top = top(10);
    let long = |last: u8| [vec![b'x'; 1_000_000], vec![last]].concat();
    for (key, times) in [(long(1), 3), (long(2), 2), (vec![b'x'; KEPT_BYTES], 1)] {
        (0..times).for_each(|_| top.denied(0, &key));
    }
    assert_eq!(top.list.key_bytes(), 3 * KEPT_BYTES);
    let all = top.most_denied(10);
    assert_eq!(all.iter().map(|row| row.denied).collect::<Vec<_>>(), [3, 2, 1]);
    assert!(all.iter().all(|row| row.key.len() == KEPT_BYTES));
}

#[test]
fn any_bytes_are_keys() {
    let mut top = top(300);
    let keys: Vec<Vec<u8>> = (0..=255_usize).map(|n| vec![0; n]).collect();
    for (times, key) in keys.iter().enumerate() {
        (0..=times).for_each(|_| top.denied(-1, key));
    }
    let all = top.most_denied(300);
    assert_eq!(all.len(), 256);
    for (row, key) in all.iter().zip(keys.iter().rev()) {
        assert_eq!((&row.key, row.db), (key, -1));
        assert_eq!(row.denied, key.len() as u64 + 1);
    }
}

#[test]
fn another_size_keeps_what_it_has_room_for() {
    let mut top = top(20);
    for n in 1..=20 {
        (0..n).for_each(|_| top.denied(0, format!("key:{n}").as_bytes()));
    }
    let all = rows(&top, 20);
    let mut kept = Some(Box::new(top));
    for (size, rest) in [(30, 20), (5, 5), (5, 5), (8, 5), (1, 1)] {
        assert!(fit(&mut kept, size));
        let top = kept.as_ref().unwrap();
        top.list.assert_whole();
        assert_eq!(rows(top, 100), all[..rest], "{size}");
    }
    // They are still known, and still outnumber newcomers.
    let top = kept.as_mut().unwrap();
    top.denied(0, b"key:20");
    (0..15).for_each(|_| top.denied(0, b"new"));
    assert_eq!(rows(top, 10), [("key:20".to_owned(), 21, 0)]);
    (0..7).for_each(|_| top.denied(0, b"new"));
    assert_eq!(rows(top, 10), [("new".to_owned(), 22, 0)]);
    assert!(!fit(&mut kept, 0));
    assert!(kept.is_none());
}

/// Of two keys that take turns at the edge of the list, both keep their counts.
#[test]
fn a_key_that_leaves_takes_its_count_along() {
    let mut top = top(1);
    for n in 1..=1000 {
        top.denied(0, b"a");
        top.denied(0, b"b");
        top.denied(0, b"b");
        top.denied(0, b"a");
        let all = rows(&top, 1);
        assert_eq!(all[0].1, 2 * n, "{all:?}");
    }
}

#[test]
fn hashes_differ_where_keys_do() {
    let mut seen = std::collections::HashSet::new();
    for db in 0..4 {
        for len in 0..40_usize {
            for fill in [0, 1, 255] {
                let mut key = vec![fill; len];
                seen.insert(hash(7, db, &key));
                if let Some(last) = key.last_mut() {
                    *last = 7;
                    seen.insert(hash(7, db, &key));
                }
                if let Some(first) = key.first_mut() {
                    *first = 9;
                    seen.insert(hash(7, db, &key));
                }
            }
        }
    }
    // Of each length: three fills, with and without another last byte, and with another first byte too.
    // The empty key is one, of one byte there are five, and of two bytes [9, 7] comes three times.
    assert_eq!(seen.len(), 4 * (1 + 5 + 7 + 37 * 9));
}

/// Prints what a denial costs; `cargo test --release -- --ignored --nocapture denials_cost`.
#[test]
#[ignore = "measures"]
fn denials_cost() {
    for size in [128, 10_000] {
        let names = |count: usize| -> Vec<String> {
            (0..count).map(|n| format!("rate:user:{:08}", n * 7919)).collect()
        };
        for (what, keys) in [("listed", names(100)), ("flood", names(1_000_000))] {
            let mut shared = lock();
            *shared = Some(Box::new(top(size)));
            drop(shared);
            let denied = |key: &String| {
                let mut shared = lock();
                shared.as_mut().unwrap().denied(0, key.as_bytes());
            };
            keys.iter().for_each(denied);
            let start = std::time::Instant::now();
            let rounds = 5_000_000 / keys.len();
            (0..rounds).for_each(|_| keys.iter().for_each(denied));
            let each = start.elapsed().as_nanos() / (rounds * keys.len()) as u128;
            println!("{size} keys, {what}: {each} ns");
        }
    }
}
