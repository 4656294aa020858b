//! Recovery of an earlier process's files.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Returns the only segment, with `count` records, of a journal that was dropped like a killed process's.
fn left(dir: &Path, count: u128) -> (std::path::PathBuf, Vec<u8>) {
    let journal = Journal::open(options(dir)).unwrap();
    for number in 0..count {
        append(&journal, number);
    }
    let segments = journal.segments();
    assert_eq!(segments.len(), 1);
    let path = dir.join(segment_name::file_name(segments[0].id));
    drop(journal);
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

fn open(dir: &Path) -> Arc<Journal> {
    Journal::open(JournalOptions { medium: Arc::new(Faulty::default()), ..options(dir) }).unwrap()
}

#[test]
fn a_journal_that_was_not_closed_has_every_record_and_the_next_one_its_name() {
    let home = tempfile::tempdir().unwrap();
    let first = open(home.path());
    for number in 0..1_000 {
        append(&first, number);
    }
    let gateway = first.gateway();
    drop(first);
    let second = open(home.path());
    assert_eq!(second.gateway(), gateway);
    assert!(!second.is_ready(), "the remaining records are not shipped yet");
    assert!(second.segments().iter().all(|segment| segment.sealed));
    for number in 1_000..1_010 {
        append(&second, number);
    }
    assert_eq!(
        numbers(&second),
        (0..1_010).collect::<Vec<_>>(),
        "new segments come after those that were left"
    );
}

// Shows (Reliability): A journal's folder belongs to one process at a time and contains the gateway's identity.
#[test]
fn a_folder_is_one_journals_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let first = open(home.path());
    let refused = Journal::open(options(home.path())).unwrap_err();
    assert!(matches!(refused, JournalError::InUse { pid: Some(pid), .. } if pid == std::process::id()));
    let text = refused.to_string();
    assert!(
        text.starts_with("journal.dir ") && text.contains(&format!("process {}", std::process::id())),
        "{text}"
    );
    drop(first);
    open(home.path());
}

// Shows (Reliability).
#[test]
fn cut_at_any_byte_of_its_last_4_kib_it_opens_with_the_whole_records_before_the_cut() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 200);
    let frames = frames(&bytes);
    assert!(bytes.len() > 4_096 + 1_024);
    for cut in bytes.len() - 4_096..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let journal = open(home.path());
        let whole = frames.iter().take_while(|(end, _)| *end <= cut).count();
        assert_eq!(numbers(&journal), (0..whole as u128).collect::<Vec<_>>(), "cut at {cut}");
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, frames[whole - 1].0);
    }
}

/// Returns the kept files of cut bytes, by name.
fn cuts(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".cut")).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect()
}

// Shows (Reliability): Recovery keeps the bytes that it cuts off a segment, in a bounded number of files.
#[test]
fn bytes_cut_from_a_segment_are_kept_next_to_it() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 30);
    let frames = frames(&bytes);
    let (first, _) = frames[10];
    let mut broken = bytes.clone();
    broken[first + 5] ^= 0x41;
    fs::write(&path, &broken).unwrap();
    assert_eq!(numbers(&open(home.path())), (0..11).collect::<Vec<_>>());
    let [(name, kept)] = &cuts(home.path())[..] else { panic!("{:?}", cuts(home.path())) };
    assert!(name.ends_with(&format!("-{first}.cut")), "{name}");
    assert_eq!(*kept, broken[first..], "a person may still read the 19 whole records behind the broken byte");
    drop(open(home.path()));
    assert_eq!(cuts(home.path()).len(), 1, "once");
}

// Shows (Reliability).
#[test]
fn a_segment_without_a_whole_record_is_kept_too_and_zeros_are_not() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 1);
    let mut broken = bytes.clone();
    broken[HEAD + 3] ^= 0x41;
    fs::write(&path, &broken).unwrap();
    drop(open(home.path()));
    assert_eq!(cuts(home.path())[0].1, broken[HEAD..]);
    let home = tempfile::tempdir().unwrap();
    let (path, mut bytes) = left(home.path(), 20);
    bytes.extend(vec![0; 10_000]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(numbers(&open(home.path())).len(), 20);
    assert!(cuts(home.path()).is_empty(), "as a loss of power leaves them");
}

