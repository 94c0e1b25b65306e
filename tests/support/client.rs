//! A thin client: the `redis` crate packs commands and parses replies, nothing is converted, retried or hidden.

use std::io::{Read, Write};
use std::net::TcpStream;

use redis::{Parser, Value};

use super::wait::patience;

/// One connection. Errors from the server are values ([`Value::ServerError`]), as are RESP3 pushes, which
/// are kept apart in `pushes`.
pub struct Client {
    stream: TcpStream,
    parser: Parser,
    pub pushes: Vec<Value>,
}

impl Client {
    pub fn connect(port: u16) -> Client {
        Client::try_connect(port).unwrap_or_else(|e| panic!("connect to port {port}: {e}"))
    }

    pub fn try_connect(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        // Longer than anything a test asks of a server; a reply that never comes fails the test.
        stream.set_read_timeout(Some(patience(60)))?;
        Ok(Client { stream, parser: Parser::new(), pushes: Vec::new() })
    }

    /// Speaks RESP2 or RESP3 from here on.
    pub fn hello(&mut self, protocol: u8) {
        let reply = self.call(&format!("HELLO {protocol}"));
        assert!(matches!(reply, Value::Map(_) | Value::Array(_)), "HELLO: {}", show(&reply));
    }

    /// Sends one command given as words and returns its reply.
    pub fn run<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Value {
        self.send(words);
        self.receive()
    }

    /// Sends a command line (split at spaces) and returns its reply.
    pub fn call(&mut self, line: &str) -> Value {
        self.run(&split(line))
    }

    /// As [`Client::call`]; an error reply fails the test.
    #[track_caller]
    pub fn ok(&mut self, line: &str) -> Value {
        let reply = self.call(line);
        assert!(!is_error(&reply), "{line}: {}", show(&reply));
        reply
    }

    /// The six integers of a decision reply (of the first part, where the reply has per-rule rows).
    #[track_caller]
    pub fn six(&mut self, line: &str) -> [i64; 6] {
        let reply = self.call(line);
        six(&reply).unwrap_or_else(|| panic!("{line}: not a decision: {}", show(&reply)))
    }

    /// The integer that a command answers.
    #[track_caller]
    pub fn int(&mut self, line: &str) -> i64 {
        match self.call(line) {
            Value::Int(n) => n,
            other => panic!("{line}: not an integer: {}", show(&other)),
        }
    }

    /// The text that a command answers (bulk, simple or verbatim).
    #[track_caller]
    pub fn text(&mut self, line: &str) -> String {
        let reply = self.call(line);
        text(&reply).unwrap_or_else(|| panic!("{line}: not a text: {}", show(&reply)))
    }

    /// The error text that a command answers; any other reply fails the test.
    #[track_caller]
    pub fn error(&mut self, line: &str) -> String {
        let reply = self.call(line);
        error(&reply).unwrap_or_else(|| panic!("{line}: not an error: {}", show(&reply)))
    }

    /// A field of INFO, from the section that holds it.
    pub fn info(&mut self, section: &str, field: &str) -> Option<String> {
        let all = self.text(&format!("INFO {section}"));
        let prefix = format!("{field}:");
        all.lines().find_map(|line| line.strip_prefix(&prefix)).map(|v| v.trim().to_owned())
    }

    /// A numeric field of INFO; 0 where it is absent.
    pub fn info_int(&mut self, section: &str, field: &str) -> i64 {
        self.info(section, field).and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    /// A setting as CONFIG GET shows it.
    pub fn config(&mut self, name: &str) -> Option<String> {
        match self.run(&["CONFIG", "GET", name]) {
            Value::Array(pair) => pair.get(1).and_then(text),
            Value::Map(pairs) => pairs.first().and_then(|(_, v)| text(v)),
            other => panic!("CONFIG GET: {}", show(&other)),
        }
    }

    /// Sends without waiting, for pipelines.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        self.try_send(words).expect("send");
    }

    /// As [`Client::send`]; nothing if the server has closed the connection.
    pub fn try_send<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Option<()> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word.as_ref());
        }
        self.stream.write_all(&command.get_packed_command()).ok()
    }

    /// Sends many command lines in one write, then reads all replies.
    pub fn pipeline<S: AsRef<str>>(&mut self, lines: &[S]) -> Vec<Value> {
        let mut packed = Vec::new();
        for line in lines {
            let mut command = redis::Cmd::new();
            for word in split(line.as_ref()) {
                command.arg(word);
            }
            packed.extend(command.get_packed_command());
        }
        self.stream.write_all(&packed).expect("send");
        lines.iter().map(|_| self.receive()).collect()
    }

    /// The next reply; pushes that come before it are put aside.
    pub fn receive(&mut self) -> Value {
        loop {
            match self.parser.parse_value(&mut self.stream).expect("reply") {
                push @ Value::Push { .. } => self.pushes.push(push),
                reply => return reply,
            }
        }
    }

    /// As [`Client::receive`], but tells when the server has closed the connection.
    pub fn try_receive(&mut self) -> Option<Value> {
        self.parser.parse_value(&mut self.stream).ok()
    }

    /// The raw socket, for a connection that stops speaking RESP (a replica's).
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// A second handle on the socket, for reading in another thread.
    pub fn raw(&mut self) -> &mut (impl Read + Write) {
        &mut self.stream
    }
}

