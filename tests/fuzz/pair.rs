//! One call made to everything at once: to the commands over a map, to the exact model, and, by what they
//! send, to a replica. Whatever they do not agree on is a finding.

use crate::command::spec::CommandSpec;
use crate::command::table::COMMANDS;
use crate::limit::Limiter;
use crate::model::algorithms::State;
use crate::model::gen::START_US;
use crate::model::numbers::ceil;
use crate::model::{same_error, Model, Reply};
use crate::policy;
use crate::server::{config, Call, Entry, Item, Store};
use std::rc::Rc;

const YEAR_US: i64 = 365 * 86_400_000_000;

/// A call is one line or a list of words; a word is any bytes.
pub type Words = Vec<Vec<u8>>;

/// A primary with its replica, and the model.
pub struct Pair {
    primary: Rc<Store>,
    replica: Rc<Store>,
    model: Model,
    now: i64,
    /// The clock has gone back: a TTL that was right may now be too long.
    stepped: bool,
    /// Waits of the last reply, in ms.
    pub waits: Vec<i64>,
    /// Calls so far, for whoever reads a finding.
    said: Vec<(i64, Words, Vec<Item>)>,
}

impl Pair {
    /// No keys and no policies; the largest log as given.
    pub fn new(max_log: u64) -> Self {
        policy::clear();
        let mut model = Model::new();
        model.max_policies = config::max_policies() as usize;
        let mut pair = Self {
            primary: Rc::default(),
            replica: Rc::default(),
            model,
            now: START_US,
            stepped: false,
            waits: Vec::new(),
            said: Vec::new(),
        };
        pair.set_max_log(max_log);
        pair
    }

    /// CONFIG SET rl.slide-max-log.
    pub fn set_max_log(&mut self, most: u64) {
        config::set_slide_max_log(most);
        self.model.slide_max_log = most.cast_signed();
    }

    /// Moves the clock, within centuries.
    pub fn move_clock(&mut self, by_us: i64) {
        let to = self.now.saturating_add(by_us);
        if (START_US - 40 * YEAR_US..START_US + 200 * YEAR_US).contains(&to) {
            self.stepped |= to < self.now;
            self.now = to;
        }
    }

    /// Removes the keys whose time has come, as a server does.
    pub fn expire(&mut self) {
        for name in self.primary.names() {
            let over = |at: i64| at < self.now.div_euclid(1000);
            if matches!(self.primary.get(&name), Some(Entry::Ours(_, Some(at))) if over(at)) {
                self.delete(&name);
            }
        }
    }

    /// DEL.
    pub fn delete(&mut self, name: &[u8]) {
        self.primary.set(name, None);
        self.replica.set(name, None);
        self.model.del(name);
    }

    /// SET.
    pub fn set_string(&mut self, name: &[u8]) {
        self.primary.set(name, Some(Entry::Foreign));
        self.replica.set(name, Some(Entry::Foreign));
        self.model.set_foreign(name, b"1");
    }

    /// Saves all values and loads them again, as a restart does.
    pub fn reload(&mut self) {
        for name in self.primary.names() {
            if let Some(Entry::Ours(limiter, at)) = self.primary.get(&name) {
                let again = Limiter::decode(&saved(&limiter)).expect("what was saved loads");
                assert_eq!(saved(&again), saved(&limiter), "another value after a reload");
                self.primary.set(&name, Some(Entry::Ours(again, at)));
            }
        }
        let policies = policy::save(true);
        assert!(policy::load(&policies), "saved policies do not load");
        assert_eq!(policy::save(true), policies);
    }

    /// Makes the replica anew from whole states, as a rewritten AOF does.
    pub fn rewrite(&mut self) {
        self.replica = Rc::default();
        for name in self.primary.names() {
            match self.primary.get(&name) {
                Some(Entry::Ours(limiter, at)) => {
                    let mut blob = Vec::new();
                    limiter.encode_full_op(&mut blob);
                    self.obey(&[b"rl.x".to_vec(), name.clone(), blob]);
                    // The server itself writes a PEXPIREAT after it.
                    if let Some(Entry::Ours(limiter, _)) = self.replica.get(&name) {
                        self.replica.set(&name, Some(Entry::Ours(limiter, at)));
                    }
                }
                other => self.replica.set(&name, other),
            }
            self.same_on_replica(&name);
        }
    }