// Shows (Reliability).
#[test]
fn the_newest_sixteen_files_of_cut_bytes_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 40);
    for (end, _) in frames(&bytes).iter().rev().take(20) {
        fs::write(&path, &bytes[..end - 1]).unwrap();
        drop(open(home.path()));
    }
    assert_eq!(cuts(home.path()).len(), cut::MOST);
}

#[test]
fn a_large_set_and_the_records_after_it_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let journal = open(home.path());
    let lines = vec![line(b"toy_read", Outcome::Answered); 60_000];
    for number in 0..5 {
        journal.append(&suite::record(number, &lines));
    }
    append(&journal, 5);
    assert!(journal.segments()[0].len > 5 * 300_000, "each frame is longer than the read buffer");
    drop(journal);
    assert_eq!(numbers(&open(home.path())), (0..6).collect::<Vec<_>>());
}

#[test]
fn a_torn_journal_is_the_same_after_any_number_of_starts() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 20);
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    for _ in 0..3 {
        assert_eq!(numbers(&open(home.path())), (0..19).collect::<Vec<_>>());
    }
}

#[test]
fn a_segment_without_a_whole_record_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 1);
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        assert!(open(home.path()).segments().is_empty(), "cut at {cut}");
        assert!(!path.exists());
    }
    fs::write(&path, vec![0; 100_000]).unwrap();
    assert!(open(home.path()).segments().is_empty(), "zeros are no records");
    assert!(!path.exists());
}

#[test]
fn all_whole_records_before_any_broken_byte_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 30);
    let frames = frames(&bytes);
    for at in HEAD..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x41;
        fs::write(&path, &broken).unwrap();
        let journal = open(home.path());
        let whole = frames.iter().take_while(|(end, _)| *end <= at).count();
        assert_eq!(numbers(&journal), (0..whole as u128).collect::<Vec<_>>(), "broken at {at}");
        // From here on another gateway writes.
        append(&journal, 99);
        assert_eq!(numbers(&journal).last(), Some(&99));
        let fresh = journal.segments().pop().unwrap().id;
        drop(journal);
        fs::remove_file(home.path().join(segment_name::file_name(fresh))).unwrap();
    }
}

#[test]
fn a_broken_head_costs_no_record() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = left(home.path(), 30);
    for at in [0, 7, 12, 30, 63] {
        let mut broken = bytes.clone();
        broken[at] ^= 0x41;
        fs::write(&path, &broken).unwrap();
        let journal = open(home.path());
        let segment = journal.segments()[0];
        assert_eq!(super::frames(&super::bytes(&journal, &segment)).len(), 30);
    }
}

// Shows (Reliability).
#[test]
fn segments_of_another_gateway_or_a_later_version_are_not_touched() {
    let home = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (_, mine) = left(home.path(), 3);
    let (foreign, bytes) = left(other.path(), 5);
    let foreign = home.path().join(foreign.file_name().unwrap());
    fs::write(&foreign, &bytes).unwrap();
    // A copy under another name would be shipped twice.
    let copy = home.path().join(segment_name::file_name(SegmentId(77)));
    fs::write(&copy, &mine).unwrap();
    let unnamed = home.path().join("notes.segment");
    fs::write(&unnamed, "x").unwrap();
    let later = home.path().join(segment_name::file_name(SegmentId(u128::MAX >> 1)));
    fs::write(&later, later_version()).unwrap();
    let journal = open(home.path());
    assert_eq!(numbers(&journal), [0, 1, 2]);
    append(&journal, 3);
    assert_eq!(numbers(&journal), [0, 1, 2, 3]);
    assert!(
        journal.segments()[1].id > SegmentId(u128::MAX >> 1),
        "new segments come after all existing ones"
    );
    assert_eq!(fs::read(&later).unwrap(), later_version());
    assert_eq!(fs::read(&foreign).unwrap(), bytes);
    assert_eq!(fs::read(&copy).unwrap(), mine);
    assert!(unnamed.exists());
}

#[test]
fn a_lost_name_is_restored_from_the_remaining_segments() {
    let home = tempfile::tempdir().unwrap();
    left(home.path(), 3);
    let gateway = open(home.path()).gateway();
    for lost in [None, Some("nonsense")] {
        let file = home.path().join("gateway");
        match lost {
            None => fs::remove_file(&file).unwrap(),
            Some(text) => fs::write(&file, text).unwrap(),
        }
        let journal = open(home.path());
        assert_eq!((journal.gateway(), numbers(&journal)), (gateway, vec![0, 1, 2]));
    }
}

