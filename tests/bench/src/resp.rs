//! RESP as a measuring instrument needs it: commands packed once and patched per call, replies
//! counted and not built.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Digits of a key's number.
const DIGITS: usize = 12;
/// Marks a word whose end is a key's number; `{i}` stands for the i-th of several keys.
const MARK: &str = "k:";

/// A packed command with holes for key numbers.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    /// Where the digits of each key begin.
    holes: Vec<usize>,
}

impl Template {
    /// Words split at spaces; each word `key` becomes a hole.
    pub fn new(line: &str) -> Self {
        Self::of(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub fn of(words: &[&str]) -> Self {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        let mut holes = Vec::new();
        for word in words {
            if *word == "key" {
                bytes.extend(format!("${}\r\n{MARK}", MARK.len() + DIGITS).bytes());
                holes.push(bytes.len());
                bytes.extend([b'0'; DIGITS]);
                bytes.extend(b"\r\n");
            } else {
                bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
            }
        }
        Self { bytes, holes }
    }

    /// Appends the command on the keys `first`, `first + step`, and so on, modulo `keys`.
    pub fn write(&mut self, out: &mut Vec<u8>, first: u64, keys: u64) {
        let step = keys / self.holes.len().max(1) as u64;
        for (i, hole) in self.holes.iter().enumerate() {
            let mut number = (first + step * i as u64) % keys;
            for digit in self.bytes[*hole..*hole + DIGITS].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// The name of a key as [`Template`] writes it.
pub fn key_name(number: u64) -> String {
    format!("{MARK}{number:0DIGITS$}")
}

/// Counts replies in a stream of bytes.
#[derive(Debug, Default)]
pub struct Counter {
    /// Items that the reply under way still lacks.
    open: usize,
    /// Bytes of a bulk string still to be skipped.
    skip: usize,
    line: Vec<u8>,
}

impl Counter {
    /// Takes bytes and returns how many replies end in them; an error reply is an error.
    pub fn feed(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let n = self.skip.min(bytes.len());
                self.skip -= n;
                bytes = &bytes[n..];
                if self.skip == 0 {
                    done += self.item(0);
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            done += self.head(&line)?;
            self.line = line;
            self.line.clear();
        }
        Ok(done)
    }

    fn head(&mut self, line: &[u8]) -> io::Result<usize> {
        let number = || {
            let text = std::str::from_utf8(&line[1..]).unwrap_or_default();
            text.trim_end().parse::<i64>().unwrap_or(-1)
        };
        Ok(match line.first() {
            Some(b'-') => return Err(io::Error::other(String::from_utf8_lossy(line).into_owned())),
            Some(b'$') if number() >= 0 => {
                self.skip = number() as usize + 2;
                0
            }
            Some(b'*') => self.item(number().max(0) as usize),
            _ => self.item(0),
        })
    }

    /// An item is complete, but for `inside` more that belong to it.
    fn item(&mut self, inside: usize) -> usize {
        self.open = self.open.max(1) - 1 + inside;
        usize::from(self.open == 0)
    }
}

/// A blocking connection.
pub struct Conn {
    stream: TcpStream,
    counter: Counter,
    buffer: Vec<u8>,
}

impl Conn {
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Self { stream, counter: Counter::default(), buffer: vec![0; 1 << 16] })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits for `replies` replies.
    pub fn wait(&mut self, replies: usize) -> io::Result<()> {
        let mut got = 0;
        while got < replies {
            let n = self.read()?;
            got += self.counter.feed(&self.buffer[..n])?;
        }
        assert_eq!(got, replies, "more replies than commands");
        Ok(())
    }

    fn read(&mut self) -> io::Result<usize> {
        let n = self.stream.read(&mut self.buffer)?;
        if n == 0 {
            return Err(io::Error::other("the server closed the connection"));
        }
        Ok(n)
    }

    /// One command, given as words; its reply as it came, whole.
    pub fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        let mut bytes = Vec::new();
        Template::of(words).write(&mut bytes, 0, 1);
        self.send(&bytes)?;
        let mut all = Vec::new();
        loop {
            let n = self.read()?;
            all.extend_from_slice(&self.buffer[..n]);
            if self.counter.feed(&self.buffer[..n])? > 0 {
                return Ok(String::from_utf8_lossy(&all).into_owned());
            }
        }
    }

    /// The integer that a command answers.
    pub fn int(&mut self, words: &[&str]) -> io::Result<i64> {
        let reply = self.ask(words)?;
        let number = reply.trim_start_matches(':').trim_end().parse();
        number.map_err(|_| io::Error::other(format!("{}: {reply}", words.join(" "))))
    }

    /// A field of one section of INFO, if there is such a field.
    pub fn info(&mut self, section: &str, field: &str) -> io::Result<Option<String>> {
        let all = self.ask(&["INFO", section])?;
        let value = all.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
        Ok(value.map(|v| v.trim().to_owned()))
    }

    /// A number in INFO; 0 where there is none.
    pub fn info_number(&mut self, section: &str, field: &str) -> io::Result<f64> {
        Ok(self.info(section, field)?.and_then(|v| v.parse().ok()).unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let stream = b":1\r\n*6\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n$5\r\na\r\nbc\r\n*2\r\n*1\r\n:1\r\n$-1\r\n*0\r\n+OK\r\n";
        for cut in 1..stream.len() {
            let mut counter = Counter::default();
            let (a, b) = stream.split_at(cut);
            assert_eq!(counter.feed(a).unwrap() + counter.feed(b).unwrap(), 6, "cut at {cut}");
        }
    }

    #[test]
    fn keys_are_written_into_the_holes() {
        let mut out = Vec::new();
        Template::new("RL.MCHARGE 2 key key X").write(&mut out, 7, 100);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(&key_name(7)) && text.contains(&key_name(57)), "{text}");
    }
}