    /// Makes a call; answers whether it was one.
    pub fn call(&mut self, words: &[Vec<u8>]) -> bool {
        let Some(spec) = spec_of(words) else { return false };
        let before: Vec<_> = self.primary.names().into_iter().map(|n| self.picture(&n)).collect();
        let call = Call::new(words, &self.primary, self.now, false);
        if !arity_fits(spec, words.len()) {
            call.error("ERR wrong number of arguments");
        } else if let Some(handler) = spec.handler {
            (handler.0)(&call);
        } else {
            call.error("ERR unknown subcommand");
        }
        let (reply, sent) = (call.reply.take(), call.sent.take());
        self.said.push((self.now, words.to_vec(), reply.clone()));
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let expected = self.model.call(self.now, &borrowed);
        assert_eq!(whole_items(&reply), Some(reply.len()), "{}", self.tell("a reply is cut"));
        if !agrees(&expected, &reply) {
            panic!("{}", self.tell(&format!("another reply, expected {expected:?}")));
        }
        if spec.name == "rl.inspect" && words.len() == 2 {
            self.inspected(&words[1], &reply);
        }
        self.waits = waits(&reply);
        let wrote = !sent.is_empty();
        // What the model does not answer changes nothing.
        if wrote != self.model.wrote_last() {
            panic!("{}", self.tell(&format!("wrote: {wrote}")));
        }
        // Changed, sent and reported are the same keys.
        let mut told: Vec<Vec<u8>> = Vec::new();
        for command in &sent {
            self.obey(command);
            if command[0] == b"rl.x" {
                told.extend(command[1..].chunks(2).map(|pair| pair[0].clone()));
            }
        }
        told.sort();
        let reported: Vec<_> = call.signalled.take().into_iter().collect();
        assert_eq!(told, reported, "{}", self.tell("sent and reported differ"));
        let after: Vec<_> = self.primary.names().into_iter().map(|n| self.picture(&n)).collect();
        for picture in after.iter().filter(|picture| !before.contains(picture)) {
            assert!(told.contains(&picture.0), "{}", self.tell("changed, and nobody was told"));
        }
        for name in &told {
            self.same_on_replica(name);
            self.ttl_fits(name);
        }
        true
    }

    /// Carries a command of the stream out on the replica.
    fn obey(&self, command: &[Vec<u8>]) {
        // There is one table of policies: what is sent must say what it holds already.
        let policies = policy::save(true);
        let spec = spec_of(command).expect("an internal command");
        assert!(arity_fits(spec, command.len()));
        let call = Call::new(command, &self.replica, self.now, true);
        (spec.handler.expect("a handler").0)(&call);
        let reply = call.reply.take();
        assert_eq!(reply, [Item::Status("OK".into())], "{}", self.tell("the replica refused"));
        assert_eq!(policy::save(true), policies, "{}", self.tell("another table of policies"));
    }

    fn picture(&self, name: &[u8]) -> (Vec<u8>, Option<Vec<u8>>, Option<i64>) {
        picture(&self.primary, name)
    }

    fn same_on_replica(&self, name: &[u8]) {
        let (here, there) = (self.picture(name), picture(&self.replica, name));
        assert_eq!(here, there, "{}", self.tell("the replica holds another state"));
        if let Some(Entry::Ours(limiter, _)) = self.primary.get(name) {
            let again = Limiter::decode(&saved(&limiter)).map(|limiter| saved(&limiter));
            assert_eq!(again, here.1, "{}", self.tell("what is saved does not load"));
        }
    }

    /// The TTL of a key that was just written.
    fn ttl_fits(&self, name: &[u8]) {
        let Some(Entry::Ours(_, at)) = self.primary.get(name) else { return };
        let Some((least, most)) = self.model.bounds(name, self.now) else { return };
        let Some(at) = at else { panic!("{}", self.tell("no TTL")) };
        let ttl = at - self.now.div_euclid(1000);
        let fits = ttl >= least && (ttl <= most || self.stepped);
        assert!(fits, "{}", self.tell(&format!("TTL {ttl}, not {least} to {most}")));
    }

    /// The numbers of RL.INSPECT, which the model itself does not answer.
    fn inspected(&self, name: &[u8], reply: &[Item]) {
        if self.model.foreign.contains_key(name) {
            return;
        }
        let key = self.model.keys.get(name);
        let rules = key.map_or(&[][..], |key| &key.rules[..key.len_at(self.now)]);
        let field = |name: &str| {
            let is = |item: &Item| *item == Item::Bytes(name.into());
            let pairs = reply.windows(2).filter(move |pair| is(&pair[0]));
            pairs.map(|pair| pair[1].clone()).collect::<Vec<_>>()
        };
        let int = |n: i64| Item::Int(n);
        let seen: Vec<_> = rules.iter().map(|rule| rule.seen(self.now)).collect();
        let (mut used, mut cut_off) = (Vec::new(), Vec::new());
        for rule in &seen {
            used.push(int(match &rule.state {
                State::Fresh => 0,
                State::Used { used, .. } => ceil(used),
                State::Log(entries) => entries.iter().map(|entry| entry.cost).sum(),
                State::Count { count, .. } => *count,
            }));
            match &rule.state {
                State::Used { cut, .. } if ceil(cut) > 0 => cut_off.push(int(ceil(cut))),
                _ => {}
            }
        }
        let remaining: Vec<_> = seen.iter().map(|rule| int(rule.remaining())).collect();
        let reset: Vec<_> = seen.iter().map(|rule| int(rule.reset_ms(self.now))).collect();
        let got = ["used", "cut_off", "remaining", "reset_after_ms"].map(field);
        let expected = [used, cut_off, remaining, reset];
        assert_eq!(got, expected, "{}", self.tell("inspected"));
    }

