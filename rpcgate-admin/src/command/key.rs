//! `rpcgate-admin key`: API keys.

use super::command_error::CommandError;
use super::console::Console;
use super::find;
use super::out_file::new_file;
use super::printer::{Printable, or_dash, printable};
use super::tenant_pages::TenantPages;
use super::time_argument::time;
use crate::cli::key::{KeyCommand, KeyCreateArgs, KeyListArgs, KeyRevokeArgs};
use rpcgate_core::clock::Time;
use rpcgate_management::action::keys::{self, NewKey};
use rpcgate_management::action::projects;
use rpcgate_management::shape::keys::{CreatedKey, KeyJson};
use rpcgate_process::Failure;
use rpcgate_store::{Key, Project};
use std::io::{self, Write};

impl Printable for KeyJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("ID", 36), ("PREFIX", 12), ("PROJECT", 36), ("REVOKED", 27), ("EXPIRES", 27), ("DESCRIPTION", 0)];

    fn cells(&self) -> Vec<String> {
        let revoked = or_dash(self.revoked_at);
        let expires = or_dash(self.expires_at);
        let id = self.id.clone();
        let prefix = self.prefix.clone();
        let project = self.project_id.clone();
        vec![id, prefix, project, revoked, expires, self.description.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("id", self.id.clone()),
            ("prefix", self.prefix.clone()),
            ("project", self.project_id.clone()),
            ("description", self.description.clone()),
            ("chains", self.chains.as_ref().map_or_else(|| "all".to_owned(), |chains| chains.join(", "))),
            ("created at", self.created_at.to_string()),
            ("expires at", or_dash(self.expires_at)),
            ("revoked at", or_dash(self.revoked_at)),
        ]
    }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &KeyCommand) -> Result<(), CommandError> {
    match command {
        KeyCommand::List(args) => list(console, args).await,
        KeyCommand::Show(args) => {
            let (_, key) = find::key(&console.app, &args.id).await?;
            Ok(console.printer.object(&KeyJson::from(key))?)
        }
        KeyCommand::Create(args) => create(console, args).await,
        KeyCommand::Revoke(args) => revoke(console, args).await,
    }
}

async fn list(console: &mut Console<'_>, args: &KeyListArgs) -> Result<(), CommandError> {
    let mut left = args.length.limit.unwrap_or(u64::MAX);
    if let Some(given) = &args.project {
        let project = find::project(&console.app, args.tenant.as_ref(), given).await?;
        return list_of(console, &project, args.usable, &mut left).await;
    }
    let mut tenants = TenantPages::of(find::optional_tenant(&console.app, args.tenant.as_ref()).await?);
    while let Some(tenant) = tenants.next(&console.app).await? {
        let projects = projects::list(&console.app, &console.actor_for(tenant.id), tenant.id).await?;
        for project in projects {
            list_of(console, &project, args.usable, &mut left).await?;
            if left == 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Lists at most `left` keys of a project, and subtracts their number.
async fn list_of(
    console: &mut Console<'_>,
    project: &Project,
    usable: bool,
    left: &mut u64,
) -> Result<(), CommandError> {
    let now = console.app.now();
    let actor = console.actor_for(project.tenant);
    let keys = keys::list(&console.app, &actor, project.id).await?;
    for key in keys {
        if usable && !is_usable(&key, now) {
            continue;
        }
        if *left == 0 {
            break;
        }
        console.printer.entry(&KeyJson::from(key))?;
        *left -= 1;
    }
    Ok(())
}

fn is_usable(key: &Key, now: Time) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now)
}

async fn create(console: &mut Console<'_>, args: &KeyCreateArgs) -> Result<(), CommandError> {
    let expires_at = args.expires_at.as_deref().map(|text| time("--expires-at", text)).transpose()?;
    let project = find::project(&console.app, args.one.tenant.as_ref(), &args.one.project).await?;
    // The file is created first, because a key that cannot be written is lost.
    let file = args.out.as_deref().map(|path| Ok::<_, CommandError>((path, new_file(path)?))).transpose()?;
    let new = NewKey::new(args.description.clone(), args.chains.clone(), expires_at);
    let created = keys::create(&console.app, &console.actor_for(project.tenant), project.id, new).await;
    let (key, text) = match created {
        Ok(created) => created,
        Err(error) => {
            if let Some((path, _)) = file {
                // The file is empty. If it cannot be removed, the key's error is still the one to report.
                let _ = std::fs::remove_file(path);
            }
            return Err(error.into());
        }
    };
    let id = key.id;
    let stored = KeyJson::from(key);
    let written = match file {
        Some((_, mut file)) => writeln!(file, "{text}")
            .and_then(|()| file.sync_all())
            .and_then(|()| console.printer.object(&stored)),
        None => print(console, stored, text),
    };
    written.and_then(|()| console.printer.flush()).map_err(|error| {
        let text = format!("key {id} was created, but it could not be written, so revoke it: {error}");
        Failure::Other(text).into()
    })
}

/// Prints a new key: in JSON as the API answers it, or only its text, so that a script can read it.
fn print(console: &mut Console<'_>, kept: KeyJson, key: String) -> io::Result<()> {
    if console.printer.is_json() {
        return console.printer.json(&CreatedKey { key, kept });
    }
    console.printer.text(&key)
}

async fn revoke(console: &mut Console<'_>, args: &KeyRevokeArgs) -> Result<(), CommandError> {
    let (tenant, key) = find::key(&console.app, &args.one.id).await?;
    let description = printable(&key.description);
    let question = format!("Revoke key {} ({description}) for good?", key.prefix);
    console.confirm(args.confirmation, &question)?;
    keys::revoke(&console.app, &console.actor_for(tenant), key.id).await?;
    let (_, key) = find::key(&console.app, &key.id.to_string()).await?;
    Ok(console.printer.object(&KeyJson::from(key))?)
}
