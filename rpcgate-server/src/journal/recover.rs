//! The recovery of an earlier process's files. All complete records stay, incomplete ones move to separate files, and
//! no file content prevents the gateway from starting.

use super::cut;
use super::medium::{Medium, MediumFile};
use super::segment_name::{file_name, segment_of};
use rpcgate_core::journal::{BadHead, GatewayId, HEAD, Reader, SegmentHeader, SegmentId};
use std::io;
use std::path::Path;

/// The name of a file that tests whether the disk accepts data.
pub(super) const PROBE: &str = "probe";

const CHUNK: usize = 256 * 1024;

/// The segments that an earlier process left.
#[derive(Debug, Default)]
pub(super) struct RecoveredSegments {
    /// Segments with whole records, oldest first, with their length up to the end of the last record, head included.
    pub(super) segments: Vec<(SegmentId, u64)>,
    /// Segment files that could not be read this time. Another start may read them.
    pub(super) unread: Vec<SegmentId>,
}

enum Found {
    Segment(u64),
    Nothing,
    Unread,
}

/// Returns the gateway of the folder's newest segment. The database knows shipments by this identity.
pub(super) fn owner(dir: &Path, medium: &dyn Medium) -> io::Result<Option<GatewayId>> {
    let mut ids = segments_in(dir, medium)?;
    ids.reverse();
    Ok(ids.into_iter().find_map(|id| {
        let file = medium.open_append(&dir.join(file_name(id))).ok()?;
        SegmentHeader::read(&start(&*file).ok()?).ok().map(|head| head.gateway)
    }))
}

/// Returns the segments of `gateway`, cut behind the last of their whole records.
pub(super) fn left(dir: &Path, gateway: GatewayId, medium: &dyn Medium) -> io::Result<RecoveredSegments> {
    match medium.remove(&dir.join(PROBE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => complain(dir, PROBE, &error),
        _ => {}
    }
    let mut left = RecoveredSegments::default();
    for id in segments_in(dir, medium)? {
        match segment(dir, id, gateway, medium) {
            Ok(Found::Segment(len)) => left.segments.push((id, len)),
            Ok(Found::Nothing) => {}
            Ok(Found::Unread) => left.unread.push(id),
            Err(error) => {
                complain(dir, &file_name(id), &error);
                left.unread.push(id);
            }
        }
    }
    Ok(left)
}

fn complain(dir: &Path, file: &str, error: &io::Error) {
    tracing::error!("journal.dir {}: {file}: {error}; it is left as it is", dir.display());
}

fn segments_in(dir: &Path, medium: &dyn Medium) -> io::Result<Vec<SegmentId>> {
    let mut ids: Vec<_> = medium.list(dir)?.iter().filter_map(|name| segment_of(name)).collect();
    ids.sort_unstable();
    Ok(ids)
}

fn segment(dir: &Path, id: SegmentId, gateway: GatewayId, medium: &dyn Medium) -> io::Result<Found> {
    let path = dir.join(file_name(id));
    let shown = path.display();
    let file = medium.open_append(&path)?;
    let has_head = match SegmentHeader::read(&start(&*file)?) {
        Ok(head) if head.segment == id && head.gateway == gateway => true,
        Ok(head) => {
            tracing::error!(
                "{shown} is segment {} of gateway {}, not of this one ({gateway}): its records are not shipped, the \
                 file is left as it is",
                head.segment,
                head.gateway
            );
            return Ok(Found::Unread);
        }
        Err(later @ BadHead::Version(_)) => {
            tracing::error!("{shown}: {later}; its records are not shipped, the file is left as it is");
            return Ok(Found::Unread);
        }
        Err(BadHead::Short | BadHead::Foreign | BadHead::Checksum) => {
            tracing::warn!("{shown} has no head");
            false
        }
    };
    let size = file.size()?;
    let complete = complete(&*file)?;
    if complete.records == 0 {
        let begin = if has_head { HEAD as u64 } else { 0 };
        let saved = cut::keep(dir, id, begin..size, &*file, medium)?;
        tracing::warn!("{shown} has no whole record: removed with its {size} bytes{saved}");
        medium.remove(&path)?;
        return Ok(Found::Nothing);
    }
    if complete.end < size {
        // The bytes behind the end do not count even if they stay: the segment is only read up to there.
        let cut = cut::keep(dir, id, complete.end..size, &*file, medium)
            .and_then(|saved| file.truncate(complete.end).and_then(|()| file.sync()).map(|()| saved));
        let torn = size - complete.end;
        let records = complete.records;
        match cut {
            Ok(saved) => tracing::warn!(
                "{shown}: {torn} bytes behind the last of {records} whole records are cut off{saved}"
            ),
            Err(error) => tracing::error!(
                "{shown}: {torn} bytes behind the last of {records} whole records are not read; they cannot be cut \
                 off: {error}"
            ),
        }
    }
    Ok(Found::Segment(complete.end))
}

fn start(file: &dyn MediumFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

struct CompleteRecords {
    records: u64,
    end: u64,
}

/// Reads the records of a segment up to the first incomplete one.
fn complete(file: &dyn MediumFile) -> io::Result<CompleteRecords> {
    let mut reader = Reader::new();
    let mut buffer = vec![0; CHUNK];
    let mut begin = 0;
    let mut filled = 0;
    let mut complete = CompleteRecords { records: 0, end: HEAD as u64 };
    loop {
        match reader.frame(&buffer[begin..filled]) {
            Ok(Some((length, _))) => {
                begin += length;
                complete.end += length as u64;
                complete.records += 1;
            }
            Ok(None) => {
                buffer.copy_within(begin..filled, 0);
                filled -= begin;
                begin = 0;
                if filled == buffer.len() {
                    // A frame begins with its length; a length beyond the bound is invalid.
                    buffer.resize(2 * filled, 0);
                }
                match file.read_at(&mut buffer[filled..], complete.end + filled as u64)? {
                    0 => return Ok(complete),
                    read => filled += read,
                }
            }
            Err(_) => return Ok(complete),
        }
    }
}