#[test]
fn a_file_that_cannot_be_read_does_not_keep_the_gateway_from_starting() {
    let home = tempfile::tempdir().unwrap();
    let (path, _) = left(home.path(), 3);
    let odd = home.path().join(segment_name::file_name(SegmentId(5)));
    fs::create_dir(&odd).unwrap();
    let journal = open(home.path());
    assert_eq!(numbers(&journal), [0, 1, 2]);
    // Without its mark it would be shipped again once it can be read.
    assert_eq!(journal.forget(SegmentId(5)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(odd.is_dir() && path.exists());
}

/// Returns a head as a later version may write it.
fn later_version() -> Vec<u8> {
    let head = SegmentHeader { segment: SegmentId(1), gateway: GatewayId(1), opened: NOON };
    let mut bytes = head.to_bytes();
    bytes[8] = 2;
    let checksum = crc32(&bytes[..HEAD - 4]);
    bytes[HEAD - 4..].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(SegmentHeader::read(&bytes), Err(rpcgate_core::journal::BadHead::Version(2))));
    bytes.to_vec()
}

/// Computes the CRC-32 of IEEE 802.3, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

/// Builds a command that runs one of these tests as a child process, started by `shell`.
fn child(test: &str, dir: &Path, shell: &str) -> Command {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell} exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
    command.args([&format!("{module}::{test}"), "--exact", "--nocapture"]).env("JOURNAL_OF_CHILD", dir);
    command
}

fn child_dir() -> Option<std::path::PathBuf> {
    std::env::var_os("JOURNAL_OF_CHILD").map(Into::into)
}

#[test]
fn a_killed_process_keeps_every_record_that_it_appended() {
    if let Some(dir) = child_dir() {
        let journal = Journal::open(options(&dir)).unwrap();
        for number in 0.. {
            append(&journal, number);
            writeln!(io::stdout(), "appended {number}").unwrap();
            if number % 1_000 == 0 {
                journal.rotate();
            }
        }
    }
    for round in 0..3 {
        let home = tempfile::tempdir().unwrap();
        let mut child = child("a_killed_process_keeps_every_record_that_it_appended", home.path(), "")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let number = |line: String| line.strip_prefix("appended ")?.parse::<u128>().ok();
        let mut last = 0;
        while last < 2_000 + 777 * round {
            last = lines.next().unwrap().ok().and_then(number).unwrap_or(last);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The unread rest of its output before it was killed. The last line may be cut short.
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        last = rest.into_iter().rev().skip(1).find_map(number).unwrap_or(last);
        let kept = numbers(&open(home.path()));
        assert!(kept.len() as u128 > last, "{} of {last}", kept.len());
        assert_eq!(kept, (0..kept.len() as u128).collect::<Vec<_>>(), "each once, in order");
    }
}

#[test]
fn a_limit_on_the_size_of_files_costs_no_record() {
    const COUNT: u128 = 5_000;
    // In units of 512 or 1,024 bytes: shells differ.
    const LIMIT: u64 = 2_048;
    if let Some(dir) = child_dir() {
        let journal = Journal::open(options(&dir)).unwrap();
        let lines = [line(b"toy_read", Outcome::Answered); 100];
        (0..COUNT).for_each(|number| journal.append(&suite::record(number, &lines)));
        journal.close();
        assert_eq!(journal.status().lost_records, 0);
        return;
    }
    let home = tempfile::tempdir().unwrap();
    // The system sends a signal at the limit; if ignored, the write fails instead.
    let limit = format!("trap '' XFSZ; ulimit -f {LIMIT};");
    let output = child("a_limit_on_the_size_of_files_costs_no_record", home.path(), &limit).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let journal = open(home.path());
    assert_eq!(numbers(&journal), (0..COUNT).collect::<Vec<_>>());
    let segments = journal.segments();
    assert!(
        segments.len() > 1 && segments.iter().all(|segment| segment.len <= LIMIT * 1_024),
        "{segments:?}"
    );
}
