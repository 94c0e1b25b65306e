//! Calls as text, one a line, the words of each apart by one blank. What is no call is skipped:
//!
//! ```text
//!   +1500, -7   the clock goes on, or back, by microseconds
//!   ~-1         the clock goes on by the first wait of the last reply, and by microseconds
//!   EXPIRE      keys whose TTL is over go
//!   RELOAD      all values are saved and loaded
//!   REWRITE     the replica starts anew from whole states
//!   MAXLOG 5    what CONFIG SET rl.slide-max-log does
//! ```

use crate::pair::Pair;

/// Longer inputs find nothing that shorter ones do not.
const MOST_LINES: usize = 60;

pub fn run(data: &[u8]) {
    let mut pair = Pair::new(50);
    for line in data.split(|byte| *byte == b'\n').take(MOST_LINES) {
        let words: Vec<Vec<u8>> = line.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect();
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<i64>().ok();
        match words.as_slice() {
            [only] => match only.as_slice() {
                b"EXPIRE" => pair.expire(),
                b"RELOAD" => pair.reload(),
                b"REWRITE" => pair.rewrite(),
                [b'+' | b'-', ..] => pair.move_clock(number(only).unwrap_or(0)),
                [b'~', rest @ ..] => {
                    let wait = pair.waits.first().map_or(0, |ms| ms.saturating_mul(1000));
                    pair.move_clock(wait.saturating_add(number(rest).unwrap_or(0)));
                }
                _ => drop(pair.call(&words)),
            },
            [most, n] if most == b"MAXLOG" => {
                pair.set_max_log(number(n).unwrap_or(0).clamp(1, 1000).unsigned_abs());
            }
            [del, key] if del == b"DEL" => pair.delete(key),
            [set, key] if set == b"SET" => pair.set_string(key),
            _ => drop(pair.call(&words)),
        }
    }
}
