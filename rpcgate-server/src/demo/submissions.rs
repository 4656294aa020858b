//! The submissions of clients to a simulated node, stored for its next start: one file for each chain.
//!
//! `CHAIN.submissions` is text. Its first line, `seed N`, names the simulated chain. Each further line is one accepted
//! transaction: the moment in microseconds since the Unix epoch, a space, and the signed bytes in hex. A line is
//! complete before the client gets the answer. So a last line without its newline, which a killed process may leave,
//! was never acknowledged and is dropped. Lines are handed to the operating system and not flushed to the disk: they
//! survive the process, and a power failure except for the last seconds.
//!
//! A file ends before the transaction that would exceed [`SUBMISSIONS`] or [`SUBMISSION_BYTES`]. A UTXO node refuses
//! further ones. An EVM node accepts them, but they are lost at the next start, when accounts are in the state of the
//! stored transactions; its blocks' hashes do not cover transactions, so this is not a reorganisation. Removing the
//! file starts over.

use super::dir::Dir;
use super::state::StateError;
use rpcgate_simulate::{SUBMISSION_BYTES, SUBMISSIONS, Submission};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct Submissions {
    path: PathBuf,
    seed: u64,
    /// The number of its transactions, and their bytes.
    held: (usize, usize),
    end: End,
}

#[derive(Debug)]
enum End {
    /// Not open yet. Bytes beyond this length are dropped when the first line is added.
    Known(u64),
    Open(File),
    /// Nothing more is stored: later transactions build upon the missing one.
    Closed,
}

#[derive(Debug, Default)]
struct StoredSubmissions {
    past: Vec<Submission>,
    /// The length in bytes of the part that stays; 0 to start over.
    length: usize,
}

impl Submissions {
    /// Reads the chain's submissions in `dir` and returns the file to add to. A file with another seed belongs to
    /// another chain: it is ignored, and replaced when the first line is added.
    ///
    /// # Errors
    /// A file that cannot be read, or that has lines which no demo wrote: it is left unchanged.
    pub(super) fn open(
        dir: &Dir,
        chain: &str,
        seed: u64,
    ) -> Result<(Submissions, Vec<Submission>), StateError> {
        let name = format!("{chain}.submissions");
        let bytes = dir.bytes(&name)?.unwrap_or_default();
        let path = dir.file(&name);
        let StoredSubmissions { past, length } = read(&bytes, seed)
            .map_err(|why| StateError::Unreadable { file: path.display().to_string(), why })?;
        let held = (past.len(), past.iter().map(|submission| submission.raw.len()).sum());
        Ok((Submissions { path, seed, held, end: End::Known(length as u64) }, past))
    }

