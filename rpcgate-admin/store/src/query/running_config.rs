//! The configuration that a program has in force, from the versions that it has stored.

use super::config_versions::{ConfigScope, ConfigVersion};
use crate::{Store, StoreError};
use rpcgate_config::{ConfigLines, ConfigProgram};
use rpcgate_core::backend::BoxFuture;

/// The configuration that a program has in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningConfig {
    /// The last version that it accepted.
    pub version: ConfigVersion,
    /// Its settings; those that need a restart come from the version with which it was started.
    pub lines: ConfigLines,
    /// The settings of the version that wait for a restart.
    pub waiting: Vec<String>,
}

fn source_of(program: ConfigProgram) -> &'static str {
    match program {
        ConfigProgram::Gateway => ConfigScope::Gateway(String::new()).source(),
        ConfigProgram::Management => ConfigScope::Management(String::new()).source(),
    }
}

impl RunningConfig {
    fn new(program: ConfigProgram, version: ConfigVersion, started: Option<ConfigVersion>) -> Self {
        let started = started.filter(|started| started.number != version.number);
        let Some(started) = started else {
            return RunningConfig { lines: version.lines.clone(), version, waiting: Vec::new() };
        };
        let kept = started.lines.filtered(|key| program.keeps(key));
        // Fingerprints with different keys cannot be compared.
        let is_comparable = started.fingerprint_key == version.fingerprint_key;
        let kept = if is_comparable { kept } else { kept.without_fingerprints() };
        let live = version.lines.filtered(|key| !program.keeps(key));
        let accepted = version.lines.filtered(|key| program.keeps(key));
        let accepted = if is_comparable { accepted } else { accepted.without_fingerprints() };
        let waiting = kept.changes(&accepted).into_iter().map(|change| change.key).collect();
        let both = live.iter().chain(kept.iter());
        let lines = both.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        RunningConfig { version, lines, waiting }
    }
}

impl Store {
    /// Returns the configuration that a program has in force: the one at `place`, or else each one on the machine
    /// `host`, the last changed one first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn running_configs<'a>(
        &'a self,
        program: ConfigProgram,
        place: Option<&'a str>,
        host: &'a str,
    ) -> BoxFuture<'a, Result<Vec<RunningConfig>, StoreError>> {
        Box::pin(async move {
            let source = source_of(program);
            let mut versions = match place {
                Some(place) => self.newest_configs(source, Some(place), None).await?,
                None => Vec::new(),
            };
            if versions.is_empty() {
                versions = self.newest_configs(source, None, Some(host)).await?;
            }
            let mut running = Vec::new();
            for version in versions {
                let started = match version.started {
                    Some(number) if number != version.number => self.config_version(number).await?,
                    _ => None,
                };
                running.push(RunningConfig::new(program, version, started));
            }
            Ok(running)
        })
    }
}
