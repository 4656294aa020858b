//! Warnings about settings that have no effect.

use rpcgate_config::Config;

pub(super) fn warn_of_unused(config: &Config, has_state: bool) {
    for setting in unused(config, has_state) {
        tracing::warn!(setting, "this setting has no effect in this version");
    }
}

fn unused(config: &Config, has_state: bool) -> impl Iterator<Item = &'static str> {
    let settings = [
        ("database", !has_state && config.database != Default::default()),
        ("journal", !has_state && config.journal != Default::default()),
        ("retention", !has_state && config.retention != Default::default()),
    ];
    settings.into_iter().filter(|(_, is_given)| *is_given).map(|(setting, _)| setting)
}
