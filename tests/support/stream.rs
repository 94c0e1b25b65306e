//! The commands of an append-only file, and of a replication stream, which has the same form.

use std::fs;
use std::path::PathBuf;

use super::Server;

/// One command as its words.
pub type Words = Vec<Vec<u8>>;

/// All append-only files of a server (a folder of them since 7.0), oldest first.
pub fn aof_files(server: &Server) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(server.dir.join("appendonlydir"))
        .expect("append-only folder")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.to_string_lossy().ends_with(".aof"))
        .collect();
    files.sort();
    files
}

/// The file that the server appends to.
pub fn aof_tail(server: &Server) -> PathBuf {
    let is_tail = |path: &PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    aof_files(server).into_iter().rfind(is_tail).expect("an incremental file")
}

/// The bytes of all append-only files.
pub fn aof(server: &Server) -> Vec<u8> {
    aof_files(server).iter().flat_map(|path| fs::read(path).expect("append-only file")).collect()
}

/// The commands in a piece of a stream. A last command that is not whole is left out.
pub fn commands(mut bytes: &[u8]) -> Vec<Words> {
    std::iter::from_fn(|| {
        // Comments of the server (time annotations) stand between commands.
        while bytes.first() == Some(&b'#') {
            let end = bytes.iter().position(|b| *b == b'\n')?;
            bytes = &bytes[end + 1..];
        }
        let words = number(&mut bytes, b'*')?;
        (0..words).map(|_| bulk(&mut bytes)).collect()
    })
    .collect()
}

/// The names of commands, in lower case, without SELECT.
pub fn names(commands: &[Words]) -> Vec<String> {
    let name = |words: &Words| String::from_utf8_lossy(&words[0]).to_lowercase();
    commands.iter().map(name).filter(|name| name != "select").collect()
}

/// How many commands have this name.
pub fn count(commands: &[Words], name: &str) -> usize {
    names(commands).iter().filter(|n| *n == name).count()
}

/// The bytes of a command.
pub fn pack(words: &[Vec<u8>]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word.as_slice());
    }
    command.get_packed_command()
}

/// Takes a line such as `*3` or `$5` off the front.
fn number(bytes: &mut &[u8], mark: u8) -> Option<usize> {
    let end = bytes.iter().position(|b| *b == b'\n')?;
    let (line, rest) = bytes.split_at(end + 1);
    *bytes = rest;
    assert_eq!(line[0], mark, "{}", String::from_utf8_lossy(line));
    String::from_utf8_lossy(&line[1..]).trim().parse().ok()
}

fn bulk(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let length = number(bytes, b'$')?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest.get(2..)?;
    Some(text.to_vec())
}