    fn tell(&self, what: &str) -> String {
        let mut text = what.to_owned();
        for (now, words, reply) in &self.said {
            let shown: Vec<_> = words.iter().map(|w| w.escape_ascii().to_string()).collect();
            text += &format!("\n@{now} {} -> {reply:?}", shown.join(" "));
        }
        text
    }
}

fn saved(limiter: &Limiter) -> Vec<u8> {
    let mut bytes = Vec::new();
    limiter.encode(&mut bytes);
    bytes
}

fn picture(store: &Store, name: &[u8]) -> (Vec<u8>, Option<Vec<u8>>, Option<i64>) {
    match store.get(name) {
        Some(Entry::Ours(limiter, at)) => (name.to_vec(), Some(saved(&limiter)), at),
        _ => (name.to_vec(), None, None),
    }
}

/// The command that the server would run.
fn spec_of(words: &[Vec<u8>]) -> Option<&'static CommandSpec> {
    let named = |specs: &'static [CommandSpec], word: &[u8]| {
        specs.iter().find(|spec| word.eq_ignore_ascii_case(spec.name.as_bytes()))
    };
    let spec = named(COMMANDS, words.first()?)?;
    let sub = words.get(1).and_then(|word| named(spec.subcommands, word));
    Some(sub.unwrap_or(spec))
}

fn arity_fits(spec: &CommandSpec, words: usize) -> bool {
    let least = spec.arity.unsigned_abs() as usize;
    words == least || (spec.arity < 0 && words > least)
}

/// How many items the one reply takes that a call must write.
fn whole_items(reply: &[Item]) -> Option<usize> {
    let mut items = 1;
    let inner = match reply.first()? {
        Item::Array(len) => *len,
        Item::Map(len) => len * 2,
        _ => 0,
    };
    for _ in 0..inner {
        items += whole_items(&reply[items..])?;
    }
    Some(items)
}

/// The integers of a flat array of `len`.
fn flat(reply: &[Item], len: usize) -> Option<Vec<i64>> {
    let (head, rest) = reply.split_first()?;
    let int = |item: &Item| if let Item::Int(n) = item { Some(*n) } else { None };
    (*head == Item::Array(len)).then_some(())?;
    rest.get(..len)?.iter().map(int).collect()
}

/// The six integers of the call and of each rule.
fn layers(reply: &[Item]) -> Option<(Vec<i64>, Vec<Vec<i64>>)> {
    let (head, rest) = reply.split_first()?;
    (*head == Item::Array(7)).then_some(())?;
    let int = |item: &Item| if let Item::Int(n) = item { Some(*n) } else { None };
    let six: Option<Vec<i64>> = rest.get(..6)?.iter().map(int).collect();
    let Some(Item::Array(rules)) = rest.get(6) else { return None };
    let row = |i: usize| flat(rest.get(7 + i * 7..)?, 6);
    Some((six?, (0..*rules).map(row).collect::<Option<_>>()?))
}

fn agrees(expected: &Reply, got: &[Item]) -> bool {
    match expected {
        Reply::Six(six) => flat(got, 6).as_deref() == Some(six),
        Reply::Five(five) => flat(got, 5).as_deref() == Some(five),
        Reply::Layers(six, rows) => {
            layers(got).is_some_and(|(first, all)| first == six && all.iter().eq(rows.iter()))
        }
        Reply::Null => got == [Item::NullArray],
        Reply::Error(text) => matches!(got, [Item::Error(got)] if same_error(text, got)),
        Reply::Ok => got == [Item::Status("OK".into())],
        Reply::Int(n) => got == [Item::Int(*n)],
        Reply::Other => true,
    }
}

/// Retry, reset and delay of a reply, where they are not 0.
fn waits(reply: &[Item]) -> Vec<i64> {
    let of = |six: &[i64]| [six[2], six[3], six[5]];
    let mut all: Vec<i64> = match (flat(reply, 6), layers(reply)) {
        (Some(six), _) => of(&six).to_vec(),
        (_, Some((six, rows))) => {
            of(&six).into_iter().chain(rows.iter().flat_map(|row| of(row))).collect()
        }
        _ => Vec::new(),
    };
    all.retain(|wait| *wait > 0);
    all
}