    /// Adds new submissions, each whole or not at all. A file that cannot be written is abandoned with one warning in
    /// the log, and the demo continues without it.
    pub(super) fn add(&mut self, fresh: &[Submission]) {
        if fresh.is_empty() || matches!(self.end, End::Closed) {
            return;
        }
        let mut text = String::new();
        let mut fits = true;
        for submission in fresh {
            let held = (self.held.0 + 1, self.held.1.saturating_add(submission.raw.len()));
            fits = held.0 <= SUBMISSIONS && held.1 <= SUBMISSION_BYTES;
            if !fits {
                break;
            }
            self.held = held;
            text.push_str(&submission.to_string());
            text.push('\n');
        }
        let written = self.write(&text);
        let file = self.path.display();
        if let Err(error) = written {
            tracing::warn!(%file, %error, "transactions submitted from now on are lost at the next start");
            self.end = End::Closed;
        } else if !fits {
            tracing::warn!(%file, "full: transactions submitted from now on are lost at the next start");
            self.end = End::Closed;
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if let End::Known(length) = self.end {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).mode(0o600).open(&self.path)?;
            file.set_len(length)?;
            if length == 0 {
                writeln!(file, "seed {}", self.seed)?;
            }
            self.end = End::Open(file);
        }
        if let End::Open(file) = &mut self.end {
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

fn read(bytes: &[u8], seed: u64) -> Result<StoredSubmissions, String> {
    // Bytes after the last newline were never completed.
    let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        return Ok(StoredSubmissions::default());
    };
    let mut lines = bytes[..last].split(|byte| *byte == b'\n');
    let text = |line| str::from_utf8(line).ok();
    let own = |line| text(line)?.strip_prefix("seed ")?.parse::<u64>().ok();
    match lines.next().and_then(own) {
        None => return Err("line 1: no seed".into()),
        Some(own) if own != seed => return Ok(StoredSubmissions::default()),
        Some(_) => {}
    }
    let mut past = Vec::new();
    for (index, line) in lines.enumerate() {
        let read = text(line).and_then(|line| line.parse().ok());
        past.push(read.ok_or_else(|| format!("line {}: no transaction", index + 2))?);
    }
    Ok(StoredSubmissions { past, length: last + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::clock::Time;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn submissions(moments: std::ops::Range<u64>) -> Vec<Submission> {
        moments.map(|n| Submission { moment: Time::from_micros(n), raw: n.to_be_bytes().to_vec() }).collect()
    }

    fn past(dir: &Dir) -> Vec<Submission> {
        Submissions::open(dir, "eth", 7).unwrap().1
    }

    fn home() -> (tempfile::TempDir, Dir) {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        (home, dir)
    }

    #[test]
    fn added_submissions_are_found_in_order_and_are_private() {
        let (_home, dir) = home();
        let file = dir.file("eth.submissions");
        let (mut kept, none) = Submissions::open(&dir, "eth", 7).unwrap();
        kept.add(&[]);
        assert!(none.is_empty() && !file.exists(), "no file without a submission");
        kept.add(&submissions(0..2));
        kept.add(&submissions(2..3));
        assert_eq!(past(&dir), submissions(0..3));
        Submissions::open(&dir, "eth", 7).unwrap().0.add(&submissions(3..4));
        assert_eq!(past(&dir), submissions(0..4));
        assert!(Submissions::open(&dir, "bsc", 7).unwrap().1.is_empty());
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_torn_last_line_is_dropped_at_every_cut() {
        let (_home, dir) = home();
        let file = dir.file("eth.submissions");
        Submissions::open(&dir, "eth", 7).unwrap().0.add(&submissions(0..2));
        let content = fs::read(&file).unwrap();
        let ends: Vec<_> = (1..=content.len()).filter(|end| content[end - 1] == b'\n').collect();
        for torn in 0..=content.len() {
            fs::write(&file, &content[..torn]).unwrap();
            let lines = ends.iter().filter(|end| **end <= torn).count() as u64;
            let (mut kept, found) = Submissions::open(&dir, "eth", 7).unwrap();
            assert_eq!(found, submissions(0..lines.saturating_sub(1)), "{torn} bytes");
            kept.add(&submissions(8..9));
            assert_eq!(past(&dir), [found, submissions(8..9)].concat(), "{torn} bytes");
        }
        fs::write(&file, [&content[..], &[b'9', 0, 0xff]].concat()).unwrap();
        assert_eq!(past(&dir), submissions(0..2));
    }

    #[test]
    fn a_line_that_no_demo_wrote_is_named_and_left() {
        let (_home, dir) = home();
        let file = dir.file("eth.submissions");
        for (text, why) in [
            ("\n", "line 1: no seed"),
            ("seed -1\n", "line 1: no seed"),
            ("seed 7\n1 00\n1 0\n", "line 3: no transaction"),
            ("seed 7\n\n1 00\n", "line 2: no transaction"),
        ] {
            fs::write(&file, text).unwrap();
            let error = Submissions::open(&dir, "eth", 7).unwrap_err().to_string();
            assert!(error.contains(&format!("eth.submissions: {why}: repair it")), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn another_seeds_file_is_replaced() {
        let (_home, dir) = home();
        Submissions::open(&dir, "eth", 8).unwrap().0.add(&submissions(0..5));
        let (mut kept, found) = Submissions::open(&dir, "eth", 7).unwrap();
        assert!(found.is_empty());
        kept.add(&submissions(5..6));
        assert_eq!(past(&dir), submissions(5..6));
    }

    #[test]
    fn a_full_file_takes_nothing_more() {
        let (_home, dir) = home();
        let (mut kept, _) = Submissions::open(&dir, "eth", 7).unwrap();
        let all = SUBMISSIONS as u64;
        kept.add(&submissions(0..all - 1));
        kept.add(&submissions(all - 1..all + 5));
        kept.add(&submissions(all + 5..all + 6));
        assert_eq!(past(&dir), submissions(0..all));
        Submissions::open(&dir, "eth", 7).unwrap().0.add(&submissions(all..all + 1));
        assert_eq!(past(&dir).len(), SUBMISSIONS);
    }

    #[test]
    fn nothing_is_stored_after_a_submission_that_is_too_long() {
        let (_home, dir) = home();
        let (mut kept, _) = Submissions::open(&dir, "eth", 7).unwrap();
        kept.add(&submissions(0..1));
        kept.add(&[Submission { moment: Time::from_micros(1), raw: vec![0; SUBMISSION_BYTES] }]);
        kept.add(&submissions(2..3));
        assert_eq!(past(&dir), submissions(0..1));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_abandoned() {
        let (_home, dir) = home();
        let (mut kept, _) = Submissions::open(&dir, "eth", 7).unwrap();
        let file = dir.file("eth.submissions");
        fs::create_dir(&file).unwrap();
        kept.add(&submissions(0..1));
        fs::remove_dir(&file).unwrap();
        kept.add(&submissions(1..2));
        assert!(!file.exists(), "later submissions depend on the lost ones");
    }
}
