//! The bytes that recovery cuts off a segment. They are kept in files of their own: a broken byte in the middle makes
//! all records behind it unreadable for us, but a person with the file may still read them.

use super::medium::{Medium, MediumFile};
use rpcgate_core::journal::SegmentId;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".cut";

/// How many such files are kept, the newest ones.
pub(super) const MOST: usize = 16;

/// Bytes that are kept of one segment: as many as a segment has.
const LONGEST: u64 = super::SEGMENT;

/// How much is copied at a time.
const CHUNK: u64 = 256 * 1024;

/// Where bytes are kept, as the end of a log line; empty if there was nothing worth keeping.
pub(super) struct Kept(Option<PathBuf>);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |path| write!(f, "; they are kept in {}", path.display()))
    }
}

/// Copies the bytes of `range` out of the file of segment `id`, unless they are all zero, as a power failure leaves
/// them behind the written part.
///
/// # Errors
/// The operating system's; then the bytes are not copied.
pub(super) fn keep(
    dir: &Path,
    id: SegmentId,
    range: Range<u64>,
    file: &dyn MediumFile,
    medium: &dyn Medium,
) -> io::Result<Kept> {
    let mut left = range.start..range.end.min(range.start.saturating_add(LONGEST));
    let mut has_content = false;
    let mut copy = None;
    let path = dir.join(format!("{id}-{}{SUFFIX}", range.start));
    // Two passes: a file is created only if there is something to keep.
    for is_copying in [false, true] {
        if is_copying && !has_content {
            return Ok(Kept(None));
        }
        if is_copying {
            make_room(dir, medium)?;
            match medium.create(&path) {
                Ok(created) => copy = Some(created),
                // An earlier start has kept them and could not cut them off.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Kept(Some(path))),
                Err(error) => return Err(error),
            }
        }
        let mut at = left.start;
        while at < left.end {
            let mut bytes = vec![0; CHUNK.min(left.end - at) as usize];
            let read = file.read_at(&mut bytes, at)?;
            if read == 0 {
                left.end = at;
                break;
            }
            bytes.truncate(read);
            has_content |= bytes.iter().any(|byte| *byte != 0);
            if let Some(copy) = &copy {
                write_all(&**copy, &bytes).inspect_err(|_| {
                    // At the next start a part would pass for the whole.
                    let _ = medium.remove(&path);
                })?;
            }
            at += read as u64;
        }
    }
    if let Some(copy) = copy {
        copy.sync()?;
    }
    medium.sync_dir(dir)?;
    Ok(Kept(Some(path)))
}

/// Removes the oldest of these files, to make room for another one.
fn make_room(dir: &Path, medium: &dyn Medium) -> io::Result<()> {
    let mut names: Vec<String> =
        medium.list(dir)?.into_iter().filter(|name| name.ends_with(SUFFIX)).collect();
    names.sort_unstable();
    let too_many = (names.len() + 1).saturating_sub(MOST);
    for name in &names[..too_many] {
        medium.remove(&dir.join(name))?;
        tracing::warn!("{}: removed, because newer ones are kept", dir.join(name).display());
    }
    Ok(())
}

fn write_all(file: &dyn MediumFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            taken => bytes = &bytes[taken..],
        }
    }
    Ok(())
}