/// Splits a command line at spaces. `""` is the empty word, `\0` a NUL byte, `\_` a space, `\xHH` any byte.
pub fn split(line: &str) -> Vec<Vec<u8>> {
    line.split_whitespace().map(word).collect()
}

fn word(text: &str) -> Vec<u8> {
    if text == "\"\"" {
        return Vec::new();
    }
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'\\', [mark @ (b'0' | b'_'), after @ ..]) => {
                bytes.push(if *mark == b'0' { 0 } else { b' ' });
                rest = after;
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two hex digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("two hex digits"));
                rest = after;
            }
            _ => bytes.push(first),
        }
    }
    bytes
}

/// All leading integers of an array reply.
pub fn ints(reply: &Value) -> Vec<i64> {
    let Value::Array(items) = reply else {
        return Vec::new();
    };
    items.iter().map_while(|item| if let Value::Int(n) = item { Some(*n) } else { None }).collect()
}

/// The decision in a reply: exactly six integers, then at most one array of rows.
pub fn six(reply: &Value) -> Option<[i64; 6]> {
    let Value::Array(items) = reply else {
        return None;
    };
    let tail_fits = matches!(items.get(6..)?, [] | [Value::Array(_)]);
    ints(reply).try_into().ok().filter(|_| tail_fits)
}

/// The per-rule rows of CHARGE, MCHARGE, PEEK and REFUND.
pub fn layers(reply: &Value) -> Option<Vec<[i64; 6]>> {
    let Value::Array(items) = reply else {
        return None;
    };
    let Some(Value::Array(rows)) = items.get(6) else {
        return None;
    };
    rows.iter().map(six).collect()
}

pub fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
}

/// The text of an error reply, code first, as it stood on the wire.
pub fn error(reply: &Value) -> Option<String> {
    let Value::ServerError(e) = reply else {
        return None;
    };
    Some(match e.details() {
        Some(details) => format!("{} {details}", e.code()),
        None => e.code().to_owned(),
    })
}

pub fn text(reply: &Value) -> Option<String> {
    match reply {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(s) => Some(s.clone()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".into()),
        _ => None,
    }
}

/// A list of texts, whether the reply is an array or a set.
pub fn texts(reply: &Value) -> Vec<String> {
    match reply {
        Value::Array(items) | Value::Set(items) => items.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

/// The pairs of a map: a map in RESP3, a flat array in RESP2.
pub fn pairs(reply: &Value) -> Vec<(String, Value)> {
    let key = |k: &Value| text(k).unwrap_or_default();
    match reply {
        Value::Map(pairs) => pairs.iter().map(|(k, v)| (key(k), v.clone())).collect(),
        Value::Array(flat) => {
            flat.chunks(2).filter(|c| c.len() == 2).map(|c| (key(&c[0]), c[1].clone())).collect()
        }
        _ => Vec::new(),
    }
}

/// One entry of a map reply.
pub fn entry(reply: &Value, name: &str) -> Option<Value> {
    pairs(reply).into_iter().find(|(k, _)| k == name).map(|(_, v)| v)
}

/// A reply as a person reads it, for messages of failed tests.
pub fn show(reply: &Value) -> String {
    match reply {
        Value::Nil => "nil".into(),
        Value::Int(n) => n.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(show).collect();
            format!("[{}]", items.join(" "))
        }
        Value::ServerError(_) => error(reply).unwrap_or_default(),
        other => text(other).unwrap_or_else(|| format!("{other:?}")),
    }
}

/// The keyspace events that `line` causes, as `event key`, for a `subscriber` to the pattern `*`.
pub fn events(client: &mut Client, subscriber: &mut Client, line: &str) -> Vec<String> {
    client.call(line);
    client.ok("PUBLISH end x");
    let mut seen = Vec::new();
    loop {
        let message = subscriber.receive();
        let words = texts(&message);
        match words.as_slice() {
            [_, _, channel, _] if channel == "end" => return seen,
            [_, _, channel, key] => {
                seen.push(format!("{} {key}", channel.trim_start_matches("__keyevent@0__:")));
            }
            _ => panic!("not a message: {}", show(&message)),
        }
    }
}
