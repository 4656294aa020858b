//! Files with the bytes that recovery cuts off a segment. A broken byte in the middle makes all later records
//! unreadable for the gateway, but a person may still recover them.

use super::medium::{Medium, MediumFile};
use rpcgate_core::journal::SegmentId;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".cut";

/// The maximum number of these files; the oldest are removed first.
pub(super) const MOST: usize = 16;

/// The maximum bytes kept of one segment: a whole segment.
const LONGEST: u64 = super::SEGMENT;

const CHUNK: u64 = 256 * 1024;

/// The path of the kept bytes as the end of a log line; empty if nothing was kept.
pub(super) struct SavedBytes(Option<PathBuf>);

impl fmt::Display for SavedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |path| write!(f, "; they are kept in {}", path.display()))
    }
}

/// Copies the bytes of `range` out of the file of segment `id`, unless all are zero: a power failure leaves zeros
/// behind the written part.
///
/// # Errors
/// The operating system's; then the bytes are not copied.
pub(super) fn keep(
    dir: &Path,
    id: SegmentId,
    range: Range<u64>,
    file: &dyn MediumFile,
    medium: &dyn Medium,
) -> io::Result<SavedBytes> {
    let mut left = range.start..range.end.min(range.start.saturating_add(LONGEST));
    let mut has_content = false;
    let mut copy = None;
    let path = dir.join(format!("{id}-{}{SUFFIX}", range.start));
    // Two passes, so that a file is created only if there is something to keep.
    for is_copying in [false, true] {
        if is_copying && !has_content {
            return Ok(SavedBytes(None));
        }
        if is_copying {
            free_space(dir, medium)?;
            match medium.create(&path) {
                Ok(created) => copy = Some(created),
                // An earlier start kept these bytes and could not truncate the segment.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(SavedBytes(Some(path)));
                }
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
                    // The next start would take an incomplete copy for the whole.
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
    Ok(SavedBytes(Some(path)))
}

/// Removes the oldest of these files, so that one more stays within [`MOST`].
fn free_space(dir: &Path, medium: &dyn Medium) -> io::Result<()> {
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
