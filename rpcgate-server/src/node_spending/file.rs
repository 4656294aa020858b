//! The file with the calls that nodes have received this month.

use rpcgate_layers::nodes::NodeMonth;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const NAME: &str = "node-spending";
/// The first line, so that a later format is not misread.
const HEAD: &str = "rpcgate node spending 1";
/// The maximum size of the file, in bytes.
const MOST: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub(super) struct SpendingFile {
    folder: PathBuf,
}

impl SpendingFile {
    pub(super) fn in_folder(folder: &Path) -> Self {
        SpendingFile { folder: folder.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Reads the file; a missing one is empty. Unreadable lines are skipped.
    ///
    /// # Errors
    /// The operating system's, and [`io::ErrorKind::InvalidData`] for an unknown format.
    pub(super) fn read(&self) -> io::Result<Vec<NodeMonth>> {
        let path = self.path();
        match fs::metadata(&path) {
            Ok(found) if found.len() > MOST => return Err(io::ErrorKind::InvalidData.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let text = fs::read_to_string(path)?;
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(lines.filter_map(parse).collect())
    }

    /// Replaces the content atomically, also across a power failure.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn write(&self, months: &[NodeMonth]) -> io::Result<()> {
        let fresh = self.folder.join(format!(".{NAME}.new"));
        let mut text = format!("{HEAD}\n");
        for NodeMonth { chain, node, month, calls } in months {
            text.push_str(&format!("{month} {calls} {chain} {node}\n"));
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(fresh, self.path())?;
        File::open(&self.folder)?.sync_all()
    }
}

fn parse(line: &str) -> Option<NodeMonth> {
    let mut words = line.splitn(4, ' ');
    let month = words.next()?.parse().ok()?;
    let calls = words.next()?.parse().ok()?;
    let chain = words.next()?.to_owned();
    let node = words.next()?.to_owned();
    Some(NodeMonth { chain, node, month, calls })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn month(node: &str, calls: u64) -> NodeMonth {
        NodeMonth { chain: "eth".into(), node: node.into(), month: "2026-11".parse().unwrap(), calls }
    }

    #[test]
    fn written_counts_are_read_again_and_are_private() {
        let home = tempfile::tempdir().unwrap();
        let file = SpendingFile::in_folder(home.path());
        assert_eq!(file.read().unwrap(), []);
        let months = [month("https://a/", 7), month("https://a/ #2", u64::MAX)];
        file.write(&[month("https://b/", 1)]).unwrap();
        file.write(&months).unwrap();
        assert_eq!(file.read().unwrap(), months);
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_foreign_file_is_an_error_and_a_broken_line_is_skipped() {
        let home = tempfile::tempdir().unwrap();
        let file = SpendingFile::in_folder(home.path());
        for text in ["", "rpcgate node spending 2\n2026-11 7 eth https://a/\n"] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(file.read().unwrap_err().kind(), io::ErrorKind::InvalidData, "{text:?}");
        }
        let text = format!("{HEAD}\n2026-13 1 eth a\n2026-11 x eth a\n2026-11 7 eth\n2026-11 7 eth a\n");
        fs::write(file.path(), text).unwrap();
        assert_eq!(file.read().unwrap(), [month("a", 7)]);
        File::create(file.path()).unwrap().set_len(MOST + 1).unwrap();
        assert_eq!(file.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
