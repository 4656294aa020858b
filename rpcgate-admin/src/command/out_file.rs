//! The file that `--out` names.

use super::command_error::CommandError;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What it contains is private: it is read and written by its owner alone.
const FILE_MODE: u32 = 0o600;

/// Creates a file that does not exist yet.
pub(super) fn new_file(path: &Path) -> Result<File, CommandError> {
    let made = File::options().write(true).create_new(true).mode(FILE_MODE).open(path);
    made.map_err(|error| CommandError::usage(format!("--out: {}: {error}", path.display())))
}
